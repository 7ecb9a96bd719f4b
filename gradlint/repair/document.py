"""A file as blocks of statements that can be taken out, put in and changed; only what was touched is built anew.

A statement of the module is read by libcst when somebody looks into it; the others stay the text that they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

from gradlint.python.anchor import Anchors, Chunk, Unchanged
from gradlint.repair.layout import Leading, heads, split_line, with_leading
from gradlint.repair.refusal import NotFixable

#: longer `with` lines are put into parentheses
_WIDTH = 100
#: row and column
Place = tuple[int, int]
#: where a suite hangs below its compound statement: attribute names, and numbers of handlers and cases
Route = tuple[str | int, ...]


class Statement:
    """One statement; `node` is libcst's, without the changes that are still to be made below it."""

    __slots__ = ("_blocks", "_node", "block", "changed", "chunk", "end", "is_top", "replaced", "start")

    def __init__(self, node: Any, block: Block, start: Place, end: Place, chunk: Chunk | None = None) -> None:
        """`chunk`: the text that it comes from; a statement of the module has no node before somebody asks for it."""
        self._node = node
        self._blocks: list[Block] | None = None if node is None else []
        #: it stood in the module itself
        self.is_top = node is None
        self.block = block
        self.chunk = chunk
        #: where it stood in the text, without the comments above it
        self.start, self.end = start, end
        self.changed = False
        #: parts of the header (or of a simple statement) to be exchanged
        self.replaced: list[tuple[cst.CSTNode, cst.CSTNode]] = []

    @property
    def node(self) -> Any:
        if self._node is None:
            assert self.chunk is not None
            if self.chunk.node is None:
                raise NotFixable("libcst does not understand it, or would not give it back as it is")
            self._node = self.chunk.node
        return self._node

    @node.setter
    def node(self, node: Any) -> None:
        self._node = node

    @property
    def blocks(self) -> list[Block]:
        if self._blocks is None:
            self._blocks = []
            root = self.block
            assert isinstance(root, Root)
            root.document.fill_blocks(self)
        return self._blocks

    @blocks.setter
    def blocks(self, blocks: list[Block]) -> None:
        self._blocks = blocks

    @property
    def first(self) -> int:
        return self.start[0]

    @property
    def last(self) -> int:
        return self.end[0]

    @property
    def owner(self) -> Statement | None:
        """The compound statement that this one stands in."""
        return self.block.owner

    @property
    def kind(self) -> type[cst.CSTNode]:
        return type(self.node)

    def ancestors(self) -> Iterator[Statement]:
        owner = self.owner
        while owner is not None:
            yield owner
            owner = owner.owner

    @property
    def function(self) -> Statement | None:
        """The innermost function that this statement stands in."""
        return next((x for x in self.ancestors() if isinstance(x.node, cst.FunctionDef)), None)

    @property
    def home(self) -> Statement:
        """The innermost function that it stands in; outside of any, the outermost statement, such as the loop."""
        return self.function or [self, *self.ancestors()][-1]

    def holds(self, other: Statement) -> bool:
        return other is self or self in other.ancestors()

    def leaves(self) -> Iterator[Statement]:
        """The statement itself and all inside it."""
        yield self
        for block in self.blocks:
            for item in block.items:
                yield from item.leaves()

    def siblings(self) -> list[Statement]:
        return self.block.items

    def touch(self) -> None:
        self.changed = True
        for owner in self.ancestors():
            owner.changed = True

    @property
    def as_it_was(self) -> str | None:
        """The text of a statement of the module that nobody has touched."""
        if self.changed or self.chunk is None or not self.is_top:
            return None
        return self.chunk.text if self._node is None or self._node is self.chunk.node else None

    def built(self) -> Any:
        """The node with all changes made below it."""
        if not self.changed:
            return Unchanged(self.node, self.chunk) if self.chunk is not None else self.node
        node = _exchanged(self.node, self.replaced)
        for block in self.blocks:
            if block.changed or any(item.changed for item in block.items):
                node = _put(node, block.route, block.built())
        return node


class Block:
    """The statements of one suite."""

    __slots__ = ("changed", "items", "owner", "route", "suite")

    def __init__(self, suite: Any, owner: Statement | None, route: Route) -> None:
        self.suite = suite
        self.owner = owner
        self.route = route
        self.items: list[Statement] = []
        self.changed = False

    def built(self) -> Any:
        if isinstance(self.suite, cst.SimpleStatementSuite):
            if not self.changed:  # only expressions: it stays on its line
                return _exchanged(self.suite, [pair for item in self.items for pair in item.replaced])
            return cst.IndentedBlock([item.built() for item in self.items])
        return self.suite.with_changes(body=[item.built() for item in self.items])

    def touch(self) -> None:
        self.changed = True
        if self.owner is not None:
            self.owner.touch()


class Root(Block):
    """The statements of the module."""

    __slots__ = ("document",)

    def __init__(self, document: Document) -> None:
        super().__init__(None, None, ())
        self.document = document


class Document:
    """One file, ready to be changed once."""

    def __init__(self, anchors: Anchors) -> None:
        self.anchors = anchors
        layout = anchors.layout
        #: writes and parses pieces of code as the file would have them
        self._frame = cst.Module([], default_indent=layout.indent, default_newline=layout.newline)
        self.root = Root(self)
        for chunk, (start, end) in zip(anchors.chunks, anchors.extents, strict=True):
            self.root.items.append(Statement(None, self.root, start, end, chunk))

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

    # -- building the tree

    def fill_blocks(self, item: Statement) -> None:
        """The blocks of a statement, with all statements in them."""
        for route, suite in _suites(item.node):
            inner = Block(suite, item, route)
            item.blocks.append(inner)
            if isinstance(suite, cst.SimpleStatementSuite):
                # `if full: step(); zero()`: lines that exist only once something is changed
                for line, small in zip(split_line(suite), suite.body, strict=True):
                    inner.items.append(Statement(line, inner, *self._range(small)))
                continue
            for node in suite.body:
                below = Statement(node, inner, *self._range(node), item.chunk)
                inner.items.append(below)
                self.fill_blocks(below)

    def _range(self, node: Any) -> tuple[Place, Place]:
        stretches = [self.anchors.place(x) for x in (node, *getattr(node, "decorators", ()))]
        known = [x for x in stretches if x is not None]
        return self.anchors.position(min(start for start, _ in known)), self.anchors.position(known[0][1])

    # -- changing

    def apart(self, item: Statement, node: cst.CSTNode) -> Statement:
        """The statement for one of several on a row; the row is split if need be."""
        line = item.node
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) == 1:
            return item
        place = self._place(node) or item.start
        lines = []
        for small, alone in zip(line.body, split_line(line), strict=True):
            lines.append(Statement(alone, item.block, *self._range(small)))
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
        inner = outer.blocks[0]
        outer.node = with_leading(outer.node, item.node.leading_lines)
        item.node = with_leading(item.node, ())
        inner.items, item.block = [item], inner
        inner.touch()
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
        for route, suite in _suites(node):
            item.blocks.append(Block(suite, item, route))
        return item

    def text(self) -> str:
        """The whole file with all changes."""
        newline = self.anchors.layout.newline
        parts = [self.anchors.header]
        for item in self.root.items:
            if parts[-1] and not parts[-1].endswith(("\n", "\r")):
                parts.append(newline)  # the last line of the file is not the last any more
            parts.append(item.as_it_was if item.as_it_was is not None else self._written(item))
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


def _suites(statement: object) -> Iterator[tuple[Route, Any]]:
    """The suites of a compound statement, with the way to each."""
    node: Any = statement
    if isinstance(statement, cst.SimpleStatementLine):
        return
    if isinstance(statement, cst.Match):
        for n, case in enumerate(node.cases):
            yield ("cases", n, "body"), case.body
        return
    yield ("body",), node.body
    if isinstance(statement, cst.Try | cst.TryStar):
        for n, handler in enumerate(node.handlers):
            yield ("handlers", n, "body"), handler.body
        if node.finalbody is not None:
            yield ("finalbody", "body"), node.finalbody.body
    orelse: Any = getattr(node, "orelse", None)
    route: Route = ("orelse",)
    while orelse is not None:
        yield (*route, "body"), orelse.body
        route = (*route, "orelse")
        orelse = getattr(orelse, "orelse", None)


def _put(node: Any, route: Route, suite: Any) -> Any:
    """The node with another suite at the end of the route."""
    if not route:
        return suite
    step, *rest = route
    if isinstance(step, int):
        parts = list(node)
        parts[step] = _put(parts[step], tuple(rest), suite)
        return tuple(parts)
    return node.with_changes(**{step: _put(getattr(node, step), tuple(rest), suite)})


_HEADER = ("test", "items", "iter", "target", "subject", "decorators")


def _exchanged(node: Any, replaced: list[tuple[cst.CSTNode, cst.CSTNode]]) -> Any:
    """Exchanges in the header of a compound statement only: the identity of what is inside must be kept."""
    if not replaced:
        return node
    exchange = _Exchange({id(old): new for old, new in replaced})
    if isinstance(node, cst.SimpleStatementLine | cst.SimpleStatementSuite):
        return node.visit(exchange)
    changes: dict[str, Any] = {}
    for name in _HEADER:
        part = getattr(node, name, None)
        if isinstance(part, cst.CSTNode):
            changes[name] = part.visit(exchange)
        elif isinstance(part, tuple | list):
            changes[name] = [x.visit(exchange) for x in part]
    return node.with_changes(**changes)


class _Exchange(cst.CSTTransformer):
    def __init__(self, new: dict[int, cst.CSTNode]) -> None:
        super().__init__()
        self._new = new

    def on_leave(self, original_node: cst.CSTNode, updated_node: Any) -> Any:
        return self._new.get(id(original_node), updated_node)
