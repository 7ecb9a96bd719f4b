"""The workbench of the fixers: moves, inserts and rewrites what events stand for, in the user's own words."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import libcst as cst

from gradlint.events import Event, Mark, Opaque, Site, Step
from gradlint.repair.definitions import Names, merged, names_of
from gradlint.repair.document import Document
from gradlint.repair.imports import drop_if_unused
from gradlint.repair.moving import move, move_all
from gradlint.repair.nodes import NotFixable, within
from gradlint.repair.tree import Statement
from gradlint.repair.verbs import Calls, Clearings, Clips, Layers, Losses, Numbers, Scalers, Syncs, Verb, Windows
from gradlint.subjects import Call

N = TypeVar("N", bound=cst.CSTNode)
Origin = ast.expr | ast.stmt | ast.pattern

#: calls that nobody misses where they do not happen, or happen less often
_IDLE = frozenset({
    "parameters", "named_parameters", "modules", "children", "items", "keys", "values", "get", "len", "list", "tuple",
    "set", "dict", "filter", "map", "zip", "enumerate", "range", "isinstance", "hasattr", "getattr", "callable",
    "bool", "int", "float", "str", "abs", "max", "min", "sum", "all", "any", "norm", "stack", "item", "detach",
    "clone", "tolist", "is_enabled", "get_scale", "nullcontext", "autocast", "no_grad", "isfinite", "isnan", "isinf",
    "named_children",
    "get_world_size", "get_rank", "size", "numel", "dim",
})  # fmt: skip


class Bench:
    """One file, the path that a finding was made on, and the tools to change the file."""

    # verbs, by family
    call: Calls
    clip: Clips
    scaler: Scalers
    loss: Losses
    window: Windows
    clear: Clearings
    sync: Syncs
    layers: Layers
    numbers: Numbers

    def __init__(self, document: Document, origins: Sequence[Origin], events: Iterable[Event]) -> None:
        """`origins`: the nodes of Python's tree that sites are numbered by."""
        self.document = document
        self._origins = origins
        happened = [e for e in events if not isinstance(e, Mark | Opaque)]
        # a loop is followed for several turns, but each place need be known once
        self._events = list({(e.places, type(e)): e for e in happened}.values())
        self._guards = {e.guard for e in happened if isinstance(e, Step) and e.guard is not None}
        self._names: dict[int, Names] = {}
        self.call, self.clip, self.scaler, self.loss = Calls(self), Clips(self), Scalers(self), Losses(self)
        self.window, self.clear, self.sync = Windows(self), Clearings(self), Syncs(self)
        self.layers, self.numbers = Layers(self), Numbers(self)

    move = Verb(move)
    move_all = Verb(move_all)

    # -- reading

    def node(self, at: Event | Call | Site) -> cst.CSTNode:
        site = at if isinstance(at, Site) else at.site
        found = self.document.anchors.node(self._origins[site.node])
        if found is None:
            raise NotFixable("its code was not found")
        return found

    def code(self, at: Event | Call | Site | cst.CSTNode) -> str:
        """The user's own text."""
        return self.document.code(at if isinstance(at, cst.CSTNode) else self.node(at)).strip()

    def _all(self, kind: type[cst.CSTNode], found: Iterable[Origin]) -> Iterator[Any]:
        nodes = (self.document.anchors.node(node) for node in found)
        return (node for node in nodes if isinstance(node, kind))

    def calls(self, *names: str) -> Iterator[cst.Call]:
        """All calls of functions and methods of these names; without any, all calls."""
        found = self.document.anchors.every(ast.Call)
        return self._all(cst.Call, (x for x in found if not names or _last_name(x.func) in names))

    def assigns(self, *names: str, calling: Container[str] = ()) -> Iterator[cst.Assign]:
        """All assignments to (attributes of) these names, or of what a call of these functions gives."""

        def is_meant(node: ast.Assign) -> bool:
            made = isinstance(node.value, ast.Call) and _last_name(node.value.func) in calling
            return made or any(_last_name(target) in names for target in node.targets)

        return self._all(cst.Assign, (x for x in self.document.anchors.every(ast.Assign) if is_meant(x)))

    def attributes(self, name: str) -> Iterator[cst.Attribute]:
        return self._all(cst.Attribute, (x for x in self.document.anchors.every(ast.Attribute) if x.attr == name))

    def names(self, name: str) -> Iterator[cst.Name]:
        """Every place that reads or binds this name, outside of imports and parameters."""
        return self._all(cst.Name, (x for x in self.document.anchors.every(ast.Name) if x.id == name))

    @property
    def quote(self) -> str:
        """The quotation mark that the file prefers."""
        anchors = self.document.anchors
        begun = (anchors.stretch(x)[0] for x in anchors.every(ast.Constant) if isinstance(x.value, str | bytes))
        strings = [anchors.text[start : start + 3].lstrip("bBrRuUfF")[:1] for start in begun]
        return "'" if strings.count("'") > strings.count('"') else '"'

    def same(self, some: Sequence[Statement], others: Sequence[Statement]) -> bool:
        """The same code, whatever the comments and the spaces."""
        return _dumped(self.code(x.node) for x in some) == _dumped(self.code(x.node) for x in others)

    def statement(self, at: Event | Call | Site | cst.CSTNode) -> Statement:
        node = at if isinstance(at, cst.CSTNode) else self.node(at)
        found = self.document.at(node)
        if found is None:
            raise NotFixable("its statement was not found")
        return found

    def events_in(self, statement: Statement) -> list[Event]:
        """The events of the path whose code stands in this statement, or in a function that it calls."""
        return [e for e in self._events if any(statement.holds(x) for x in self.standing(e))]

    def standing(self, event: Event) -> list[Statement]:
        """The statement of an event, and those of the calls that led to it, from the outside in."""
        nodes = [self.node(site) for site in event.places]
        return [x for x in (self.document.at(n) for n in nodes) if x is not None]

    def outer(self, event: Event, times: int) -> Site:
        """The place of an event, or of the call that led to it, so many functions out."""
        if times >= len(event.places):
            raise NotFixable("no function further out calls it")
        return event.places[-1 - times]

    @staticmethod
    def common_depth(one: Event, other: Event) -> int:
        """How many calls led to both."""
        depth = 0
        while depth < min(len(one.via), len(other.via)) and one.via[depth] == other.via[depth]:
            depth += 1
        return depth

    def pair(self, one: Event, other: Event) -> tuple[Statement, Statement]:
        """The statements of two events in the innermost function that runs both: calls stand for what they do."""
        depth = self.common_depth(one, other)
        return self.statement(self.in_frame(one, depth)), self.statement(self.in_frame(other, depth))

    def in_frame(self, event: Event, depth: int) -> cst.CSTNode:
        """The node that stands for an event so many calls inside."""
        return self.node(event.places[depth])

    def guards(self) -> list[Statement]:
        """The `if`s that ask whether a window is full."""
        return [x for x in (self.document.at(self.node(site)) for site in self._guards) if x is not None]

    # -- placing

    def past(self, anchor: Statement, kinds: tuple[type[Event], ...]) -> Statement:
        """The last of the following statements of the block that does one of these things."""
        siblings = anchor.siblings()
        found = anchor
        for item in siblings[siblings.index(anchor) + 1 :]:
            events = self.events_in(item)
            if events and all(isinstance(e, kinds) for e in events):
                found = item
            elif events or item.blocks:
                break
        return found

    # -- names

    def names_in(self, statement: Statement) -> Names:
        """The names of a statement alone, without those of the statements inside it."""
        found = self._names.get(id(statement))
        if found is None:
            found = self._names[id(statement)] = names_of(self._header(statement))
        return found

    def names_read(self, node: cst.CSTNode) -> set[str]:
        return names_of(self.code(node)).read

    def names_bound(self, statement: Statement) -> set[str]:
        return merged(self.names_in(x) for x in statement.leaves()).bound

    def check_same_value(self, node: cst.CSTNode, early: Statement, late: Statement) -> None:
        """What is asked at `late` would have the same answer at `early`: nothing in between binds its names."""
        read = self.names_read(node)
        for other in self.document.between(early.start, late.start):
            changed = read & self.names_in(other).bound
            if changed:
                raise NotFixable(f"`{min(changed)}` changes between the forward and the boundary")

    def check_binds_nothing(self, event: Event) -> None:
        bound = self.names_in(self.statement(event)).bound
        if bound:
            raise NotFixable(f"`{min(bound)}` holds the norm before the clip already")

    def check_free(self, statement: Statement, others: list[Statement]) -> None:
        """It may be carried past these."""
        mine = merged(self.names_in(x) for x in statement.leaves())
        for other in others:
            clash = mine.clash(merged(self.names_in(x) for x in other.leaves()))
            if clash:
                raise NotFixable(f"`{min(clash)}` would change its meaning on the way")

    def _header(self, statement: Statement) -> str:
        node = statement.node
        if isinstance(node, cst.SimpleStatementLine):
            return self.document.code(node.with_changes(leading_lines=()))
        empty = cst.IndentedBlock([cst.SimpleStatementLine([cst.Pass()])])
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            return f"{node.name.value} = 0"
        if isinstance(node, cst.If | cst.While):
            return self.document.code(node.test)
        if isinstance(node, cst.For | cst.With):
            changes = {"orelse": None} if isinstance(node, cst.For) else {}
            return self.document.code(node.with_changes(body=empty, leading_lines=(), **changes))
        return ""

    def check_nothing_else(self, event: Event, depth: int) -> None:
        """The call that leads to an event, so many calls inside, does nothing beside events: what a function logs,
        counts or keeps would happen elsewhere, or less often. (What becomes of the events is tried.)"""
        places = [self.node(site) for site in event.places]
        caller = self.statement(places[depth])
        self._check_idle(caller)
        if self.names_bound(caller):
            self._check_result(event)
        for inner in places[depth + 1 :]:
            home = self.statement(inner).function
            for statement in home.leaves() if home is not None else ():
                if statement is not home:
                    self._check_idle(statement)

    def _check_result(self, event: Event) -> None:
        """What the function of an event gives back is what the event gives, such as a norm."""
        home = self.statement(event).function
        made = self.node(event)
        names = self.names_in(self.statement(event)).bound
        for node in within(home.node, cst.Return) if home is not None else ():
            value = node.value
            if value is not None and value is not made and not (isinstance(value, cst.Name) and value.value in names):
                raise NotFixable("the function that does it gives something else back")

    def _check_idle(self, statement: Statement) -> None:
        sites = {site for e in self._events for site in e.places}
        tops = [node for node in map(self.node, sites) if self.document.at(node) is statement]
        mine = {id(call) for top in tops for call in within(top, cst.Call)}
        parts = _header_parts(statement)
        keeps = not tops and any(_is_kept(x) for part in parts for x in part.children)
        other = [x for part in parts for x in within(part, cst.Call) if id(x) not in mine]
        if keeps or any(self.code(x.func).rpartition(".")[2] not in _IDLE for x in other):
            raise NotFixable("the function that does it does something else, too")

    # -- inserting, deleting, rewriting

    def insert(
        self, code: str, *, before: Event | Site | None = None, after: Event | Site | None = None,
        past: tuple[type[Event], ...] = (),
    ) -> None:  # fmt: skip
        """A new statement right beside that of an event; `past`: behind these, too, if they follow there."""
        goal = before or after
        assert goal is not None
        anchor = self.document.apart(self.statement(goal), self.node(goal))
        if after is not None:
            anchor = self.past(anchor, past)
        new = self.document.new(code, anchor.block)
        if before is not None:
            self.document.join_before(new, anchor)
        else:
            self.document.put_after(new, anchor)

    def insert_first(self, code: str, loop: Statement) -> None:
        """A new statement at the head of a loop."""
        body = loop.blocks[0]
        self.document.put_first(self.document.new(code, body), body)

    def common_loop(self, one: Event, other: Event) -> Statement | None:
        """The innermost loop of the function that runs both."""
        first, second = self.pair(one, other)
        for owner in first.ancestors():
            if isinstance(owner.node, cst.FunctionDef):
                return None
            if isinstance(owner.node, cst.For | cst.While) and owner.holds(second):
                return owner
        return None

    def delete(self, event: Event | Call, allowed: Callable[[Event], bool] | None = None, outer: int = 0) -> None:
        """Takes the statement of an event, or a call that is one, away; with the loop or condition round it that does
        only `allowed` things.

        `outer`: that of the call that led there, so many functions out.
        """
        if isinstance(event, Call):
            statement = self.document.apart(self.statement(event), self.node(event))
            line = statement.node
            alone = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
            if not isinstance(alone, cst.Expr) or self.code(alone) != self.code(event):
                raise NotFixable("it is a part of a statement that does something else, too")
            self.take_away(statement)
            return
        place = self.outer(event, outer)
        statement = self.document.apart(self.statement(place), self.node(place))
        if outer:
            if not self._does_only(statement, allowed):
                raise NotFixable("the function that does it does something else, too")
            self.check_nothing_else(event, len(event.via) - outer)
        if not outer and event.via and self.callers(event) > 1:
            raise NotFixable("the function that does it is called from elsewhere, too")
        for owner in list(statement.ancestors()) if allowed else ():
            if not isinstance(owner.node, cst.If | cst.For | cst.With):
                break
            simple = [x for x in owner.leaves() if not x.blocks]
            if not all(self._does_only(x, allowed) for x in simple):
                break
            statement = owner
        self.take_away(statement)

    def _parsed(self, code: str) -> cst.BaseExpression:
        config = self.document.config
        try:
            return cst.parse_expression(code, config=config)
        except cst.ParserSyntaxError:
            # it goes over several rows, inside of parentheses that are not its own
            return cst.parse_expression(f"({code})", config=config)

    def _does_only(self, statement: Statement, allowed: Callable[[Event], bool] | None) -> bool:
        events = self.events_in(statement)
        if self.code(statement.node) in ("continue", "pass"):
            return True  # `if p.grad is None: continue`
        return bool(events) and allowed is not None and all(allowed(e) for e in events)

    def callers(self, event: Event) -> int:
        home = self.statement(event).function
        name = home.node.name.value if home is not None else ""
        return sum(self.code(call.func).rpartition(".")[2] == name for call in self.calls(name))

    def take_away(self, statement: Statement) -> None:
        """Removes a statement, and the imports that only it used; that no name is missed is checked for every fix."""
        drop_if_unused(self, statement)
        self.document.take_out(statement)

    def replace(self, old: Event | Call | Site | cst.CSTNode, new: str | cst.CSTNode) -> None:
        """Another expression in the place of one."""
        node = old if isinstance(old, cst.CSTNode) else self.node(old)
        statement = self.statement(node)
        if isinstance(new, str):
            if not isinstance(node, cst.BaseExpression):
                raise NotFixable("it is not an expression")
            new = self._parsed(new)
        self.document.exchange(statement, node, new)

    def replace_all(self, *pairs: tuple[Event | Site, str]) -> None:
        """Several expressions at once."""
        for old, new in pairs:
            self.replace(old, new)


def _is_kept(part: cst.CSTNode) -> bool:
    """A part of a line that does something which outlives the function, or ends it early."""
    targets: list[cst.CSTNode] = []
    if isinstance(part, cst.Assign):
        targets = [x.target for x in part.targets]
    elif isinstance(part, cst.AugAssign | cst.AnnAssign):
        targets = [part.target]
    outlives = any(isinstance(x, cst.Attribute | cst.Subscript) for x in targets)
    return outlives or isinstance(part, cst.Global | cst.Nonlocal | cst.Raise | cst.Assert | cst.Del)


def _header_parts(statement: Statement) -> list[cst.CSTNode]:
    """What a statement evaluates itself, without the statements inside it."""
    match statement.node:
        case cst.SimpleStatementLine():
            return [statement.node]
        case cst.If() | cst.While():
            return [statement.node.test]
        case cst.For():
            return [statement.node.iter]
        case cst.With():
            return list(statement.node.items)
        case _:
            return []


def _last_name(func: ast.expr) -> str:
    """`step` of `self.optimizer.step`."""
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _dumped(codes: Iterable[str]) -> list[str]:
    return [ast.dump(ast.parse(code)) for code in codes]
