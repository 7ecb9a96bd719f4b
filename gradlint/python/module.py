"""One file as a module: its syntax, its imports, and cheap facts about each block that steer the interpreter."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gradlint.events import Site
from gradlint.knowledge.frameworks import PACKAGES
from gradlint.knowledge.layers import SATURATING
from gradlint.knowledge.torch_api import HOOKS, OTHER_LIBRARIES, PARAMETER_METHODS
from gradlint.knowledge.words import CONTEXTS, EVENT_METHODS, PREPARES
from gradlint.python import syntax as s
from gradlint.python.binding import BINDING, hands_self_on, own_statements
from gradlint.python.callees import Callees, components
from gradlint.python.scope import Scopes
from gradlint.python.slicing import HANDS_SELF_ON, LEAVES, Slice, bound
from gradlint.python.usage import Usage
from gradlint.records import dataclass

if TYPE_CHECKING:
    from gradlint.python.project import Definition, Project

T = TypeVar("T")

_SCALER_CALLS = {"unscale_", "scale_loss", "scale", "unscale_gradients"}
_GRAD = "grad"
#: what is asked about the functions that a block calls; of these nothing else is kept, so that it is little in any file
_ASKED_CALLED = frozenset(
    {HANDS_SELF_ON, "next", "manual_backward"} | EVENT_METHODS | _SCALER_CALLS | HOOKS | PARAMETER_METHODS | PREPARES
)
_ASKED_SEEN = frozenset(CONTEXTS | SATURATING.keys() | {_GRAD, "no_sync"})
_TRAINS = EVENT_METHODS - {"update", "scale", "accumulate"} | CONTEXTS | {_GRAD}
#: one of these stands in whatever holds events
_EVENT_WORDS = EVENT_METHODS | {_GRAD}


#: shared by all expressions in which nothing is called; nobody adds to what was said
_NOTHING: set[str] = set()


@dataclass(slots=True)
class Words:
    """What stands in a piece of code, inner blocks included, and what is asked for of the functions that it calls."""

    called: set[str]
    seen: set[str]
    jumps: set[s.Leave]

    def add(self, other: Words) -> None:
        self.called |= other.called
        self.seen |= other.seen

    def add_behind(self, other: Words) -> None:
        """Those of a function that is called."""
        self.called |= other.called & _ASKED_CALLED
        self.seen |= other.seen & _ASKED_SEEN

    @property
    def events(self) -> bool:
        return _GRAD in self.seen or not self.called.isdisjoint(EVENT_METHODS)

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
    #: the calls themselves, what binds names of its own inside it, and the numbers of all its nodes
    calls: Sequence[s.Call]
    binding: Sequence[s.Expr]
    nodes: Sequence[int]


class Module:
    """A lowered file with its indexes; what rules see of the source."""

    def __init__(
        self, body: list[s.Stmt], target_torch: tuple[int, int] | None = None, path: str = "",
        project: Project | None = None, location: str = "",
    ) -> None:  # fmt: skip
        self.body = body
        #: the file of its sites; "" for the one that is analysed, which is at this location
        self.path = path
        self.location = location or path
        self.project = project
        #: modules of which it imports all names
        self.stars: list[str] = []
        self._foreign: dict[str, Definition | None] = {}
        self.target_torch = target_torch
        self.functions: dict[str, list[s.Def]] = {}
        self.classes: dict[str, s.Class] = {}
        self.imports: dict[str, str] = {}
        self.usage = Usage(self)
        self.all_words = Words(set(), set(), set())
        self._words: dict[int, Words] = {}
        self._made: dict[Callable[[Module], object], Any] = {}
        #: blocks that facts are known of: while they are kept, their ids are theirs
        self._remembered: list[object] = []
        #: the words of functions with those of all that they call, by their nodes
        self._closed: dict[int, Words] = {}
        self._definitions: dict[int, s.Def] | None = None
        #: a root is written as a power
        self.half_powers = False
        self._own: dict[int, Words] = {}
        self._said: dict[int, Said] = {}
        #: loops in which gradients are made or used directly, as far as somebody asked
        self.innermost: dict[int, bool] = {}
        self._calls: list[s.Call] | None = None
        self._statements = list(s.walk_stmts(body))
        for stmt in self._statements:
            if isinstance(stmt, s.Import):
                for local, dotted in stmt.bindings.items():
                    self.imports.setdefault(local, dotted)
                if stmt.star_from:
                    self.stars.append(stmt.star_from)
        self._index(body, False, self.imports)
        self.all_words = self.collect_words(body)
        self._core: list[s.Stmt] | None = None

    def seen_from(self, project: Project, target_torch: tuple[int, int] | None) -> Module:
        """The same file in an analysis: what its text says is shared by all, what other files make of it is not."""
        seen = copy.copy(self)
        seen.project, seen.target_torch = project, target_torch
        seen._foreign, seen._words, seen.innermost = {}, {}, {}
        seen._own, seen._said, seen._remembered = {**self._own}, {**self._said}, []
        seen._closed, seen._core, seen._calls = {}, None, None
        seen._made, seen.usage = {}, self.usage.seen_from(seen)
        return seen

    @property
    def core(self) -> list[s.Stmt]:
        """What is left when everything that cannot matter to gradients is cut away."""
        if self._core is None:
            self._core = Slice(self).cut(self.body)
        return self._core

    @property
    def trains(self) -> bool:
        """Gradients are made, cleared, clipped or used here; in a file with models and losses alone they are not."""
        if self.all_words.seen & _TRAINS:
            return True
        return self.project is not None and self.project.has_words(_EVENT_WORDS) and self._leads_to_training()

    def _leads_to_training(self) -> bool:
        """A function of another file is called that does so, or a class is derived from one of another file."""
        every = (self.body, *(d.body for definitions in self.functions.values() for d in definitions))
        called = {d.node: d for body in every for d in self.callees.under(body)}
        for cls in self.classes.values():
            called.update({d.node: d for d in self.callees.inherited(cls)})
        return any(self.words_of(d).events for d in called.values() if self.owner(d.node) is not self)

    @property
    def foreign(self) -> bool:
        """It is written for another library, whose optimizers and losses have other rules."""
        roots = {dotted.partition(".")[0] for dotted in self.imports.values()}
        ours = any("torch" in root or root in PACKAGES for root in roots)
        return bool(roots & OTHER_LIBRARIES) and not ours

    def once(self, make: Callable[[Module], T]) -> T:
        """What a function makes of this program; it is asked once, however many rules want to know."""
        found: T | None = self._made.get(make)
        if found is None:
            found = self._made[make] = make(self)
        return found

    # -- other files

    def elsewhere(self, dotted: str) -> Definition | None:
        """What a full name means in the other files of the project."""
        if self.project is None or not dotted:
            return None
        if dotted not in self._foreign:
            self._foreign[dotted] = self.project.resolve(dotted, self.location)
        return self._foreign[dotted]

    def of_star(self, name: str) -> Definition | None:
        """What a name means that no import, assignment or definition of the file gives."""
        joined = (f"{star}{'' if star.endswith('.') else '.'}{name}" for star in self.stars)
        return next((found for dotted in joined if (found := self.elsewhere(dotted)) is not None), None)

    def owner(self, node: int) -> Module:
        """The program that a node is of: this one, or another of the project."""
        found = self.project.at(node) if self.project is not None else None
        return found.program if found is not None else self.project.main if self.project is not None else self

    # -- names

    def dotted(self, expr: s.Expr) -> str:
        """`U.clip_grad_norm_` -> `torch.nn.utils.clip_grad_norm_`, through the file's imports; "" if not a name."""
        scopes = self.once(Scopes)
        return scopes.dotted(expr, scopes.of(expr.node))

    def resolve(self, expr: s.Expr | None) -> s.Expr | None:
        """What a name stands for if its scope assigns it exactly once."""
        owner = self.once(Scopes).of(expr.node).owner(expr.id) if isinstance(expr, s.Name) else None
        found = owner.only(expr.id) if owner is not None and isinstance(expr, s.Name) else None
        return found if found is not None else expr

    def site(self, node: s.Node, text: str | None = None) -> Site:
        if text is None and isinstance(node, s.Name | s.Attr | s.Call | s.Item | s.Bin):
            text = s.render(node)
        return Site(node.node, text or "", self.path)

    def calls(self) -> Iterator[s.Call]:
        """Every call of the file, in source order of statements."""
        if self._calls is None:
            self._calls = [
                call for stmt in self._statements for expr in s.expressions(stmt) for call in self.said(expr).calls
            ]
        return iter(self._calls)

    def statements(self) -> Iterator[s.Stmt]:
        """Every statement of the file, those of inner blocks and definitions included, in source order."""
        return iter(self._statements)

    # -- facts about blocks

    def words(self, body: list[s.Stmt]) -> Words:
        """The words of a block, those of the file's functions it calls included."""
        cached = self._words.get(id(body))
        if cached is None:
            cached = self.own_words(body)
            inner = self.callees.under(body)
            if inner:
                cached = Words(set(cached.called), set(cached.seen), cached.jumps)
                for definition in inner:
                    cached.add_behind(self.words_of(definition))
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

    def words_of(self, *definitions: s.Def) -> Words:
        """What is asked for of functions, and of all that they call."""
        found = [self.owner(definition.node)._words_of(definition) for definition in definitions]
        if len(found) == 1:
            return found[0]
        every = Words(set(), set(), set())
        for words in found:
            every.add(words)
        return every

    def _words_of(self, definition: s.Def) -> Words:
        if definition.node not in self._closed:
            self._close(definition)
        return self._closed[definition.node]

    def _defined_at(self, node: int) -> s.Def:
        """A function of the file, and not what is left of it when it was cut."""
        if self._definitions is None:
            self._definitions = {d.node: d for definitions in self.functions.values() for d in definitions}
        return self._definitions[node]

    def called_by(self, definition: s.Def) -> tuple[s.Def, ...]:
        """The functions that one leads to at once, wherever it stands."""
        return self.owner(definition.node).callees.under(definition.body)

    @property
    def callees(self) -> Callees:
        return self.once(Callees)

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

    def _index(self, body: list[s.Stmt], in_loop: bool, imports: dict[str, str]) -> None:
        for stmt in body:
            visible = imports
            match stmt:
                case s.Def():
                    self.functions.setdefault(stmt.name, []).append(stmt)
                    own = [x for x in own_statements(stmt.body) if isinstance(x, s.Import)]
                    if own:
                        visible = {**imports, **{local: name for x in own for local, name in x.bindings.items()}}
                case s.Class():
                    self.classes.setdefault(stmt.name, stmt)
                case s.Assign() | s.AugAssign() if in_loop:
                    for target in stmt.targets if isinstance(stmt, s.Assign) else [stmt.target]:
                        self.usage.note_change(target)
                case s.For():
                    self.usage.note_change(stmt.target)
                case _:
                    pass
            for expr in s.expressions(stmt):
                self._said[id(expr)] = self._listen(expr, imports)
            inner_loop = in_loop or isinstance(stmt, s.For | s.While)
            for block in s.blocks(stmt):
                self._index(block, inner_loop and not isinstance(stmt, s.Def | s.Class), visible)

    def _close(self, definition: s.Def) -> None:
        """Find the words of a function and of all that it leads to, in whichever file: those of the functions that they
        call are among them."""
        homes: dict[int, Module] = {}
        calls: dict[int, set[int]] = {}
        waiting = [definition.node]
        while waiting:
            node = waiting.pop()
            home = homes[node] = homes.get(node) or self.owner(node)
            if node not in calls and node not in home._closed:
                calls[node] = {called.node for called in home.callees.under(home._defined_at(node).body)}
                waiting.extend(calls[node])
        # callees before callers; those that call each other have the same words, and share them
        for ring in components({node: called & calls.keys() for node, called in calls.items()}):
            shared = Words(set(), set(), set())
            for node in ring:
                shared.add_behind(homes[node].own_words(homes[node]._defined_at(node).body))
            for callee in set().union(*(calls[node] for node in ring)) - ring:
                shared.add_behind(homes[callee]._closed[callee])
            for node in ring:
                homes[node]._closed[node] = shared

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
                words.seen |= said.seen
                if said.called:
                    words.called |= said.called
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
            found = self._said[id(expr)] = self._listen(expr, self.imports)
        return found

    def _listen(self, expr: s.Expr, imports: Mapping[str, str]) -> Said:
        if isinstance(expr, s.Name):
            names = {expr.id}
            self.usage.note_names(names)
            return Said(_NOTHING, names, names, _NOTHING, (), (), (expr.node,))
        names = set()
        words: set[str] = set()
        calls: list[s.Call] = []
        binding: list[s.Expr] = []
        nodes: list[int] = []
        waiting: list[s.Expr] = [expr]
        while waiting:  # by type, not by match: this runs for every node of every file
            part: Any = waiting.pop()
            nodes.append(part.node)
            kind = type(part)
            if kind is s.Name:
                names.add(part.id)
                continue
            if kind is s.Attr:
                names.add(part.name)
                waiting.append(part.base)
                continue
            if kind is s.Const:
                if isinstance(part.value, str) and part.value.isidentifier():
                    words.add(part.value)
                continue
            if kind is s.Call:
                calls.append(part)
                words.update(part.kwargs)
            elif kind is s.Bin:
                self._index_operation(part)
            elif kind in BINDING:
                binding.append(part)
            waiting += s.parts(part)
        for part in binding:
            if isinstance(part, s.Comprehension):
                self.usage.note_change(part.target)
        self.usage.note_names(names)
        called, callees = self._called(calls, imports, "self" in names) if calls else (_NOTHING, _NOTHING)
        return Said(called, words | names if words else names, names, callees, calls, binding, nodes)

    def _called(self, calls: Iterable[s.Call], imports: Mapping[str, str], of_self: bool) -> tuple[set[str], set[str]]:
        called, callees = set(), set()
        for call in calls:
            func = call.func
            self.usage.note_call(call)
            kind = type(func)
            name = func.name if isinstance(func, s.Attr) else s.render(func)
            if kind is s.Attr or kind is s.Name:
                callees.add(name)
            called.add(imports[name].rpartition(".")[2] if name in imports else name)
            if of_self and hands_self_on(call):
                called.add(HANDS_SELF_ON)
        return called, callees

    def _index_operation(self, part: s.Bin) -> None:
        if part.op == "**":
            self.half_powers |= isinstance(part.right, s.Const) and part.right.value == 0.5
        elif part.op == "%" and not isinstance(part.left, s.Const | s.Other):
            self.usage.note_modulo(part.right)
