"""From the nodes of Python's own tree to those of libcst, which keep every comment and space.

A file is cut into chunks, one for each statement of the module, with the lines above it. Only a chunk that somebody
asks about is parsed by libcst. Both trees are of one text, so a node is known by where it begins and ends, and by what
it is. Two things differ: Python counts the brackets of `(a, b)` and of `(x for x in y)` as parts of them, and before
3.12 it does not know where the expressions of an f-string stand.
"""

from __future__ import annotations

import ast
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

from gradlint.python.lower import DEEPEST, nested
from gradlint.python.source import Lines
from gradlint.records import dataclass

#: the head of a `case`, and how deep brackets may be in it: for each more libcst takes twice as long, or four times
_CASE = re.compile(r"^[ \t\f]*case\b|[;:][ \t]*case\b", re.MULTILINE)
_BRACKET = re.compile(r"[(\[{]|[)\]}]|\n")
_DEEPEST_PATTERN = 6
#: what stands for a node of Python's tree
_KINDS: dict[type[ast.AST], tuple[type[cst.CSTNode], ...]] = {
    ast.Name: (cst.Name,),
    ast.Attribute: (cst.Attribute,),
    ast.Call: (cst.Call,),
    ast.Constant: (
        cst.Name, cst.Integer, cst.Float, cst.SimpleString, cst.ConcatenatedString, cst.Ellipsis, cst.Imaginary,
    ),
    ast.JoinedStr: (cst.FormattedString, cst.ConcatenatedString),
    ast.BinOp: (cst.BinaryOperation,),
    ast.UnaryOp: (cst.UnaryOperation,),
    ast.Compare: (cst.Comparison,),
    ast.BoolOp: (cst.BooleanOperation,),
    ast.IfExp: (cst.IfExp,),
    ast.Subscript: (cst.Subscript,),
    ast.Tuple: (cst.Tuple,),
    ast.List: (cst.List,),
    ast.Set: (cst.Set,),
    ast.Dict: (cst.Dict,),
    ast.Lambda: (cst.Lambda,),
    ast.ListComp: (cst.ListComp,),
    ast.SetComp: (cst.SetComp,),
    ast.DictComp: (cst.DictComp,),
    ast.GeneratorExp: (cst.GeneratorExp,),
    ast.Starred: (cst.StarredElement,),
    ast.Await: (cst.Await,),
    ast.Yield: (cst.Yield,),
    ast.YieldFrom: (cst.Yield,),
    ast.NamedExpr: (cst.NamedExpr,),
    ast.Expr: (cst.Expr,),
    ast.Assign: (cst.Assign,),
    ast.AnnAssign: (cst.AnnAssign,),
    ast.AugAssign: (cst.AugAssign,),
    ast.Assert: (cst.Assert,),
    ast.Return: (cst.Return,),
    ast.Break: (cst.Break,),
    ast.Continue: (cst.Continue,),
    ast.Raise: (cst.Raise,),
    ast.Import: (cst.Import,),
    ast.ImportFrom: (cst.ImportFrom,),
    ast.Delete: (cst.Del,),
    ast.Global: (cst.Global,),
    ast.Nonlocal: (cst.Nonlocal,),
    ast.FunctionDef: (cst.FunctionDef,),
    ast.AsyncFunctionDef: (cst.FunctionDef,),
    ast.ClassDef: (cst.ClassDef,),
    ast.If: (cst.If,),
    ast.For: (cst.For,),
    ast.AsyncFor: (cst.For,),
    ast.While: (cst.While,),
    ast.With: (cst.With,),
    ast.AsyncWith: (cst.With,),
    ast.Try: (cst.Try,),
    ast.Match: (cst.Match,),
}  # fmt: skip
if sys.version_info >= (3, 11):
    _KINDS[ast.TryStar] = (cst.TryStar,)
_SOUGHT = {kind for kinds in _KINDS.values() for kind in kinds} | {cst.MatchCase}
#: Python counts the brackets round them
_BRACKETED = (ast.Tuple, ast.GeneratorExp)
# by type: libcst's classes are abstract ones, for which isinstance() is slow
_STATEMENTS = {
    cst.SimpleStatementLine, cst.FunctionDef, cst.ClassDef, cst.If, cst.For, cst.While, cst.With, cst.Try, cst.TryStar,
    cst.Match,
}  # fmt: skip
_F_STRING = re.compile(r"""[fF][rR]?["']|[rR][fF]["']""")
_BLANK = re.compile(r"(?:[\s\\]|#[^\r\n]*)*")
_STRINGS_ARE_PLACED = sys.version_info >= (3, 12)

#: from the first character up to, and without, the second
Stretch = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a file indents and ends its lines."""

    indent: str
    newline: str

    @classmethod
    def of(cls, tree: ast.Module, lines: Lines) -> Layout:
        ends = re.search(r"\r\n?|\n", lines.text)
        # to Python, a line begins behind its form feed
        indents = (_indent(stmt, lines).rpartition("\f")[2] for stmt in tree.body)
        return cls(next((x for x in indents if x), "    "), ends[0] if ends else "\n")


class Chunk:
    """One statement of the module with the lines above it; libcst reads it when it is asked for."""

    def __init__(
        self, text: str, start: int, own: int, stmts: list[ast.stmt], layout: Layout, homes: dict[cst.CSTNode, Chunk]
    ) -> None:  # fmt: skip
        """`homes`: where it puts its nodes down when it is read."""
        self.text = text
        #: where the text begins in the file, and where the statement does
        self.start, self.own = start, own
        self.stmts = stmts
        self._layout = layout
        self._homes = homes

    @property
    def is_definition(self) -> bool:
        return isinstance(self.stmts[0], ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)

    @cached_property
    def node(self) -> Any:
        """libcst's statement; None if it refuses the text, or would not give it back as it is."""
        indent, newline = self._layout.indent, self._layout.newline
        # the parser takes indentation and line ends from the first lines it sees, and gives lines that stand above the
        # first statement to the module
        ahead = f"if 1:{newline}{indent}pass{newline}pass{newline}"
        whole = self.text if self.text.endswith(("\n", "\r")) else self.text + newline
        if any(nested(stmt, DEEPEST) for stmt in self.stmts) or has_deep_pattern(whole):
            return None  # the time that libcst takes for them is far from linear
        try:
            found = cst.parse_module(ahead + whole).body
        except Exception:  # it has many ways to refuse a text
            return None
        if len(found) != 3:
            return None
        self._noted = _Noting(indent, newline)
        found[2]._codegen(self._noted)
        self.code = "".join(self._noted.tokens)
        if not whole.startswith(self.code):
            return None
        self._homes.update(dict.fromkeys(self._noted.stretches, self))
        del self._homes  # who asks there finds this, which need not know it any more
        return found[2]

    @property
    def tail(self) -> str:
        """What stands behind the statement and is no part of it."""
        return self.text[len(self.code) :]

    def place(self, node: cst.CSTNode) -> Stretch:
        """Where a node of this chunk stands in the file."""
        start, end = self._noted.stretches[node]
        return self._offsets[start], self._offsets[end]

    def written(self, statement: cst.CSTNode, indent: list[str]) -> list[str] | None:
        """The tokens of a statement with the lines above it; None if it is a new one, or was indented otherwise."""
        start, end, indented = self._noted.statements.get(statement, (0, 0, None))
        return self._noted.tokens[start:end] if indented == indent else None

    @cached_property
    def _offsets(self) -> list[int]:
        return [self.start + length for length in (0, *accumulate(map(len, self._noted.tokens)))]

    @cached_property
    def index(self) -> dict[tuple[type[cst.CSTNode], int], list[tuple[int, cst.CSTNode]]]:
        """The nodes by what they are and where they begin: (where it ends, node)."""
        found: dict[tuple[type[cst.CSTNode], int], list[tuple[int, cst.CSTNode]]] = {}
        offsets = self._offsets
        for node, (start, end) in self._noted.stretches.items():
            kind = type(node)
            if kind in _SOUGHT:
                at = self._noted.stretches[node.pattern][0] if kind is cst.MatchCase else start  # type: ignore[attr-defined]
                found.setdefault((kind, offsets[at]), []).append((offsets[end], node))
        return found


class Anchors:
    """One file, its chunks, and the libcst nodes of what somebody asks about.

    `text` is the file, `tree` may be of another text with the same places (see `newer`).
    """

    def __init__(self, text: str, tree: ast.Module, lines: Lines) -> None:
        self.text = text
        self.tree = tree
        self._lines = lines
        self.layout = Layout.of(tree, lines)
        #: the chunk of each of libcst's nodes
        self._homes: dict[cst.CSTNode, Chunk] = {}

    @cached_property
    def chunks(self) -> list[Chunk]:
        rows: list[tuple[int, int, list[ast.stmt]]] = []
        for stmt in self.tree.body:
            first = min([stmt.lineno, *(d.lineno for d in getattr(stmt, "decorator_list", ()))])
            last = stmt.end_lineno or first
            while self.text is not self._lines.text and self._lines.row(last).rstrip("\r\n").endswith("\\"):
                last += 1  # what `newer` has blanked behind it
            if rows and rows[-1][1] >= first:  # `a = 1; b = 2`
                rows[-1] = rows[-1][0], last, [*rows[-1][2], stmt]
            else:
                rows.append((first, last, [stmt]))
        return list(self._cut(rows))

    def _cut(self, rows: list[tuple[int, int, list[ast.stmt]]]) -> Iterator[Chunk]:
        lines = self._lines
        behind = lines.start(rows[0][0]) if rows else 0
        for number, (first, last, stmts) in enumerate(rows):
            begun, follower = behind, rows[number + 1][0] if number + 1 < len(rows) else lines.count + 1
            indent = _indent(stmts[-1], lines, last=True)
            owned = [row for row in range(last + 1, follower) if indent and lines.row(row).startswith(indent)]
            behind = lines.start((owned or [last])[-1] + 1)
            yield Chunk(self.text[begun:behind], begun, lines.start(first), stmts, self.layout, self._homes)

    @cached_property
    def extents(self) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Where the statement of each chunk begins and ends, in rows and columns."""
        ends = (self.stretch(chunk.stmts[-1])[1] for chunk in self.chunks)
        return [(self.position(chunk.own), self.position(end)) for chunk, end in zip(self.chunks, ends, strict=True)]

    @cached_property
    def header(self) -> str:
        return self.text[: self.chunks[0].start] if self.chunks else self.text

    @cached_property
    def footer(self) -> str:
        return self.text[self.chunks[-1].start + len(self.chunks[-1].text) :] if self.chunks else ""

    def stretch(self, node: ast.expr | ast.stmt | ast.pattern) -> Stretch:
        return self._lines.stretch(node)

    def chunk_at(self, offset: int) -> Chunk | None:
        """The chunk that holds a character of a statement."""
        at = bisect_right(self.chunks, offset, key=lambda chunk: chunk.own) - 1
        return self.chunks[at] if at >= 0 else None

    def node(self, node: ast.expr | ast.stmt | ast.pattern) -> cst.CSTNode | None:
        """libcst's node; None if there is none, as in a text that libcst refuses."""
        start, end = self.stretch(node)
        chunk = self.chunk_at(start)
        if chunk is None or chunk.node is None:
            return None
        if not _STRINGS_ARE_PLACED and isinstance(node, ast.expr) and node in self._strings:
            return self._in_string(node, self._strings[node])
        if isinstance(node, ast.pattern):
            # the bracket of `case (a, b):` is no part of libcst's pattern
            places = (chunk.index.get((cst.MatchCase, place)) for place in (start, self._behind(start)))
            return _only(next((found for found in places if found), []))
        kinds = _KINDS[type(node)]
        if isinstance(node, ast.stmt):
            return next((found for kind in kinds if (found := _only(chunk.index.get((kind, start), [])))), None)
        for kind in kinds:
            for there, found in chunk.index.get((kind, start), []):
                if there == end:
                    return found
        if isinstance(node, _BRACKETED) and self.text[start] == "(":
            inside = chunk.index.get((kinds[0], self._behind(start)), [])
            return max(inside, key=lambda each: each[0])[1] if inside else None
        return None

    def _behind(self, bracket: int) -> int:
        """Where something begins behind a bracket, spaces and comments."""
        found = _BLANK.match(self.text, bracket + 1)
        return found.end() if found is not None else bracket

    @cached_property
    def _strings(self) -> dict[ast.expr, ast.JoinedStr]:
        """The expressions inside of f-strings, and the outermost string that each stands in."""
        found: dict[ast.expr, ast.JoinedStr] = {}
        written = (stmt for chunk in self.chunks if _F_STRING.search(chunk.text) for stmt in chunk.stmts)
        for string in (node for stmt in written for node in ast.walk(stmt)):
            if isinstance(string, ast.JoinedStr):
                for inner in ast.walk(string):
                    if isinstance(inner, ast.expr) and inner is not string:
                        found.setdefault(inner, string)
        return found

    def _in_string(self, node: ast.expr, string: ast.JoinedStr) -> cst.CSTNode | None:
        """The one with the same number among those of its kind in the string, from left to right."""
        outer = self.node(string)
        if outer is None:
            return None
        same = [x for x in _in_order(string) if type(x) is type(node) and x is not string]
        found = [x for part in _insertions(outer) for x in _below(part) if type(x) in _KINDS[type(node)]]
        if isinstance(node, ast.Constant):
            found = [x for x in found if not isinstance(x, cst.Name) or x.value in ("True", "False", "None")]
        elif isinstance(node, ast.Name):
            same = [x for x in same if isinstance(x, ast.Name) and x.id == node.id]
            found = [x for x in found if isinstance(x, cst.Name) and x.value == node.id]
        return found[same.index(node)] if len(found) == len(same) else None

    def span(self, node: ast.expr | ast.stmt | ast.pattern) -> Stretch:
        """Where libcst's node stands, as far as it can be told without libcst."""
        start, end = self.stretch(node)
        misplaced = not _STRINGS_ARE_PLACED and isinstance(node, ast.expr) and node in self._strings
        if misplaced or isinstance(node, ast.pattern) or (isinstance(node, _BRACKETED) and self.text[start] == "("):
            found = self.node(node)
            return (start, end) if found is None else self.place(found) or (start, end)
        return start, end

    def place(self, node: cst.CSTNode) -> Stretch | None:
        """Where a libcst node stands; None if it is not one of the file's."""
        chunk = self._homes.get(node)
        return None if chunk is None else chunk.place(node)

    def every(self, *kinds: type[ast.AST]) -> Iterator[Any]:
        """The nodes of Python's tree, from the top down."""
        return (node for stmt in self.tree.body for node in _in_order(stmt) if isinstance(node, kinds))

    def position(self, offset: int) -> tuple[int, int]:
        """Row and column; the first column is 0."""
        return self._lines.position(offset)


class Unchanged:
    """Stands in a tree for a statement that is to be written as it was."""

    __slots__ = ("_chunk", "_statement")

    def __init__(self, statement: cst.CSTNode, chunk: Chunk) -> None:
        self._statement = statement
        self._chunk = chunk

    def _codegen(self, state: CodegenState) -> None:
        written = self._chunk.written(self._statement, state.indent_tokens)
        if written is None:
            self._statement._codegen(state)
        else:
            state.tokens.extend(written)


class _Noting(CodegenState):
    """Writes the text, and notes which tokens belong to each node."""

    def __init__(self, indent: str, newline: str) -> None:
        super().__init__(indent, newline)
        self.stretches: dict[cst.CSTNode, Stretch] = {}
        #: with the lines above it, and the indentation that it stands in
        self.statements: dict[cst.CSTNode, tuple[int, int, list[str]]] = {}
        self._begun: list[int] = []

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._begun.append(len(self.tokens))

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._begun.pop()
        if node not in self.stretches:
            self.stretches[node] = (start, len(self.tokens))
        elif type(node) in _STATEMENTS:
            self.statements[node] = (start, len(self.tokens), self.indent_tokens.copy())

    def record_syntactic_position(
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> Any:  # fmt: skip
        return _Proper(self, node, start_node, end_node)


class _Proper:
    """Notes the tokens of a node without the spaces, comments and brackets round it."""

    __slots__ = ("_begun", "_end_node", "_node", "_start_node", "_state")

    def __init__(
        self, state: _Noting, node: cst.CSTNode, start_node: cst.CSTNode | None, end_node: cst.CSTNode | None
    ) -> None:  # fmt: skip
        self._state = state
        self._node = node
        self._start_node = start_node
        self._end_node = end_node
        self._begun = len(state.tokens)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        known = self._state.stretches
        start = self._begun if self._start_node is None else known[self._start_node][0]
        end = len(self._state.tokens) if self._end_node is None else known[self._end_node][1]
        known[self._node] = (start, end)


def _only(found: Sequence[tuple[int, cst.CSTNode]]) -> cst.CSTNode | None:
    return found[0][1] if found else None


def _indent(stmt: ast.stmt, lines: Lines, *, last: bool = False) -> str:
    """The indentation of the first block of a statement, or of its last; "" if that stands on the line of its head."""
    suites = [suite for name in ("body", "handlers", "orelse", "finalbody", "cases") if (suite := _suite(stmt, name))]
    if not suites:
        return ""
    inner = suites[-1 if last else 0]
    head = inner[0] if not isinstance(inner[-1], ast.ExceptHandler | ast.match_case) else inner[-1].body[0]
    first = min([head.lineno, *(d.lineno for d in getattr(head, "decorator_list", ()))])
    row = lines.row(first)
    blank = row[: len(row) - len(row.lstrip(" \t\f"))]
    if last and isinstance(head, ast.If) and row[len(blank) :].startswith("elif"):
        return _indent(head, lines, last=True)
    # a block on the line of its head begins behind something else than spaces
    return blank if head.col_offset <= len(blank) or first < head.lineno else ""


def _suite(stmt: ast.stmt, name: str) -> list[Any]:
    found = getattr(stmt, name, None)
    return found if isinstance(found, list) else []


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, from left to right."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        if isinstance(current, ast.IfExp):
            inner: list[ast.AST] = [current.body, current.test, current.orelse]
        elif isinstance(current, ast.Dict):
            inner = [x for pair in zip(current.keys, current.values, strict=True) for x in pair if x is not None]
        elif isinstance(current, ast.JoinedStr):
            inner = [x for x in current.values if isinstance(x, ast.FormattedValue)]
        else:
            inner = list(ast.iter_child_nodes(current))
        pending.extend(reversed(inner))


def _insertions(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The outermost `{…}` of a string."""
    if isinstance(node, cst.FormattedStringExpression):
        yield node
        return
    for child in node.children:
        yield from _insertions(child)


def _below(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The same for libcst's tree, without names that are no expressions."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        plain = isinstance(current, cst.Attribute | cst.Arg)
        pending.extend([current.value] if plain else reversed(current.children))  # type: ignore[attr-defined]


def has_deep_pattern(text: str) -> bool:
    """Whether a pattern, as far as can be told from brackets, is nested so deeply that libcst would not come back."""
    at = 0
    while head := _CASE.search(text, at):
        depth, at = 0, head.end()
        for bracket in _BRACKET.finditer(text, at):
            at = bracket.end()
            depth += {"(": 1, "[": 1, "{": 1, "\n": 0}.get(bracket[0], -1)
            if depth > _DEEPEST_PATTERN:
                return True
            if depth <= 0 and bracket[0] == "\n":
                break
    return False
