"""A file whose statements can be taken out, put in and changed, with the comments and empty lines that are theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

from gradlint.python.anchor import Anchors
from gradlint.records import dataclass
from gradlint.repair.nodes import NotFixable
from gradlint.repair.tree import Block, Place, Root, Statement, split_line, stretch, suites

#: longer `with` lines are put into parentheses
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Leading:
    """The lines above a statement: its own comments, and the rest that belongs to the place."""

    rest: list[cst.EmptyLine]
    own: list[cst.EmptyLine]

    @classmethod
    def of(cls, node: Any) -> Leading:
        lines = list(node.leading_lines)
        cut = len(lines)
        while cut and lines[cut - 1].comment is not None:
            cut -= 1
        return cls(lines[:cut], lines[cut:])


def with_leading(node: Any, lines: Sequence[cst.EmptyLine]) -> Any:
    return node.with_changes(leading_lines=tuple(lines))


def heads(left: Sequence[cst.EmptyLine], follower: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """The lines above the statement that moves up: never more empty ones than either place had."""
    if any(line.comment for line in left):
        return [*left, *follower]
    if follower and follower[0].comment is None:
        return list(follower)
    return [*left, *follower]


class Document:
    """One file, ready to be changed once."""

    def __init__(self, anchors: Anchors) -> None:
        self.anchors = anchors
        layout = anchors.layout
        #: writes and parses pieces of code as the file would have them
        self._frame = cst.Module([], default_indent=layout.indent, default_newline=layout.newline)
        self.root = Root(anchors)

    # -- reading

    @property
    def source(self) -> str:
        """The text of the file as it is."""
        return self.anchors.text

    @property
    def config(self) -> cst.PartialParserConfig:
        return self._frame.config_for_parsing

    def at(self, node: cst.CSTNode) -> Statement | None:
        """The innermost statement that a node is a part of."""
        place = self._place(node)
        return None if place is None else self._find(self.root, place)

    def statements(self) -> Iterator[Statement]:
        for item in self.root.items:
            yield from item.leaves()

    def code(self, node: cst.CSTNode) -> str:
        return self._frame.code_for_node(node)

    def between(self, low: Place, high: Place) -> Iterator[Statement]:
        """The statements that begin at or behind `low` and before `high`."""
        for item in self.root.items:
            if item.end >= low and item.start < high:
                yield from (x for x in item.leaves() if low <= x.start < high)

    def _place(self, node: cst.CSTNode) -> Place | None:
        found = self.anchors.place(node)
        return None if found is None else self.anchors.position(found[0])

    def _find(self, block: Block, place: Place) -> Statement | None:
        for item in block.items:
            if item.start <= place <= item.end:
                for inner in item.blocks:
                    found = self._find(inner, place)
                    if found is not None:
                        return found
                return item
        return None

    # -- changing

    def apart(self, item: Statement, node: cst.CSTNode) -> Statement:
        """The statement for one of several on a row; the row is split if need be."""
        line = item.node
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) == 1:
            return item
        place = self._place(node) or item.start
        lines = []
        for small, alone in zip(line.body, split_line(line), strict=True):
            lines.append(Statement(alone, item.block, *stretch(self.anchors, small)))
            if lines[-1].start <= place:
                chosen = lines[-1]
        at = item.siblings().index(item)
        item.siblings()[at : at + 1] = lines
        item.block.touch()
        return chosen

    def take_out(self, item: Statement, *, keep_lines: bool = False) -> None:
        """Removes a statement with the comments right above it; other lines above stay, or go with it."""
        siblings = item.siblings()
        at = siblings.index(item)
        del siblings[at]
        if keep_lines:
            item.block.touch()
            return
        left = Leading.of(item.node).rest
        item.node = with_leading(item.node, Leading.of(item.node).own)
        if at < len(siblings):
            follower = siblings[at]
            self._lead(follower, heads(left, follower.node.leading_lines))
        elif any(line.comment for line in left) and isinstance(item.block.suite, cst.IndentedBlock):
            suite = item.block.suite
            item.block.suite = suite.with_changes(footer=[*left, *suite.footer])
        item.block.touch()
        self._without_empty(item.block)

    def put_before(
        self, item: Statement, anchor: Statement, *, keep_lines: bool = False, gap: bool = False
    ) -> None:  # fmt: skip
        """The anchor keeps its own comments; the empty lines above it go to the newcomer. `gap`: one in between.

        A paragraph with a heading stays one: an empty line above the anchor's own comment is kept there, too.
        """
        if keep_lines:
            self._put(item, anchor, 0)
            return
        lead = Leading.of(anchor.node)
        item.node = with_leading(item.node, [*lead.rest, *Leading.of(item.node).own])
        paragraph = bool(lead.own) and bool(lead.rest)
        self._lead(anchor, [*_empty(gap or paragraph), *lead.own])
        self._put(item, anchor, 0)

    def join_before(self, item: Statement, anchor: Statement) -> None:
        """The newcomer becomes the first of the anchor's paragraph, under its heading."""
        item.node = with_leading(item.node, anchor.node.leading_lines)
        self._lead(anchor, ())
        self._put(item, anchor, 0)

    def put_first(self, item: Statement, block: Block) -> None:
        """At the very head of a block; what was first keeps the lines above it."""
        item.block = block
        block.items.insert(0, item)
        block.touch()

    def put_after(self, item: Statement, anchor: Statement, *, keep_lines: bool = False, gap: bool = False) -> None:
        if not keep_lines:
            item.node = with_leading(item.node, [*_empty(gap), *Leading.of(item.node).own])
        self._put(item, anchor, 1)

    def wrap(self, context: tuple[str, str, str] | str, first: Statement, last: Statement) -> Statement:
        """`with context:` round the statements from first to last, which stand in one block."""
        siblings = first.siblings()
        low, high = siblings.index(first), siblings.index(last) + 1
        place = self._place(first.node)
        column = place[1] if place is not None else 0
        outer = self.new(f"{_with(context, column)}\n    pass\n", first.block)
        inner = outer.blocks[0]
        inner.items = siblings[low:high]
        for item in inner.items:
            item.block = inner
        outer.start, outer.end = first.start, last.end
        siblings[low:high] = [outer]
        self.tidy_head(outer, inner)
        inner.touch()
        return outer

    def under(self, header: str, item: Statement) -> Statement:
        """A new compound statement round a statement that was taken out; its comments stand above both."""
        outer = self.new(f"{header}\n    pass\n", item.block)
        outer.node = with_leading(outer.node, item.node.leading_lines)
        item.node = with_leading(item.node, ())
        self.fill(outer.blocks[0], item)
        return outer

    def fill(self, block: Block, item: Statement) -> None:
        """A statement that was taken out becomes the only one of a block."""
        block.items, item.block = [item], block
        block.touch()

    def wrap_in(self, header: str, item: Statement) -> None:
        """A new compound statement round one that stays where it is."""
        siblings = item.siblings()
        at = siblings.index(item)
        siblings[at] = self.under(header, item)
        siblings[at].block.touch()

    def unwrap(self, block: Statement) -> None:
        """The statements of a `with` without it."""
        siblings = block.siblings()
        at = siblings.index(block)
        items = block.blocks[0].items
        items[0].node = with_leading(items[0].node, [*block.node.leading_lines, *items[0].node.leading_lines])
        for item in items:
            item.block = block.block
        siblings[at : at + 1] = items
        block.block.touch()

    def tidy_head(self, outer: Statement, inner: Block) -> None:
        """Empty lines above the first statement of a new block belong above the block."""
        lead = Leading.of(inner.items[0].node)
        outer.node = with_leading(outer.node, [*outer.node.leading_lines, *lead.rest])
        inner.items[0].node = with_leading(inner.items[0].node, lead.own)
        outer.block.touch()
        inner.touch()

    def drop_else(self, choice: Statement) -> None:
        choice.blocks = [block for block in choice.blocks if block.route == ("body",)]
        choice.node = choice.node.with_changes(orelse=None)
        choice.touch()

    def exchange(self, item: Statement, old: cst.CSTNode, new: cst.CSTNode) -> None:
        """Puts another expression in the place of one."""
        item.replaced.append((old, new))
        item.touch()

    def new(self, code: str, block: Block) -> Statement:
        """A statement made from text."""
        try:
            node = cst.parse_statement(code, config=self.config)
        except cst.ParserSyntaxError:
            raise NotFixable(f"`{code}` would not parse") from None
        item = Statement(node, block, (0, 0), (0, 0))
        for route, suite in suites(node):
            item.blocks.append(Block(suite, item, route))
        return item

    def text(self) -> str:
        """The whole file with all changes."""
        newline = self.anchors.layout.newline
        parts = [self.anchors.header]
        for item in self.root.items:
            if parts[-1] and not parts[-1].endswith(("\n", "\r")):
                parts.append(newline)  # the last line of the file is not the last any more
            kept = item.as_it_was
            parts.append(kept if kept is not None else self._written(item))
        ended = self.source.endswith(("\n", "\r"))
        text = "".join((*parts, self.anchors.footer))
        return text if ended else text.removesuffix(newline)

    def _written(self, item: Statement) -> str:
        state = CodegenState(self.anchors.layout.indent, self.anchors.layout.newline)
        item.built()._codegen(state)
        return "".join(state.tokens) + (item.chunk.tail if item.chunk is not None and item.is_top else "")

    def _put(self, item: Statement, anchor: Statement, offset: int) -> None:
        if item.holds(anchor):
            raise NotFixable("a statement cannot be put into itself")
        siblings = anchor.siblings()
        if anchor not in siblings:
            raise NotFixable("the statement that it belongs to has moved itself")
        item.block = anchor.block
        siblings.insert(siblings.index(anchor) + offset, item)
        anchor.block.touch()

    def _lead(self, item: Statement, lines: Sequence[cst.EmptyLine]) -> None:
        item.node = with_leading(item.node, lines)
        item.block.touch()

    def _without_empty(self, block: Block) -> None:
        """An `if` or `with` that has become empty goes; an empty `else` goes; nothing else may become empty."""
        owner = block.owner
        if block.items or owner is None:
            return
        alone = block.route == ("body",) and getattr(owner.node, "orelse", None) is None
        if alone and isinstance(owner.node, cst.If | cst.With | cst.For):
            self.take_out(owner)
        elif block.route == ("orelse", "body") and isinstance(getattr(owner.node, "orelse", None), cst.Else):
            owner.blocks.remove(block)
            owner.node = owner.node.with_changes(orelse=None)
            owner.touch()
        else:
            raise NotFixable("it would leave an empty block")


def _with(context: tuple[str, str, str] | str, column: int) -> str:
    """`with context:`, or `with (this if so else that):` over several lines if it is too long."""
    one = context if isinstance(context, str) else "{} if {} else {}".format(*context)
    if isinstance(context, str) or column + len(one) + 6 <= _WIDTH:
        return f"with {one}:"
    return "with (\n    {}\n    if {}\n    else {}\n):".format(*context)


def _empty(gap: bool) -> list[cst.EmptyLine]:
    return [cst.EmptyLine(indent=False)] if gap else []
