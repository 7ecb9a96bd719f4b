"""Cuts a program down to the statements that can matter to gradients, so that running it abstractly is cheap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradlint.knowledge import naming
from gradlint.knowledge.torch_api import HOOKS
from gradlint.knowledge.words import CONTEXTS, EVENT_METHODS, PREPARES
from gradlint.python import syntax as s
from gradlint.python.usage import Use

if TYPE_CHECKING:
    from gradlint.python.module import Module

_MUTATES = {
    "append",
    "extend",
    "update",
    "add",
    "insert",
    "setdefault",
    "pop",
    "clear",
    "add_param_group",
    "enter_context",
    # arithmetic on a loss, in place
    "div_",
    "divide_",
    "true_divide_",
    "mul_",
    "multiply_",
    "add_",
    "sub_",
}
_EVENT_WORDS = EVENT_METHODS | HOOKS | CONTEXTS | {
    "grad", "master_params", "optimizers", "set_gradient_accumulation_boundary", "automatic_optimization",
}  # fmt: skip
#: stands among what is called where something gets `self`; no name is written so
HANDS_SELF_ON = "(self)"
_MATTERS_IN_CALLEES = HOOKS | PREPARES | {HANDS_SELF_ON}
#: functions that do not come back
LEAVES = frozenset({"exit", "_exit", "quit", "abort"})


class Slice:
    """The names whose values matter, and the statements that make them."""

    def __init__(self, program: Module) -> None:
        self._program = program
        self._names: dict[int, set[str]] = {}
        #: names that are those of events, or suggest one; and of helpers from elsewhere that may touch gradients
        self._suggestive = {name for name in program.usage.named if self._suggests(name)}
        self._touching = {name for name in program.usage.named if naming.touches_gradients(name)}
        #: the expressions that are known to have to do with gradients, or, once all names are known, not to
        self._eventful: dict[int, bool] = {}
        #: what a function counts or optimizes with, by its node, and what expressions do by what they call
        self._changes: dict[int, set[str]] = {}
        self._changed: dict[int, set[str]] = {}
        self._settled = False
        self.needed: set[str] = set()
        self._find_needed()
        self._settled = True

    def cut(self, body: list[s.Stmt]) -> list[s.Stmt]:
        """The block without what does not matter; definitions keep their (cut) bodies."""
        out: list[s.Stmt] = []
        for stmt in body:
            kept = self._cut_one(stmt)
            if kept is not None:
                out.append(kept)
        return out

    # -- which names

    def _find_needed(self) -> None:
        flows: list[tuple[set[str], set[str]]] = []
        returns: dict[str, set[str]] = {}
        for name, defs in self._program.functions.items():
            found: set[str] = set()
            for definition in defs:
                for stmt in s.walk_stmts(definition.body):
                    if isinstance(stmt, s.Return) and stmt.value is not None:
                        found |= self._of(stmt.value)
            returns[name] = found
        needed: set[str] = set()
        for stmt in self._program.statements():
            if isinstance(stmt, s.Assign) and not self._of(stmt.value).isdisjoint(_EVENT_WORDS):
                # `advance = optimizer.step`, `step = lambda: …`: a call of that name is an event
                for target in stmt.targets:
                    self._suggestive |= bound(target) - {"self"}
            flows.extend(self._flows(stmt))
            if self._is_event(stmt):
                for expr in s.expressions(stmt):
                    needed |= self._of(expr)
        for name, found in returns.items():
            flows.append(({name}, found))
        for cls in self._program.classes.values():
            # a module that is made may divide what its forward returns
            flows.append(({cls.name}, self._returned_by(cls)))
        project = self._program.project
        if project is not None and project.main is not self._program:
            # whoever calls them from another file may want what they return
            needed |= {stmt.name for stmt in self._program.body if isinstance(stmt, s.Def)}
        self.needed = _closure(needed | self._needed_elsewhere(), flows)

    def _needed_elsewhere(self) -> set[str]:
        """The names in the functions of other files that are called, or inherited, and have to do with gradients."""
        program = self._program
        if program.project is None:
            return set()
        every = (program.body, *(d.body for definitions in program.functions.values() for d in definitions))
        waiting = [d for body in every for d in program.callees.under(body)]
        waiting += [d for cls in program.classes.values() for d in program.callees.inherited(cls)]
        seen: dict[int, s.Def] = {}
        while waiting:
            current = waiting.pop()
            if current.node not in seen and program.owner(current.node) is not program:
                seen[current.node] = current
                waiting.extend(program.called_by(current))
        eventful = [d for d in seen.values() if program.words_of(d).events]
        return set().union(*(program.owner(d.node).own_words(d.body).seen for d in eventful))

    def _returned_by(self, cls: s.Class) -> set[str]:
        found: set[str] = set()
        for stmt in s.walk_stmts([d for d in cls.body if isinstance(d, s.Def) and d.name != "__init__"]):
            if isinstance(stmt, s.Return) and stmt.value is not None:
                found |= self._of(stmt.value)
        return found

    def _flows(self, stmt: s.Stmt) -> Iterator[tuple[set[str], set[str]]]:
        """(names that get a value here, names that it is made of)."""
        match stmt:
            case s.Assign():
                made = self._of(stmt.value)
                for target in stmt.targets:
                    yield bound(target), made
            case s.AugAssign():
                yield bound(stmt.target), self._of(stmt.value)
            case s.For():
                yield bound(stmt.target), self._of(stmt.iterable)
            case s.With():
                for item, alias in stmt.items:
                    if alias is not None:
                        yield bound(alias), self._of(item)
            case s.ExprStmt() if isinstance(stmt.value, s.Call) and isinstance(stmt.value.func, s.Attr):
                if stmt.value.func.name in _MUTATES:
                    yield bound(stmt.value.func.base), self._of(stmt.value)
                elif stmt.value.func.name == "register_buffer" and stmt.value.args:
                    name = stmt.value.args[0]
                    yield {str(name.value) if isinstance(name, s.Const) else ""}, self._of(stmt.value)
            case _:
                pass
        if isinstance(stmt, s.ExprStmt | s.Assign) and self._program.said(stmt.value).calls:
            yield self._changed_by(stmt.value), self._of(stmt.value)

    def _changed_by(self, expr: s.Expr) -> set[str]:
        """`progress.tick()`: the attributes that the called functions of the file count with, or optimize with."""
        known = self._changed.get(id(expr))
        if known is not None:
            return known
        found = self._changed[id(expr)] = set()
        waiting, seen = [*self._program.callees.of_expression(expr)], set()
        while waiting:
            definition = waiting.pop()
            if definition.node not in seen and definition.name != "__init__":
                seen.add(definition.node)
                found |= self._changes_in(definition)
                waiting.extend(self._program.called_by(definition))
        return found

    def _changes_in(self, definition: s.Def) -> set[str]:
        found = self._changes.get(definition.node)
        if found is None:
            found = self._changes[definition.node] = set()
            shared: set[str] = set()
            for stmt in s.walk_stmts(definition.body):
                match stmt:
                    case s.Scope():
                        shared |= set(stmt.names)
                    case s.AugAssign(target=target):
                        found |= _kept(target, shared)
                    case s.Assign():
                        kept = set().union(*(_kept(target, shared) for target in stmt.targets))
                        found |= {name for name in kept if _acts(name)}
                        found |= kept & self._of(stmt.value) if isinstance(stmt.value, s.Bin) else set()
                    case _:
                        pass
        return found

    def _is_event(self, stmt: s.Stmt) -> bool:
        """The statement itself, or a block of it, has to do with gradients."""
        if isinstance(stmt, s.Def | s.Class):
            return False
        for expr in s.expressions(stmt):
            if self._event_expr(expr):
                return True
        return any(self._program.words(b).events or self._program.words(b).contexts for b in s.blocks(stmt) if b)

    def _event_expr(self, expr: s.Expr) -> bool:
        known = self._eventful.get(id(expr))
        if known is None:
            known = self._is_eventful(expr)
            if known or self._settled:  # a name that is met later may make it so
                self._eventful[id(expr)] = known
        return known

    def _is_eventful(self, expr: s.Expr) -> bool:
        said = self._program.said(expr)
        if not said.names.isdisjoint(self._suggestive):
            return True
        if not said.calls:
            return False
        if not said.callees.isdisjoint(self._touching) or HANDS_SELF_ON in said.called:
            return True
        for definition in self._program.callees.of_expression(expr):
            words = self._program.words_of(definition)
            if words.events or words.contexts or not words.called.isdisjoint(_MATTERS_IN_CALLEES):
                return True
        return False

    def _hands_window(self, call: s.Call) -> bool:
        """`finish_window(model, n)`: a model, or gradients, and the number of micro-batches; it may average these."""
        names = self._of(call)
        counted = not names.isdisjoint(self._program.usage.texts(Use.COUNTED_TO))
        return counted and any(naming.MODEL.search(name) or naming.speaks_of_gradients(name) for name in names)

    def _suggests(self, name: str) -> bool:
        """An event function or an alias of one, or an optimizer that is handed on."""
        if name in _EVENT_WORDS or name == "self":
            return name != "self"
        tail = self._program.imports.get(name, "").rpartition(".")[2]
        return tail in _EVENT_WORDS or bool(naming.OPTIMIZER.search(name))

    def _of(self, expr: s.Expr) -> set[str]:
        """All identifiers in an expression."""
        found = self._names.get(id(expr))
        if found is None:
            found = self._names[id(expr)] = self._program.said(expr).names - {"self"}
        return found

    # -- which statements

    def _cut_one(self, stmt: s.Stmt) -> s.Stmt | None:
        match stmt:
            case s.Def():
                return s.Def(stmt.node, stmt.name, stmt.params, self.cut(stmt.body), stmt.decorators, stmt.generator)
            case s.Class():
                return s.Class(stmt.node, stmt.name, stmt.bases, self.cut(stmt.body), stmt.decorators, stmt.fields)
            case s.Import() | s.Return() | s.Jump() | s.Scope():
                return stmt
            case s.ExprStmt() | s.Assign() | s.AugAssign():
                return stmt if self._matters(stmt) else None
            case s.If():
                return self._cut_if(stmt)
            case s.For():
                body, orelse = self.cut(stmt.body), self.cut(stmt.orelse)
                if _does(body) or _does(orelse):
                    return s.For(stmt.node, stmt.target, stmt.iterable, body, orelse)
                return s.ExprStmt(stmt.node, stmt.iterable) if self._event_expr(stmt.iterable) else None
            case s.While():
                body, orelse = self.cut(stmt.body), self.cut(stmt.orelse)
                return s.While(stmt.node, stmt.test, body, orelse) if _does(body) or _does(orelse) else None
            case s.With():
                body = self.cut(stmt.body)
                return s.With(stmt.node, stmt.items, body) if body else None
            case s.Try():
                handlers = [(kind, self.cut(b)) for kind, b in stmt.handlers]
                body = self.cut(stmt.body)
                rest = [*body, *stmt.orelse, *stmt.final]
                return s.Try(stmt.node, body, handlers, self.cut(stmt.orelse), self.cut(stmt.final)) if rest else None
            case _:
                return None

    def _cut_if(self, stmt: s.If) -> s.Stmt | None:
        body, orelse = self.cut(stmt.body), self.cut(stmt.orelse)
        if all(_only_raises(b) for b in (body, orelse)):
            # a check of arguments: usually it holds
            return s.ExprStmt(stmt.node, stmt.test) if self._event_expr(stmt.test) else None
        return s.If(stmt.node, stmt.test, body, orelse)

    def _matters(self, stmt: s.ExprStmt | s.Assign | s.AugAssign) -> bool:
        if not all(made.isdisjoint(self.needed) for made, _ in self._flows(stmt)):
            return True
        value = stmt.value
        if self._event_expr(value) or _leaves(value) or isinstance(value, s.Yield):
            return True
        if isinstance(stmt, s.ExprStmt) and isinstance(value, s.Call):
            if self._hands_window(value) or self._program.callees.is_missing(value):
                return True
        return isinstance(stmt, s.Assign | s.AugAssign) and any(
            self._event_expr(t) for t in (stmt.targets if isinstance(stmt, s.Assign) else [stmt.target])
        )


def _kept(target: s.Expr, shared: set[str]) -> set[str]:
    """What is still there when the function is over: an attribute, or a name that it shares with others."""
    match target:
        case s.Attr():
            return {target.name}
        case s.Name():
            return {target.id} & shared
        case s.Sequence():
            return set().union(*(_kept(item, shared) for item in target.items))
        case _:
            return set()


def _acts(name: str) -> bool:
    """What it holds is there to act on gradients, and is None until it is made."""
    return bool(naming.OPTIMIZER.search(name) or naming.SCALER.search(name))


def bound(target: s.Expr) -> set[str]:
    """The names that an assignment to this gives a value (the last name of an attribute)."""
    match target:
        case s.Name():
            return {target.id}
        case s.Attr():
            return {target.name}
        case s.Sequence():
            return {name for item in target.items for name in bound(item)}
        case s.Star():
            return bound(target.value)
        case s.Item():
            return bound(target.base)
        case _:
            return set()


def _closure(needed: set[str], flows: list[tuple[set[str], set[str]]]) -> set[str]:
    """Everything that flows into a needed name is needed."""
    needed = set(needed)
    waiting = flows
    while True:
        rest = []
        for made, sources in waiting:
            if not made.isdisjoint(needed):
                needed |= sources
            else:
                rest.append((made, sources))
        if len(rest) == len(waiting):
            return needed
        waiting = rest


def _only_raises(body: Iterable[s.Stmt]) -> bool:
    return all(isinstance(x, s.Jump) and x.kind is s.Leave.RAISE for x in body)


def _does(body: list[s.Stmt]) -> bool:
    """Whether a loop body does anything but go on."""
    return any(not isinstance(x, s.Jump) for x in body)


def _leaves(value: s.Expr) -> bool:
    return isinstance(value, s.Call) and s.render(value.func).rpartition(".")[2] in LEAVES
