"""One file as a program: its syntax, its imports, and cheap facts about each block that steer the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar, cast

from gradlint.events import Site
from gradlint.knowledge import naming
from gradlint.knowledge.frameworks import PACKAGES
from gradlint.knowledge.torch_api import OTHER_LIBRARIES, PARAMETER_METHODS, USUAL_NAMES
from gradlint.knowledge.words import CONTEXTS, EVENT_METHODS
from gradlint.python import syntax as s
from gradlint.python.slicing import LEAVES, Slice, bound
from gradlint.records import dataclass

T = TypeVar("T")

_SCALER_CALLS = {"unscale_", "scale_loss", "scale", "unscale_gradients"}
_TRAINS = EVENT_METHODS - {"update", "scale", "accumulate"} | CONTEXTS | {"grad"}


#: shared by all expressions in which nothing is called; nobody adds to what was said
_NOTHING: set[str] = set()


@dataclass(slots=True)
class Words:
    """What stands in a piece of code, inner blocks and (by name) called functions of the file included."""

    called: set[str]
    seen: set[str]
    jumps: set[s.Leave]

    def add(self, other: Words) -> None:
        self.called |= other.called
        self.seen |= other.seen

    @property
    def events(self) -> bool:
        return "grad" in self.seen or not self.called.isdisjoint(EVENT_METHODS)

    @property
    def steps(self) -> bool:
        return "step" in self.called

    @property
    def backward(self) -> bool:
        return "backward" in self.called or "manual_backward" in self.called

    @property
    def scaler(self) -> bool:
        return not self.called.isdisjoint(_SCALER_CALLS)

    @property
    def contexts(self) -> bool:
        return not self.seen.isdisjoint(CONTEXTS)


class Said(NamedTuple):
    """What is said in an expression."""

    #: what is called, by the name that the module it is imported from gives it
    called: set[str]
    #: names, keywords and strings that may be names
    seen: set[str]
    names: set[str]
    #: what is called, by the name that it has here
    callees: set[str]


class Program:
    """A lowered file with its indexes; what rules see of the source."""

    def __init__(self, body: list[s.Stmt], target_torch: tuple[int, int] | None = None, path: str = "") -> None:
        self.body = body
        self.path = path
        self.target_torch = target_torch
        self.functions: dict[str, list[s.Def]] = {}
        self.classes: dict[str, s.Class] = {}
        self.imports: dict[str, str] = {}
        self.modulus_names: set[str] = set()
        #: names that something is counted to: the right of a modulo, the bound of a range
        self.counted_to: set[str] = set()
        #: names that were looked at already
        self._named: set[str] = set()
        self.zeroed: set[str] = set()
        self.owners: set[str] = set()
        self.varying: set[str] = set()
        self.assignments: dict[str, list[s.Expr]] = {}
        self.all_words = Words(set(), set(), set())
        self._words: dict[int, Words] = {}
        self._made: dict[Callable[[Program], object], object] = {}
        #: blocks that facts are known of: while they are kept, their ids are theirs
        self._remembered: list[object] = []
        self._closure: dict[str, Words] | None = None
        #: a root is written as a power
        self.half_powers = False
        self._own: dict[int, Words] = {}
        self._said: dict[int, Said] = {}
        #: loops in which gradients are made or used directly, as far as somebody asked
        self.innermost: dict[int, bool] = {}
        self._members: dict[int, dict[str, s.Def | s.Assign]] = {}
        self._calls: list[s.Call] | None = None
        self._statements = list(s.walk_stmts(body))
        for stmt in self._statements:
            if isinstance(stmt, s.Import):
                for local, dotted in stmt.bindings.items():
                    self.imports.setdefault(local, dotted)
        self._index(body, in_loop=False)
        self.all_words = self.collect_words(body)
        self._core: list[s.Stmt] | None = None

    @property
    def _closed(self) -> dict[str, Words]:
        if self._closure is None:
            self._closure = self._close()
        return self._closure

    @property
    def core(self) -> list[s.Stmt]:
        """What is left when everything that cannot matter to gradients is cut away."""
        if self._core is None:
            self._core = Slice(self).cut(self.body)
        return self._core

    @property
    def trains(self) -> bool:
        """Gradients are made, cleared, clipped or used here; in a file with models and losses alone they are not."""
        return bool(self.all_words.seen & _TRAINS)

    @property
    def foreign(self) -> bool:
        """It is written for another library, whose optimizers and losses have other rules."""
        roots = {dotted.partition(".")[0] for dotted in self.imports.values()}
        ours = any("torch" in root or root in PACKAGES for root in roots)
        return bool(roots & OTHER_LIBRARIES) and not ours

    def once(self, make: Callable[[Program], T]) -> T:
        """What a function makes of this program; it is asked once, however many rules want to know."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast("T", self._made[make])

    # -- names

    def dotted(self, expr: s.Expr) -> str:
        """`U.clip_grad_norm_` -> `torch.nn.utils.clip_grad_norm_`, through the file's imports; "" if not a name."""
        match expr:
            case s.Name():
                if expr.id in self.imports:
                    return self.imports[expr.id]
                if expr.id in self.functions or expr.id in self.classes:
                    return expr.id
                return USUAL_NAMES.get(expr.id, expr.id)
            case s.Attr():
                base = self.dotted(expr.base)
                return f"{base}.{expr.name}" if base else ""
            case _:
                return ""

    def resolve(self, expr: s.Expr | None) -> s.Expr | None:
        """What a name stands for if the file assigns it exactly once."""
        if isinstance(expr, s.Name) and len(self.assignments.get(expr.id, [])) == 1:
            return self.assignments[expr.id][0]
        return expr

    def site(self, node: s.Node, text: str | None = None) -> Site:
        if text is None and isinstance(node, s.Name | s.Attr | s.Call | s.Item | s.Bin):
            text = s.render(node)
        return Site(node.node, text or "", self.path)

    def calls(self) -> Iterator[s.Call]:
        """Every call of the file, in source order of statements."""
        if self._calls is None:
            self._calls = [
                part
                for stmt in self._statements
                for expr in s.expressions(stmt)
                if self.said(expr).called
                for part in s.walk_expr(expr)
                if isinstance(part, s.Call)
            ]
        return iter(self._calls)

    def member(self, cls: s.Class, name: str) -> s.Def | s.Assign | None:
        """The last definition or assignment of a name in a class body."""
        members = self._members.get(id(cls))
        if members is None:
            members = {}
            for stmt in cls.body:
                if isinstance(stmt, s.Def):
                    members[stmt.name] = stmt
                elif isinstance(stmt, s.Assign):
                    members.update({t.id: stmt for t in stmt.targets if isinstance(t, s.Name)})
            self._members[id(cls)] = members
        return members.get(name)

    def statements(self) -> Iterator[s.Stmt]:
        """Every statement of the file, those of inner blocks and definitions included, in source order."""
        return iter(self._statements)

    # -- facts about blocks

    def words(self, body: list[s.Stmt]) -> Words:
        """The words of a block, those of the file's functions it calls included."""
        cached = self._words.get(id(body))
        if cached is None:
            cached = self.own_words(body)
            inner = cached.called & self._closed.keys()
            if inner:
                cached = Words(set(cached.called), set(cached.seen), cached.jumps)
                for name in inner:
                    cached.add(self._closed[name])
            self._words[id(body)] = cached
            self._remembered.append(body)
        return cached

    def own_words(self, body: list[s.Stmt]) -> Words:
        """The words of a block alone, without those of the functions it calls."""
        cached = self._own.get(id(body))
        if cached is None:
            cached = self.collect_words(body)
            self._own[id(body)] = cached
            self._remembered.append(body)
        return cached

    def expression_words(self, *exprs: s.Expr) -> Words:
        cached = self._own.get(id(exprs[0]))
        if cached is None:
            cached = self.collect_words([s.ExprStmt(-1, expr) for expr in exprs])
            self._own[id(exprs[0])] = cached
        return cached

    def function_words(self, name: str) -> Words | None:
        return self._closed.get(name)

    @staticmethod
    def assigned(body: Iterable[s.Stmt]) -> set[str]:
        found: set[str] = set()
        for stmt in s.walk_stmts(list(body)):
            match stmt:
                case s.Assign():
                    for target in stmt.targets:
                        found |= bound(target)
                case s.AugAssign():
                    found |= bound(stmt.target)
                case s.Def():
                    found.add(stmt.name)
                case _:
                    pass
        return found

    # -- building the indexes

    def _index(self, body: list[s.Stmt], in_loop: bool) -> None:
        for stmt in body:
            match stmt:
                case s.Def():
                    self.functions.setdefault(stmt.name, []).append(stmt)
                case s.Class():
                    self.classes.setdefault(stmt.name, stmt)
                case s.Assign() | s.AugAssign():
                    if in_loop:
                        self.varying |= self.assigned([stmt])
                    if isinstance(stmt, s.Assign):
                        for target in stmt.targets:
                            if isinstance(target, s.Name):
                                self.assignments.setdefault(target.id, []).append(stmt.value)
                case s.For():
                    self.varying |= bound(stmt.target)
                case _:
                    pass
            for expr in s.expressions(stmt):
                self.said(expr)
            inner_loop = in_loop or isinstance(stmt, s.For | s.While)
            for block in s.blocks(stmt):
                self._index(block, inner_loop and not isinstance(stmt, s.Def | s.Class))

    def _close(self) -> dict[str, Words]:
        """Words of functions, those of the functions they call included, to a fixpoint."""
        own = {}
        for name, defs in self.functions.items():
            words = Words(set(), set(), set())
            for definition in defs:
                words.add(self.own_words(definition.body))
            own[name] = words
        for name, cls in self.classes.items():
            init = [d for d in cls.body if isinstance(d, s.Def) and d.name in ("__init__", "__call__")]
            own.setdefault(name, Words(set(), set(), set())).add(self.collect_words([*init]))
        for name, values in self.assignments.items():
            # `advance = partial(update, optimizer)`, `update = Update(optimizer)`: a call of one is a call of the other
            telling = [value for value in values if not self.said(value).names.isdisjoint(own)]
            meant = {n for value in telling for n in _names_in(value)} & own.keys()
            if meant and name not in own:
                own[name] = Words(set(meant), set(), set())
        # callees before callers; those that call each other have the same words, and share them
        for ring in components({name: words.called & own.keys() for name, words in own.items()}):
            shared = Words(set(), set(), set())
            for name in ring:
                shared.add(own[name])
            for callee in set().union(*(own[name].called for name in ring)) & own.keys() - ring:
                shared.add(own[callee])
            own.update(dict.fromkeys(ring, shared))
        return own

    def collect_words(self, body: Iterable[s.Stmt]) -> Words:
        """The words of a block alone, collected anew: the caller may add to them."""
        words = Words(set(), set(), set())
        for stmt in body:
            if isinstance(stmt, s.Jump):
                words.jumps.add(stmt.kind)
            elif isinstance(stmt, s.Return):
                words.jumps.add(s.Leave.RETURN)
            for expr in s.expressions(stmt):
                said = self.said(expr)
                words.called |= said.called
                words.seen |= said.seen
                if not said.called.isdisjoint(LEAVES):
                    words.jumps.add(s.Leave.RAISE)
            for block in s.blocks(stmt):
                if block:
                    inner = self.own_words(block)
                    words.add(inner)
                    if not isinstance(stmt, s.Def | s.Class):
                        words.jumps |= inner.jumps
        return words

    def said(self, expr: s.Expr) -> Said:
        """What is said in an expression; it is gone through once, and what else is to be known of it is noted."""
        found = self._said.get(id(expr))
        if found is None:
            found = self._said[id(expr)] = self._listen(expr)
            for name in found.names - self._named:
                self._named.add(name)
                if naming.MICRO.search(name):
                    self.modulus_names.add(name)
        return found

    def _listen(self, expr: s.Expr) -> Said:
        if isinstance(expr, s.Name):
            names = {expr.id}
            return Said(_NOTHING, names, names, _NOTHING)
        names = set()
        words: set[str] = set()
        calls: list[s.Call] = []
        for part in s.walk_expr(expr):
            kind = type(part)
            if kind is s.Name:
                names.add(part.id)  # type: ignore[union-attr]  # the type was just asked for
            elif kind is s.Attr:
                names.add(part.name)  # type: ignore[union-attr]  # the same
            elif isinstance(part, s.Call):
                calls.append(part)
                words.update(part.kwargs)
            elif isinstance(part, s.Const):
                if isinstance(part.value, str) and part.value.isidentifier():
                    words.add(part.value)
            elif isinstance(part, s.Bin):
                self._index_operation(part)
        called, callees = self._called(calls) if calls else (_NOTHING, _NOTHING)
        return Said(called, words | names if words else names, names, callees)

    def _called(self, calls: Iterable[s.Call]) -> tuple[set[str], set[str]]:
        called, callees = set(), set()
        for call in calls:
            func = call.func
            if isinstance(func, s.Attr):
                name = func.name
                callees.add(name)
                if name == "zero_grad":
                    self.zeroed.add(s.render(func.base))
                elif name in PARAMETER_METHODS:
                    self.owners.add(s.render(func.base))
            else:
                name = s.render(func)
                if isinstance(func, s.Name):
                    callees.add(name)
                    if name == "range" and len(call.args) == 1 and isinstance(call.args[0], s.Name | s.Attr):
                        self.counted_to.add(s.render(call.args[0]).rpartition(".")[2])
            called.add(self.imports[name].rpartition(".")[2] if name in self.imports else name)
        return called, callees

    def _index_operation(self, part: s.Bin) -> None:
        if part.op == "**":
            self.half_powers |= isinstance(part.right, s.Const) and part.right.value == 0.5
        elif part.op == "%" and not isinstance(part.left, s.Const | s.Other):
            found = identifiers(part.right)
            self.modulus_names |= found
            self.counted_to |= found


def components(edges: Mapping[str, Iterable[str]]) -> Iterator[set[str]]:
    """Names that lead to each other, together; what they lead to comes before them (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    open_: set[str] = set()
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


def _names_in(expr: s.Expr) -> set[str]:
    return {part.id for part in s.walk_expr(expr) if isinstance(part, s.Name)}


def identifiers(expr: s.Expr) -> set[str]:
    """The last identifiers of the names in an expression: `self.args.n - 1` -> {n}."""
    match expr:
        case s.Name():
            return {expr.id}
        case s.Attr():
            return {expr.name}
        case s.Item():
            if isinstance(expr.index, s.Const) and isinstance(expr.index.value, str):
                return {expr.index.value}
            return identifiers(expr.base)
        case s.Call():
            found = set()
            for arg in (*expr.args, *expr.kwargs.values()):
                found |= identifiers(arg)
            if isinstance(expr.func, s.Attr):
                found |= identifiers(expr.func.base)
            return found
        case _:
            return {name for part in s.parts(expr) for name in identifiers(part)}
