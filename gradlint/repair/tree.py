"""The statements of a file as a tree that can be changed; only what was touched is built anew.

A statement of the module is read by libcst when somebody looks into it; the others stay the text that they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import libcst as cst

from gradlint.python.anchor import Anchors, Chunk, Unchanged
from gradlint.repair.nodes import NotFixable

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
            assert isinstance(self.block, Root)
            self._fill(self.block.anchors)
        return self._blocks

    @blocks.setter
    def blocks(self, blocks: list[Block]) -> None:
        self._blocks = blocks

    @property
    def owner(self) -> Statement | None:
        """The compound statement that this one stands in."""
        return self.block.owner

    @property
    def small(self) -> Any:
        """What a simple line does, or does first; None for a compound statement."""
        return self.node.body[0] if isinstance(self.node, cst.SimpleStatementLine) else None

    def ancestors(self) -> Iterator[Statement]:
        owner = self.owner
        while owner is not None:
            yield owner
            owner = owner.owner

    def around(self, beside: Statement | None = None) -> Iterator[Statement]:
        """The statements that it stands in, as far as its function; `beside`: only those that do not hold this one."""
        for owner in self.ancestors():
            if isinstance(owner.node, cst.FunctionDef) or (beside is not None and owner.holds(beside)):
                return
            yield owner

    @property
    def loop(self) -> Statement | None:
        """The innermost loop of its function that it stands in."""
        return next((x for x in self.around() if isinstance(x.node, cst.For | cst.While)), None)

    @property
    def header(self) -> list[cst.CSTNode]:
        """What it evaluates itself, without the statements inside it."""
        match self.node:
            case cst.SimpleStatementLine():
                return [self.node]
            case cst.If() | cst.While():
                return [self.node.test]
            case cst.For():
                return [self.node.iter]
            case cst.With():
                return list(self.node.items)
            case _:
                return []

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

    def let_go(self) -> None:
        for block in self._blocks or ():
            block.let_go()
        self._blocks = []

    def _fill(self, anchors: Anchors) -> None:
        """The blocks of a statement of the file, with all statements in them."""
        for route, suite in suites(self.node):
            inner = Block(suite, self, route)
            self.blocks.append(inner)
            if isinstance(suite, cst.SimpleStatementSuite):
                # `if full: step(); zero()`: lines that exist only once something is changed
                for line, small in zip(split_line(suite), suite.body, strict=True):
                    inner.items.append(Statement(line, inner, *stretch(anchors, small)))
                continue
            for node in suite.body:
                below = Statement(node, inner, *stretch(anchors, node), self.chunk)
                inner.items.append(below)
                below._fill(anchors)


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

    def let_go(self) -> None:
        """Nothing is changed any more: statements and blocks, which know each other, are gone at once."""
        for item in self.items:
            item.let_go()
        self.items.clear()


class Root(Block):
    """The statements of the module."""

    __slots__ = ("anchors",)

    def __init__(self, anchors: Anchors) -> None:
        super().__init__(None, None, ())
        self.anchors = anchors
        for chunk, (start, end) in zip(anchors.chunks, anchors.extents, strict=True):
            self.items.append(Statement(None, self, start, end, chunk))


def stretch(anchors: Anchors, node: Any) -> tuple[Place, Place]:
    """Where a node of the file begins, its decorators included, and where it ends."""
    stretches = [anchors.place(x) for x in (node, *getattr(node, "decorators", ()))]
    known = [x for x in stretches if x is not None]
    return anchors.position(min(start for start, _ in known)), anchors.position(known[0][1])


def split_line(line: cst.SimpleStatementLine | cst.SimpleStatementSuite) -> list[cst.SimpleStatementLine]:
    """`a(); b()  # why` as two lines; the comment stays with the last."""
    parts = []
    for n, small in enumerate(line.body):
        alone = small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        first, last = n == 0, n == len(line.body) - 1
        leading = line.leading_lines if first and isinstance(line, cst.SimpleStatementLine) else ()
        trailing = line.trailing_whitespace if last else cst.TrailingWhitespace()
        parts.append(cst.SimpleStatementLine([alone], leading_lines=leading, trailing_whitespace=trailing))
    return parts


def suites(statement: object) -> Iterator[tuple[Route, Any]]:
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
