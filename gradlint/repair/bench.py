"""The workbench of the fixers: moves, inserts and rewrites what events stand for, in the user's own words."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import libcst as cst

from gradlint.events import Event, Mark, Opaque, Site, Step
from gradlint.python.anchor import Anchors
from gradlint.records import replace
from gradlint.repair import (
    arguments,
    boundary,
    clear,
    clips,
    fuse,
    guard,
    losses,
    renames,
    scaler,
    statements,
    sync,
)
from gradlint.repair.definitions import Names, merged, names_of
from gradlint.repair.document import Document
from gradlint.repair.nodes import NotFixable
from gradlint.repair.tree import Statement
from gradlint.rule import Repair
from gradlint.subjects import Call

Origin = ast.expr | ast.stmt | ast.pattern


def _at_home(event: Event) -> Event | None:
    """An event of another file as this one sees it: at the call that leads there."""
    if not event.site.path:
        return event
    own = [site for site in event.via if not site.path]
    return replace(event, site=own[-1], via=tuple(own[:-1])) if own else None


class Bench:
    """One file, the path that a finding was made on, and the tools to change the file."""

    def __init__(self, document: Document, origins: Sequence[Origin], events: Iterable[Event]) -> None:
        """`origins`: the nodes of Python's tree that sites are numbered by."""
        self.document = document
        self._origins = origins
        happened = [home for e in events if not isinstance(e, Mark | Opaque) and (home := _at_home(e)) is not None]
        # a loop is followed for several turns, but each place need be known once
        self.events = list({(e.places, type(e)): e for e in happened}.values())
        self._guards = {e.guard for e in happened if isinstance(e, Step) and e.guard is not None}
        self._names: dict[int, Names] = {}

    # -- what rules ask for: functions of the families, which are given the bench first

    move = statements.move
    move_all = statements.move_all
    delete = statements.delete
    add_parentheses = arguments.add_parentheses
    pass_keyword = arguments.pass_keyword
    rename_function = renames.rename_function
    use_relu = renames.use_relu
    migrate_amp = renames.migrate_amp
    clip_by_norm = clips.clip_by_norm
    clip_through_model = clips.clip_through_model
    clip_when_synced = clips.clip_when_synced
    insert_clip = clips.insert_clip
    make_list = clips.make_list
    log_norm = clips.log_norm
    insert_unscale = scaler.insert_unscale
    insert_update = scaler.insert_update
    scale_losses = scaler.scale_losses
    step_through_scaler = scaler.step_through_scaler
    leave_autocast = scaler.leave_autocast
    divide_by_window = losses.divide_by_window
    redivide = losses.redivide
    divide_not_gradients = losses.divide_not_gradients
    undivide = losses.undivide
    count_from_one = boundary.count_from_one
    step_at_the_end = boundary.step_at_the_end
    clear_first = clear.clear_first
    clear_before = clear.clear_before
    clear_late = clear.clear_late
    clear_behind = clear.clear_behind
    clear_behind_window = clear.clear_behind_window
    step_behind = clear.step_behind
    wrap_in_no_sync = sync.wrap_in_no_sync
    pull_forward_in = sync.pull_forward_in
    invert_no_sync = sync.invert_no_sync
    ask_boundary = sync.ask_boundary
    clamp_operand = guard.clamp_operand
    root_to_absolute = guard.root_to_absolute
    fuse = fuse.fuse

    # -- reading

    def node(self, at: Event | Call | Site) -> cst.CSTNode:
        site = at if isinstance(at, Site) else at.site
        if site.path:
            raise NotFixable("a part of it stands in another file")
        found = self.document.anchors.node(self._origins[site.node])
        if found is None:
            raise NotFixable("its code was not found")
        return found

    def expression(self, at: Event | Call | Site) -> cst.BaseExpression:
        node = self.node(at)
        if not isinstance(node, cst.BaseExpression):
            raise NotFixable("it is not an expression")
        return node

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

    def names(self, name: str) -> list[cst.Name]:
        """Every place that reads or binds this name, outside of imports and parameters."""
        return list(self._all(cst.Name, (x for x in self.document.anchors.every(ast.Name) if x.id == name)))

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

    def alone(self, at: Event | Call | Site | cst.CSTNode) -> Statement:
        """The statement; one of several on a row is put on a row of its own."""
        return self.document.apart(self.statement(at), at if isinstance(at, cst.CSTNode) else self.node(at))

    def events_in(self, statement: Statement) -> list[Event]:
        """The events of the path whose code stands in this statement, or in a function that it calls."""
        return [e for e in self.events if any(statement.holds(x) for x in self.standing(e))]

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

    def guard(self, step: Step) -> Statement | None:
        """The `if` that asks whether the window of a step is full, if there is one."""
        return self.document.at(self.node(step.guard)) if step.guard is not None else None

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
        """Of an expression that may go over several rows, inside of parentheses that are not its own."""
        return names_of(f"({self.code(node)})").read

    def all_names(self, statement: Statement) -> Names:
        """Those of the statements inside it, too."""
        return merged(self.names_in(x) for x in statement.leaves())

    def names_bound(self, statement: Statement) -> set[str]:
        return self.all_names(statement).bound

    def check_same_value(self, node: cst.CSTNode, early: Statement, late: Statement) -> None:
        """What is asked at `late` would have the same answer at `early`: nothing in between binds its names."""
        read = self.names_read(node)
        for other in self.document.between(early.start, late.start):
            changed = read & self.names_in(other).bound
            if changed:
                raise NotFixable(f"`{min(changed)}` changes between the forward and the boundary")

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

    # -- inserting, deleting, rewriting

    def insert(self, code: str, *, before: Event | Site) -> None:
        """A new statement right in front of that of an event."""
        anchor = self.alone(before)
        self.document.join_before(self.document.new(code, anchor.block), anchor)

    def insert_behind(self, code: str, anchor: Statement) -> None:
        """A new statement right behind another."""
        self.document.put_after(self.document.new(code, anchor.block), anchor)

    def insert_first(self, code: str, loop: Statement) -> None:
        """A new statement at the head of a loop."""
        body = loop.blocks[0]
        self.document.put_first(self.document.new(code, body), body)

    def _parsed(self, code: str) -> cst.BaseExpression:
        config = self.document.config
        try:
            return cst.parse_expression(code, config=config)
        except cst.ParserSyntaxError:
            # it goes over several rows, inside of parentheses that are not its own
            return cst.parse_expression(f"({code})", config=config)

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


def carried_out(
    repair: Repair, anchors: Anchors, origins: Sequence[Origin], events: Iterable[Event]
) -> str | NotFixable:  # fmt: skip
    """The text of the file with the repair made, or why it cannot be."""
    document = Document(anchors)
    bench = Bench(document, origins, events)
    try:
        repair.act(bench)
        return document.text()
    except NotFixable as refusal:
        return refusal.with_traceback(None)  # it is a reason, and holds on to nobody
    except cst.CSTValidationError:  # such as `for x in*xs`, which Python reads without the space
        return NotFixable("libcst would not write it as it stands")
    except SyntaxError:  # of a statement beside it, in a file with newer grammar
        return NotFixable("this Python cannot read a statement near it")
    finally:
        document.root.let_go()


def _last_name(func: ast.expr) -> str:
    """`step` of `self.optimizer.step`."""
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _dumped(codes: Iterable[str]) -> list[str]:
    return [ast.dump(ast.parse(code)) for code in codes]
