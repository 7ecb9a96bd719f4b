"""Which functions of the file a call can be of: names are looked up where they stand, never compared alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from gradlint.knowledge.torch_api import MODULE_PASSTHROUGH
from gradlint.python import syntax as s
from gradlint.python.classes import Classes
from gradlint.python.scope import Scope, Scopes

if TYPE_CHECKING:
    from gradlint.python.module import Module
    from gradlint.python.project import Definition

#: what runs when an object is made, or called
_RUN_BY_CALL = ("__init__", "__call__")
#: through so many hands an object is followed to the place where it was made; Python's stack has an end
_DEEPEST = 200


class Callees:
    """The functions that calls lead to; ask `program.once(Callees)`.

    A function that is handed on may be called by whoever gets it, and counts as called where it is handed on.
    """

    def __init__(self, program: Module) -> None:
        self._program = program
        self._scopes = program.once(Scopes)
        self._classes = program.once(Classes)
        self._of_call: dict[int, tuple[s.Def, ...]] = {}
        self._of_body: dict[int, tuple[s.Def, ...]] = {}
        #: blocks that are known: while they are kept, their ids are theirs
        self._kept: list[list[s.Stmt]] = []
        self._derived: dict[int, list[s.Class]] = {}
        for cls in program.classes.values():
            for base in self._classes.lineage(cls):
                if base is not cls:
                    self._derived.setdefault(id(base), []).append(cls)
        #: by node; what is being looked for is nothing yet, so that a value that stands for itself is none
        self._functions_of: dict[int, tuple[s.Def, ...]] = {}
        #: the names that objects of the project's classes may have something by, or modules of other files
        self._kept_names = {name for kept in self._scopes.attributes.values() for name in kept}
        if program.project is not None:
            self._kept_names |= program.project.members
        self._classes_of: dict[int, tuple[s.Class, ...]] = {}
        self._depth = 0

    def under(self, body: list[s.Stmt]) -> tuple[s.Def, ...]:
        """Those that a block leads to at once, each once."""
        known = self._of_body.get(id(body))
        if known is None:
            found: dict[int, s.Def] = {}
            for stmt in body:
                for expr in s.expressions(stmt):
                    for definition in self.of_expression(expr):
                        found[id(definition)] = definition
                for block in s.blocks(stmt):
                    for definition in self.under(block) if block else ():
                        found[id(definition)] = definition
            known = self._of_body[id(body)] = tuple(found.values())
            self._kept.append(body)
        return known

    def of_expression(self, expr: s.Expr) -> Iterator[s.Def]:
        for call in self._program.said(expr).calls:
            yield from self.of(call)

    def of(self, call: s.Call) -> tuple[s.Def, ...]:
        known = self._of_call.get(call.node)
        if known is None:
            found = {id(d): d for d in self._found(call)}
            known = self._of_call[call.node] = tuple(found.values())
        return known

    def of_class(self, cls: s.Class) -> Iterator[s.Def]:
        """What runs when an object is made, and when it is called."""
        for name in _RUN_BY_CALL:
            yield from self.method(cls, name)

    def _found(self, call: s.Call) -> Iterator[s.Def]:
        scope = self._scopes.of(call.node)
        if not self._is_unknown(call.func):
            yield from self._meant(call.func, scope)
        for handed in (*call.args, *call.kwargs.values()):
            if isinstance(handed, s.Name | s.Attr):
                yield from self.functions(handed, scope)

    def _meant(self, func: s.Expr, scope: Scope) -> Iterator[s.Def]:
        """What runs when this is called."""
        yield from self.functions(func, scope)
        for cls in self.classes_named(func, scope):
            yield from self.of_class(cls)
        for cls in self.classes(func, scope):
            yield from self.method(cls, "__call__")

    def functions(self, expr: s.Expr, scope: Scope) -> tuple[s.Def, ...]:
        """The functions and methods that an expression can be."""
        if self._is_unknown(expr):
            return ()
        known = self._functions_of.get(expr.node)
        if known is None:
            self._functions_of[expr.node] = ()
            found = {id(d): d for d in self._functions_meant(expr, scope)}
            known = self._functions_of[expr.node] = tuple(found.values())
        return known

    def _is_unknown(self, expr: s.Expr) -> bool:
        """A method of nothing that is defined: nobody keeps anything under this name, and no function has it."""
        return isinstance(expr, s.Attr) and not self._is_kept(expr.name) and expr.name not in self._program.functions

    def _is_kept(self, name: str) -> bool:
        return name in self._kept_names or not name.isascii()  # in other files, words are those of bytes

    def _functions_meant(self, expr: s.Expr, scope: Scope) -> Iterator[s.Def]:
        match expr:
            case s.Name():
                place = scope.owner(expr.id)
                found = self._elsewhere(expr, scope)
                if found is not None and isinstance(found.node, s.Def):
                    yield found.node
                if place is None:
                    return
                yield from (d for d in place.defined.get(expr.id, ()) if isinstance(d, s.Def))
                for binding in place.names.get(expr.id, ()):
                    yield from self._in_value(binding.value, place)
            case s.Attr(base=s.Call(func=s.Name(id="super"))):
                for base in self._classes.lineage(scope.cls)[1:] if scope.cls is not None else ():
                    yield from self._own(base, expr.name)
            case s.Attr():
                found = self._elsewhere(expr, scope)
                if found is not None and isinstance(found.node, s.Def):
                    yield found.node
                    return
                for cls in (*self.classes(expr.base, scope), *self.classes_named(expr.base, scope)):
                    yield from self.method(cls, expr.name)
                    yield from self.owner(cls)._kept_in(cls, expr.name)
            case _:
                return

    def _kept_in(self, cls: s.Class, name: str) -> Iterator[s.Def]:
        """`self.advance = partial(update, optimizer)`."""
        for binding, scope in self._classes.attribute(cls, name):
            yield from self._in_value(binding.value, scope)

    def owner(self, node: s.Node) -> Callees:
        """Those of the program that a node is of."""
        program = self._program.owner(node.node)
        return self if program is self._program else program.callees

    def _elsewhere(self, expr: s.Expr, scope: Scope) -> Definition | None:
        """What an imported name means in another file."""
        if self._program.project is None:
            return None
        first = expr
        while isinstance(first, s.Attr):
            first = first.base
        if not isinstance(first, s.Name):
            return None
        place = scope.owner(first.id)
        if place is None:
            return self._program.of_star(s.render(expr))
        return self._program.elsewhere(self._scopes.dotted(expr, scope)) if first.id in place.imports else None

    def _in_value(self, value: s.Expr, scope: Scope) -> Iterator[s.Def]:
        """`go = partial(update, optimizer)`, `go = lambda: update(x)`: a call of one is a call of the other."""
        match value:
            case s.Name() | s.Attr():
                yield from self.functions(value, scope)
            case s.Lambda():
                yield from self.of_expression(value.body)
            case s.Call():
                for part in (*value.args, *value.kwargs.values()):
                    if isinstance(part, s.Name | s.Attr):
                        yield from self.functions(part, scope)
            case s.IfExp():
                yield from self._in_value(value.then, scope)
                yield from self._in_value(value.other, scope)
            case _:
                return

    def method(self, cls: s.Class, name: str) -> Iterator[s.Def]:
        """A method of a class, its bases' if it has none itself, and those that its subclasses have instead."""
        owner = self.owner(cls)
        if owner is not self:
            yield from owner.method(cls, name)
            return
        own = self._classes.method(cls, name)
        if own is not None:
            yield own
        for other in self._derived.get(id(cls), ()):
            # one that has it from another base, a mixin
            mixed = self._classes.method(other, name) if own is None else None
            yield from self._own(other, name) if mixed is None else (mixed,)

    def is_missing(self, call: s.Expr) -> bool:
        """`self.start()` in a class that has neither bases nor such a method: who derives from it has."""
        if not (isinstance(call, s.Call) and isinstance(call.func, s.Attr)):
            return False
        cls = self._scopes.of(call.node).cls if s.render(call.func.base) == "self" else None
        if cls is None or cls.bases or self.of(call):
            return False
        return self._classes.member(cls, call.func.name) is None and not self._classes.attribute(cls, call.func.name)

    def inherited(self, cls: s.Class) -> Iterator[s.Def]:
        """The methods that a class has from classes of other files, and does not replace; what there only such methods
        call that it does replace is not asked for."""
        own: set[str] = set()
        theirs: list[s.Def] = []
        for one in self._classes.lineage(cls):
            methods = [d for d in one.body if isinstance(d, s.Def)]
            if self.owner(one) is self:
                own |= {d.name for d in methods}
            else:
                theirs += methods
        kept = [d for d in theirs if d.name not in own]
        lost = {callee.node for d in theirs if d.name in own for callee in self._program.called_by(d)}
        if lost:
            lost -= {callee.node for d in kept for callee in self._program.called_by(d) if callee is not d}
        yield from (d for d in kept if d.node not in lost)

    def _own(self, cls: s.Class, name: str) -> Iterator[s.Def]:
        found = self._classes.own_method(cls, name)
        if found is not None:
            yield found

    # -- the classes of objects

    def classes_named(self, expr: s.Expr, scope: Scope) -> Iterator[s.Class]:
        """The class that a name means."""
        if isinstance(expr, s.Name):
            place = scope.owner(expr.id)
            yield from (d for d in place.defined.get(expr.id, ()) if isinstance(d, s.Class)) if place else ()
        if isinstance(expr, s.Name | s.Attr):
            found = self._elsewhere(expr, scope)
            if found is not None and isinstance(found.node, s.Class):
                yield found.node

    def classes(self, expr: s.Expr, scope: Scope) -> tuple[s.Class, ...]:
        """The classes of the file that an object can be of; none if the file does not say."""
        if isinstance(expr, s.Attr) and not self._is_kept(expr.name):
            return ()
        known = self._classes_of.get(expr.node)
        if known is None and isinstance(expr, s.Name) and (cls := _class_of_self(expr.id, scope.owner(expr.id))):
            known = self._classes_of[expr.node] = (cls,)
        if known is None and self._depth < _DEEPEST:
            self._classes_of[expr.node] = ()
            self._depth += 1
            found = {id(cls): cls for cls in self._classes_meant(expr, scope)}
            self._depth -= 1
            known = self._classes_of[expr.node] = tuple(found.values())
        return known or ()

    def _classes_meant(self, expr: s.Expr, scope: Scope) -> Iterator[s.Class]:
        match expr:
            case s.Name():
                yield from self._classes_of_name(expr.id, scope)
            case s.Attr():
                for cls in self.classes(expr.base, scope):
                    owner = self.owner(cls)
                    for binding, place in owner._classes.attribute(cls, expr.name):
                        yield from owner.classes(binding.value, place)
            case s.Call(func=s.Attr(base=base, name=name)) if name in MODULE_PASSTHROUGH:
                yield from self.classes(base, scope)
            case s.Call():
                yield from self.classes_named(expr.func, scope)
                yield from self._returned(self.functions(expr.func, scope))
            case s.IfExp():
                yield from self.classes(expr.then, scope)
                yield from self.classes(expr.other, scope)
            case s.Bool():
                for item in expr.items:
                    yield from self.classes(item, scope)
            case _:
                return

    def _classes_of_name(self, name: str, scope: Scope) -> Iterator[s.Class]:
        place = scope.owner(name)
        if place is None:
            return
        if name in place.names:
            for binding in place.names[name]:
                yield from self.classes(binding.value, place)
            return
        param = next((p for p in place.params if p.name == name), None)
        if param is None:
            return
        if param.annotation is not None:
            yield from self.classes_named(param.annotation, place)
        for value, caller in self._scopes.handed(name, place):
            yield from self.classes(value, caller)

    def _returned(self, functions: Iterable[s.Def]) -> Iterator[s.Class]:
        for definition in functions:
            owner = self.owner(definition)
            inner = owner._scopes.of_def.get(definition.node)
            for stmt in s.walk_stmts(definition.body) if inner is not None else ():
                if isinstance(stmt, s.Return) and stmt.value is not None and inner is not None:
                    yield from owner.classes(stmt.value, inner)


def _class_of_self(name: str, place: Scope | None) -> s.Class | None:
    """That of the first parameter of a method, whatever it is called, unless the method binds it anew."""
    is_first = place is not None and bool(place.params) and place.params[0].name == name and name not in place.names
    return place.cls if place is not None and is_first else None


def components(edges: Mapping[int, Iterable[int]]) -> Iterator[set[int]]:
    """Numbers that lead to each other, together; what they lead to comes before them (Tarjan's algorithm)."""
    order: dict[int, int] = {}
    lowest: dict[int, int] = {}
    path: list[int] = []
    open_: set[int] = set()
    for root in edges:
        waiting = [(root, iter(edges[root]))] if root not in order else []
        while waiting:
            name, rest = waiting[-1]
            if name not in order:
                order[name] = lowest[name] = len(order)
                path.append(name)
                open_.add(name)
            for other in rest:
                if other not in order:
                    waiting.append((other, iter(edges[other])))
                    break
                if other in open_:
                    lowest[name] = min(lowest[name], lowest[other])
            else:
                waiting.pop()
                if waiting:
                    above = waiting[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == order[name]:
                    found = {name}
                    while (last := path.pop()) != name:
                        found.add(last)
                    open_ -= found
                    yield found
