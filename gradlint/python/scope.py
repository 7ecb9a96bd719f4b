"""Static scopes: where in a file each node stands, and what the module, its functions and classes bind names to."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradlint.knowledge.torch_api import USUAL_NAMES
from gradlint.python import syntax as s
from gradlint.python.binding import BINDERS, bound_by, called, last
from gradlint.python.calls import bind, written
from gradlint.python.contexts import turns_off
from gradlint.records import dataclass, field

if TYPE_CHECKING:
    from gradlint.python.module import Module


class How(enum.Enum):
    """How a name has a value."""

    WHOLE = "it is the value"
    #: of a loop, of what is unpacked, of a context
    PART = "it is a part of it, or made of it"
    ADDED = "it holds the value, beside others"


@dataclass(frozen=True, slots=True)
class Binding:
    """One value that a name gets, or gets a part of."""

    value: s.Expr
    how: How = How.WHOLE
    #: under no_grad: no gradient goes through it
    quiet: bool = False
    #: the number of its statement, in the order of the file
    row: int = 0


@dataclass(slots=True, eq=False)
class Scope:
    """A function, a class body or the module as a place in which names are bound."""

    program: Module
    definition: s.Def | None = None
    #: the class whose body it is, or that it is a method of
    cls: s.Class | None = None
    outer: Scope | None = None
    names: dict[str, list[Binding]] = field(default_factory=dict)
    #: the functions and classes that it defines, and what it imports: local names to full ones
    defined: dict[str, list[s.Def | s.Class]] = field(default_factory=dict)
    imports: dict[str, list[str]] = field(default_factory=dict)
    #: names that get values out of sight, too: parameters of lambdas, and what functions say is `global`
    unsettled: set[str] = field(default_factory=set)

    @property
    def params(self) -> list[s.Param]:
        return self.definition.params if self.definition is not None else []

    def chain(self) -> Iterator[Scope]:
        """This one, then those round it. A method does not see what its class binds."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def owner(self, name: str) -> Scope | None:
        """The innermost of them that gives a name its meaning."""
        scope: Scope | None = self
        while scope is not None and not scope.binds(name):
            scope = scope.outer
        return scope

    def binds(self, name: str) -> bool:
        if name in self.names or name in self.defined or name in self.imports:
            return True
        return self.param(name) is not None

    def param(self, name: str) -> s.Param | None:
        for param in self.params:
            if param.name == name:
                return param
        return None

    def only(self, name: str) -> s.Expr | None:
        """The value of a name that this scope gives it once, by an assignment, and nobody in any other way."""
        values = [binding for binding in self.names.get(name, ()) if binding.how is not How.ADDED]
        if len(values) != 1 or values[0].how is not How.WHOLE or name in self.unsettled:
            return None
        others = name in self.defined or name in self.imports or self.param(name) is not None
        return None if others else values[0].value


class Scopes:
    """The index of one file; ask `program.once(Scopes)`."""

    def __init__(self, program: Module) -> None:
        self.program = program
        self.module = Scope(program)
        self.all: list[Scope] = [self.module]
        #: calls by the last part of the function's name, with the place of each
        self.calls: dict[str, list[tuple[s.Call, Scope]]] = {}
        #: what each class, by its node, binds `self.name` to, in any of its methods
        self.attributes: dict[int, dict[str, list[tuple[Binding, Scope]]]] = {}
        self.of_def: dict[int, Scope] = {}
        #: where each node stands: for an expression the statement, too, and its number
        self._places: dict[int, tuple[Scope, s.Stmt | None, int]] = {}
        self._exprs: dict[int, s.Expr] | None = None
        self._stmts: dict[int, s.Stmt] = {}
        #: the statement that a statement stands in
        self._above: dict[int, s.Stmt] = {}
        self._row = 0
        self._added: list[tuple[str, Binding, Scope]] = []
        self._visit(program.body, self.module, None, False)
        for name, binding, scope in self._added:
            values = (scope.owner(name) or scope).names.setdefault(name, [])
            values.append(binding)
            values.sort(key=lambda x: x.row)

    def of(self, node: int) -> Scope:
        place = self._places.get(node)
        return self.module if place is None else place[0]

    def expr(self, node: int) -> s.Expr | None:
        if self._exprs is None:
            exprs = (expr for stmt in self.program.statements() for expr in s.expressions(stmt))
            self._exprs = {part.node: part for expr in exprs for part in s.walk_expr(expr)}
        return self._exprs.get(node)

    def stmt(self, node: int) -> s.Stmt | None:
        return self._stmts.get(node)

    def row(self, node: int) -> int:
        """The number of the statement that an expression stands in."""
        place = self._places.get(node)
        return 0 if place is None else place[2]

    def stmt_of(self, node: int) -> s.Stmt | None:
        """The statement that an expression stands in."""
        place = self._places.get(node)
        return None if place is None else place[1]

    def around(self, stmt: s.Stmt) -> Iterator[s.Stmt]:
        """The statements that a statement stands in, from the inside out."""
        above = self._above.get(stmt.node)
        while above is not None:
            yield above
            above = self._above.get(above.node)

    # -- what names mean

    def dotted(self, expr: s.Expr, scope: Scope) -> str:
        """`U.clip_grad_norm_` -> `torch.nn.utils.clip_grad_norm_`, by what is imported there.

        A function or class of the file, and what nobody binds, has its own name; anything else has none.
        """
        found = self.meanings(expr, scope)
        return found[0] if found else ""

    def meanings(self, expr: s.Expr, scope: Scope) -> list[str]:
        """All full names that an expression may have, the first one first; "" among them: or something else."""
        match expr:
            case s.Name(id=name):
                owner = scope.owner(name)
                if owner is None or name in scope.unsettled:
                    return [""] if name in scope.unsettled else [USUAL_NAMES.get(name, name)]
                found = [*owner.imports.get(name, ()), *([name] if name in owner.defined else ())]
                values = owner.names.get(name, ())
                # `except ImportError: checkpoint = None` takes nothing from the name where it is called
                other = any(not (isinstance(x.value, s.Const) and x.value.value is None) for x in values)
                return [*found, ""] if other or owner.param(name) is not None or not found else found
            case s.Attr():
                return [f"{base}.{expr.name}" if base else "" for base in self.meanings(expr.base, scope)]
            case _:
                return [""]

    def bindings(self, name: str, scope: Scope) -> tuple[list[Binding], Scope] | None:
        """The values of a name in the innermost function that binds it; None if it is a parameter or unknown."""
        for place in scope.chain():
            if name in place.names:
                return place.names[name], place
            if place.param(name) is not None:
                return None
        return None

    def handed(self, name: str, scope: Scope) -> Iterator[tuple[s.Expr, Scope]]:
        """What the calls in this file hand to the parameter `name` of the function that has it."""
        owner = next((x for x in scope.chain() if x.param(name) is not None), None)
        if owner is None or owner.definition is None:
            return
        for call, place in self.calls_of(owner):
            params = owner.params[1:] if self._is_bound(call, owner, place) else owner.params
            given = written(call)
            if name in given.kwargs:
                yield given.kwargs[name], place
            elif not given.starred and name in (bound := bind(params, given).values):
                yield bound[name], place

    def calls_of(self, function: Scope) -> Iterator[tuple[s.Call, Scope]]:
        """The calls in this file that can be of a function, by what their names mean where they stand."""
        definition, callees = function.definition, self.program.callees
        if definition is None:
            return
        if definition.name == "__init__" and function.cls is not None:
            for call, place in self.calls.get(function.cls.name, ()):
                if any(cls is function.cls for cls in callees.classes_named(call.func, place)):
                    yield call, place
        for call, place in self.calls.get(definition.name, ()):
            if any(found is definition for found in callees.functions(call.func, place)):
                yield call, place

    def _is_bound(self, call: s.Call, owner: Scope, place: Scope) -> bool:
        """The first parameter is the object: it is no argument of this call."""
        if owner.cls is None or not owner.params or owner.definition is None:
            return False
        stands = self._places.get(owner.definition.node)
        if stands is None or stands[0].definition is not None or stands[0].cls is not owner.cls:
            return False  # a function inside a method
        if any(last(decorator) == "staticmethod" for decorator in owner.definition.decorators):
            return False
        func = call.func
        if not isinstance(func, s.Attr) or any(last(x) == "classmethod" for x in owner.definition.decorators):
            return True
        return not any(True for _ in self.program.callees.classes_named(func.base, place))  # `Net.forward(net, x)`

    def annotation(self, name: str, scope: Scope) -> s.Expr | None:
        found = (place.param(name) for place in scope.chain())
        return next((param.annotation for param in found if param is not None), None)

    def put_into(self, name: str) -> Iterator[tuple[s.Expr, Scope]]:
        """`model.fc = head`: what becomes a part of something later."""
        assigns = [stmt for stmt in self._stmts.values() if isinstance(stmt, s.Assign)]
        for stmt in assigns:
            for target in stmt.targets:
                if isinstance(target, s.Attr) and s.render(target.base) in (name, f"{name}.module"):
                    yield stmt.value, self.of(stmt.node)

    def mixes(self, made: frozenset[str], given: frozenset[str]) -> bool:
        """Something of the first names is made of, or gets, something of the second: a wrapper, a head, a shared layer.

        A deep copy shares nothing, and what a model computes is no model.
        """
        for stmt in self._stmts.values():
            if isinstance(stmt, s.Assign) and any(_mentions(t, made) for t in stmt.targets):
                if _mentions(stmt.value, given):
                    return True
            elif isinstance(stmt, s.ExprStmt) and isinstance(stmt.value, s.Call):
                func = stmt.value.func
                if isinstance(func, s.Attr) and func.name in _GIVES and _mentions(func.base, made):
                    if any(_mentions(a, given) for a in (*stmt.value.args, *stmt.value.kwargs.values())):
                        return True
        return False

    # -- building

    def _visit(self, body: list[s.Stmt], scope: Scope, above: s.Stmt | None, quiet: bool) -> None:
        here = scope, None, 0
        for stmt in body:
            self._places[stmt.node] = here
            self._stmts[stmt.node] = stmt
            if above is not None:
                self._above[stmt.node] = above
            self._row += 1
            place = scope, stmt, self._row
            inside: list[s.Expr] = []
            for expr in s.expressions(stmt):
                said = self.program.said(expr)
                self._places.update(dict.fromkeys(said.nodes, place))
                inside += said.binding
                if said.calls:
                    self._note_calls(said.calls, scope, quiet)
            for bound in bound_by(stmt, inside) if inside or type(stmt) in BINDERS else ():
                if bound.source is not None:
                    how = How.WHOLE if isinstance(stmt, s.Assign) and bound.source is stmt.value else How.PART
                    self._bind(bound.target, Binding(bound.source, how, quiet, self._row), scope)
                elif not isinstance(stmt, s.Def | s.Class) or last(bound.target) != stmt.name:
                    scope.unsettled.add(last(bound.target))
            self._enter(stmt, scope, quiet)

    def _enter(self, stmt: s.Stmt, scope: Scope, quiet: bool) -> None:
        match stmt:
            case s.Import():
                for local, dotted in stmt.bindings.items():
                    scope.imports.setdefault(local, []).append(dotted)
            case s.Scope():
                self.module.unsettled.update(stmt.names)  # what a function does to the names of others
            case s.Def():
                scope.defined.setdefault(stmt.name, []).append(stmt)
                is_body = scope.cls is not None and scope.definition is None
                self.of_def[stmt.node] = inner = Scope(self.program, stmt, scope.cls, scope.outer if is_body else scope)
                self.all.append(inner)
                off = turns_off(stmt.decorators, lambda expr: self.dotted(expr, scope))
                self._visit(stmt.body, inner, stmt, off)
            case s.Class():
                scope.defined.setdefault(stmt.name, []).append(stmt)
                inner = Scope(self.program, None, stmt, scope)
                self.all.append(inner)
                self._visit(stmt.body, inner, stmt, quiet)
            case _:
                items = [item for item, _ in stmt.items] if isinstance(stmt, s.With) else []
                under = turns_off(items, lambda expr: self.dotted(expr, scope), outside=quiet)
                for block in s.blocks(stmt):
                    self._visit(block, scope, stmt, under)

    def _note_calls(self, calls: Iterable[s.Call], scope: Scope, quiet: bool) -> None:
        for call in calls:
            name = called(call)
            if name in self.calls:
                self.calls[name].append((call, scope))
            else:
                self.calls[name] = [(call, scope)]
            if name in ("append", "extend") and isinstance(call.func, s.Attr) and call.args:
                self._bind(call.func.base, Binding(call.args[0], How.ADDED, quiet, self._row), scope)

    def _bind(self, target: s.Expr, binding: Binding, scope: Scope) -> None:
        match target:
            case s.Name() if binding.how is How.ADDED:
                self._added.append((target.id, binding, scope))  # it is that of whoever binds it
            case s.Name():
                scope.names.setdefault(target.id, []).append(binding)
            case s.Attr(base=s.Name(id="self")) if scope.cls is not None:
                known = self.attributes.setdefault(scope.cls.node, {})
                known.setdefault(target.name, []).append((binding, scope))
            case s.Sequence():
                self._unpack(target, binding, scope)
            case s.Star():
                self._bind(target.value, _changed(binding, How.PART), scope)
            case s.Item():
                self._bind(target.base, _changed(binding, How.ADDED), scope)
            case _:
                return

    def _unpack(self, target: s.Sequence, binding: Binding, scope: Scope) -> None:
        """`a, b = f(), g()` by pairs; otherwise each name gets a part of the value."""
        values = binding.value.items if isinstance(binding.value, s.Sequence) else []
        if len(values) == len(target.items) and not any(isinstance(x, s.Star) for x in (*values, *target.items)):
            for element, value in zip(target.items, values, strict=True):
                self._bind(element, Binding(value, binding.how, binding.quiet, binding.row), scope)
            return
        for element in target.items:
            self._bind(element, _changed(binding, How.PART), scope)


#: methods by which a module gets another one
_GIVES = {"add_module", "register_module", "append", "extend", "insert"}


def _changed(binding: Binding, how: How) -> Binding:
    return Binding(binding.value, how, binding.quiet, binding.row)


def _mentions(expr: s.Expr, names: frozenset[str]) -> bool:
    stack = [expr]
    while stack:
        part = stack.pop()
        if isinstance(part, s.Call) and called(part) in ("deepcopy", "state_dict", "copy"):
            continue
        if last(part) in names:
            return True
        stack.extend(s.parts(part))
    return False
