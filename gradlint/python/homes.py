"""Where in a file each node stands, and what each function and class binds its names to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.knowledge.torch_api import USUAL_NAMES
from gradlint.python import syntax as s
from gradlint.python.binding import bound_by, called, last
from gradlint.python.classes import Classes
from gradlint.python.contexts import turns_off
from gradlint.records import dataclass, field

if TYPE_CHECKING:
    from gradlint.python.module import Program


@dataclass(frozen=True, slots=True)
class Binding:
    """One value that a name gets, or gets a part of."""

    value: s.Expr
    #: under no_grad: no gradient goes through it
    quiet: bool = False
    #: the number of its statement, in the order of the file
    row: int = 0


@dataclass(slots=True, eq=False)
class Home:
    """A function (or the module) as a place in which names are bound."""

    definition: s.Def | None = None
    cls: s.Class | None = None
    outer: Home | None = None
    names: dict[str, list[Binding]] = field(default_factory=dict)
    #: the functions and classes that it defines, and what it imports: local names to full ones
    defined: dict[str, list[s.Def | s.Class]] = field(default_factory=dict)
    imports: dict[str, list[str]] = field(default_factory=dict)

    @property
    def params(self) -> list[s.Param]:
        return self.definition.params if self.definition is not None else []

    def chain(self) -> Iterator[Home]:
        """This one, then those round it."""
        home: Home | None = self
        while home is not None:
            yield home
            home = home.outer

    def owner(self, name: str) -> Home | None:
        """The innermost of them that gives a name its meaning."""
        return next((home for home in self.chain() if home.binds(name)), None)

    def binds(self, name: str) -> bool:
        if name in self.names or name in self.defined or name in self.imports:
            return True
        return any(param.name == name for param in self.params)


class Homes:
    """The index of one file; made when a rule first asks something that needs it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.module = Home()
        self.all: list[Home] = [self.module]
        #: calls by the last part of the function's name, with the place of each
        self.calls: dict[str, list[tuple[s.Call, Home]]] = {}
        #: what each class binds `self.name` to, in any of its methods
        self.attributes: dict[str, dict[str, list[tuple[Binding, Home]]]] = {}
        self.of_def: dict[int, Home] = {}
        self._of_node: dict[int, Home] = {}
        self._exprs: dict[int, s.Expr] = {}
        self._stmts: dict[int, s.Stmt] = {}
        #: the statement that an expression stands in, and its number
        self._rows: dict[int, tuple[s.Stmt, int]] = {}
        self._row = 0
        self._visit(program.body, self.module, None, False)

    def home(self, node: int) -> Home:
        return self._of_node.get(node, self.module)

    def expr(self, node: int) -> s.Expr | None:
        return self._exprs.get(node)

    def stmt(self, node: int) -> s.Stmt | None:
        return self._stmts.get(node)

    def row(self, node: int) -> int:
        """The number of the statement that an expression stands in."""
        return self._rows[node][1] if node in self._rows else 0

    def stmt_of(self, node: int) -> s.Stmt | None:
        """The statement that an expression stands in."""
        return self._rows[node][0] if node in self._rows else None

    def dotted(self, expr: s.Expr, home: Home) -> str:
        """`U.clip_grad_norm_` -> `torch.nn.utils.clip_grad_norm_`, by what is imported there; "" if not a name."""
        match expr:
            case s.Name():
                place = home.owner(expr.id)
                if place is None:
                    return self.program.imports.get(expr.id, USUAL_NAMES.get(expr.id, expr.id))
                return place.imports[expr.id][0] if expr.id in place.imports else expr.id
            case s.Attr():
                base = self.dotted(expr.base, home)
                return f"{base}.{expr.name}" if base else ""
            case _:
                return ""

    def bindings(self, name: str, home: Home) -> tuple[list[Binding], Home] | None:
        """The values of a name in the innermost function that binds it; None if it is a parameter or unknown."""
        for place in home.chain():
            if name in place.names:
                return place.names[name], place
            if any(p.name == name for p in place.params):
                return None
        return None

    def handed(self, name: str, home: Home) -> Iterator[tuple[s.Expr, Home]]:
        """What the calls in this file hand to the parameter `name` of the function that has it."""
        owner = next((h for h in home.chain() if any(p.name == name for p in h.params)), None)
        if owner is None or owner.definition is None:
            return
        params = [p.name for p in owner.params if not p.star]
        if owner.cls is not None and params[:1] == ["self"]:
            params = params[1:]
        called = owner.definition.name
        if called == "__init__" and owner.cls is not None:
            called = owner.cls.name
        for call, place in self.calls.get(called, []):
            if name in call.kwargs:
                yield call.kwargs[name], place
            elif name in params and params.index(name) < len(call.args) and not call.starred:
                yield call.args[params.index(name)], place

    def annotation(self, name: str, home: Home) -> s.Expr | None:
        for place in home.chain():
            for param in place.params:
                if param.name == name:
                    return param.annotation
        return None

    def attribute(self, cls: s.Class, name: str) -> list[tuple[Binding, Home]]:
        """What `self.name` is in a class, or in the nearest base that has it."""
        known = (self.attributes.get(one.name, {}).get(name, []) for one in self.program.once(Classes).lineage(cls))
        return next((found for found in known if found), [])

    def put_into(self, name: str) -> Iterator[tuple[s.Expr, Home]]:
        """`model.fc = head`: what becomes a part of something later."""
        assigns = [stmt for stmt in self._stmts.values() if isinstance(stmt, s.Assign)]
        for stmt in assigns:
            for target in stmt.targets:
                if isinstance(target, s.Attr) and s.render(target.base) in (name, f"{name}.module"):
                    yield stmt.value, self.home(stmt.node)

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

    def _visit(self, body: list[s.Stmt], home: Home, cls: s.Class | None, quiet: bool) -> None:
        for stmt in body:
            self._of_node[stmt.node] = home
            self._stmts[stmt.node] = stmt
            self._row += 1
            for expr in s.expressions(stmt):
                self._visit_expr(expr, stmt, home, quiet)
            for bound in bound_by(stmt):
                if bound.source is not None:
                    self._bind(bound.target, Binding(bound.source, quiet, self._row), home)
            if isinstance(stmt, s.Import):
                for local, dotted in stmt.bindings.items():
                    home.imports.setdefault(local, []).append(dotted)
            elif isinstance(stmt, s.Def | s.Class) and cls is None:
                home.defined.setdefault(stmt.name, []).append(stmt)
            if isinstance(stmt, s.Def):
                inner = Home(stmt, cls or home.cls, home)
                self.all.append(inner)
                self.of_def[stmt.node] = inner
                off = turns_off(stmt.decorators, lambda expr: self.dotted(expr, home))
                self._visit(stmt.body, inner, None, off)
            elif isinstance(stmt, s.Class):
                self._visit(stmt.body, home, stmt, quiet)
            else:
                items = [item for item, _ in stmt.items] if isinstance(stmt, s.With) else []
                under = turns_off(items, lambda expr: self.dotted(expr, home), outside=quiet)
                for block in s.blocks(stmt):
                    self._visit(block, home, cls, under)

    def _visit_expr(self, expr: s.Expr, stmt: s.Stmt, home: Home, quiet: bool) -> None:
        for part in s.walk_expr(expr):
            self._of_node[part.node] = home
            self._exprs[part.node] = part
            self._rows[part.node] = stmt, self._row
            if isinstance(part, s.Call):
                name = called(part)
                self.calls.setdefault(name, []).append((part, home))
                if isinstance(part.func, s.Attr) and name in ("append", "extend") and part.args:
                    self._bind(part.func.base, Binding(part.args[0], quiet, self._row), home)

    def _bind(self, target: s.Expr, binding: Binding, home: Home) -> None:
        match target:
            case s.Name():
                home.names.setdefault(target.id, []).append(binding)
            case s.Attr(base=s.Name(id="self")) if home.cls is not None:
                known = self.attributes.setdefault(home.cls.name, {})
                known.setdefault(target.name, []).append((binding, home))
            case s.Sequence():
                self._unpack(target, binding, home)
            case s.Star(value=inner) | s.Item(base=inner):
                self._bind(inner, binding, home)
            case _:
                return

    def _unpack(self, target: s.Sequence, binding: Binding, home: Home) -> None:
        """`a, b = f(), g()` by pairs; otherwise each name gets a part of the value."""
        values = binding.value.items if isinstance(binding.value, s.Sequence) else []
        if len(values) != len(target.items) or any(isinstance(x, s.Star) for x in (*values, *target.items)):
            values = [binding.value] * len(target.items)
        for element, value in zip(target.items, values, strict=True):
            self._bind(element, Binding(value, binding.quiet, binding.row), home)


#: methods by which a module gets another one
_GIVES = {"add_module", "register_module", "append", "extend", "insert"}


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
