"""Statements as a small tree, and the many ways in which people lay them out."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Stmt:
    """A statement, or the header of a block with what is in it; and how it is written."""

    code: str
    body: list[Stmt] | None = None
    above: list[str] = field(default_factory=list)
    behind: str = ""
    #: an empty line in front
    blank: bool = False
    #: each argument on its own line
    split: bool = False
    #: on one line with the next: `a(); b()`
    joined: bool = False
    #: the body behind the colon: `if full: step()`
    inline: bool = False

    @property
    def simple(self) -> bool:
        return self.body is None


def block(header: str, *body: Stmt | str) -> Stmt:
    return Stmt(header, lines(*body))


def lines(*body: Stmt | str) -> list[Stmt]:
    return [x if isinstance(x, Stmt) else Stmt(x) for x in body]


def bodies(body: list[Stmt]) -> Iterator[list[Stmt]]:
    """This block and all blocks in it."""
    yield body
    for stmt in body:
        if stmt.body is not None:
            yield from bodies(stmt.body)


class Mark(enum.Enum):
    """A peculiarity of one statement's layout."""

    ABOVE = enum.auto()
    ABOVE_TWICE = enum.auto()
    BEHIND = enum.auto()
    BLANK = enum.auto()
    SPLIT = enum.auto()
    JOINED = enum.auto()
    INLINE = enum.auto()


def mark(stmt: Stmt, what: Mark, comment: str) -> None:
    match what:
        case Mark.ABOVE:
            stmt.above.append(comment)
        case Mark.ABOVE_TWICE:
            stmt.above += [comment, "# and so on"]
        case Mark.BEHIND:
            stmt.behind = comment
        case Mark.BLANK:
            stmt.blank = True
        case Mark.SPLIT:
            stmt.split = True
        case Mark.JOINED:
            stmt.joined = stmt.simple
        case Mark.INLINE:
            stmt.inline = not stmt.simple


@dataclass(frozen=True)
class Style:
    """How a whole file is written."""

    indent: str = "    "
    newline: str = "\n"
    final_newline: bool = True
    encoding: str = "utf-8"

    def written(self, body: list[Stmt]) -> bytes:
        cookie = [f"# -*- coding: {self.encoding} -*-"] if self.encoding == "latin-1" else []
        text = self.newline.join([*cookie, *self._block(body, 0)])
        return (text + self.newline * self.final_newline).encode(self.encoding)

    def _block(self, body: list[Stmt], depth: int) -> Iterator[str]:
        waiting: list[Stmt] = []
        for n, stmt in enumerate(body):
            follows = n + 1 < len(body) and body[n + 1].simple
            waiting.append(stmt)
            if not (stmt.joined and stmt.simple and follows):
                yield from self._row(waiting, depth)
                waiting = []

    def _row(self, row: list[Stmt], depth: int) -> Iterator[str]:
        """One statement, or the simple ones that share a line."""
        margin, last = self.indent * depth, row[-1]
        if row[0].blank:
            yield ""
        # a comment behind a statement that shares its line has no room there
        for comment in [c for x in row for c in x.above] + [x.behind for x in row[:-1] if x.behind]:
            yield margin + comment
        behind = f"  {last.behind}" if last.behind else ""
        if last.body is None:
            split = _arguments(last.code) if last.split and len(row) == 1 else None
            if split is None:
                yield margin + "; ".join(x.code for x in row) + behind
            else:
                head, arguments = split
                yield f"{margin}{head}("
                yield from (f"{margin}{self.indent}{argument}," for argument in arguments)
                yield f"{margin}){behind}"
        elif last.inline and all(x.simple and not x.above and not x.behind for x in last.body):
            yield f"{margin}{last.code} " + "; ".join(x.code for x in last.body) + behind
        else:
            yield margin + last.code + behind
            yield from self._block(last.body, depth + 1)


def _arguments(code: str) -> tuple[str, list[str]] | None:
    """The head and the arguments of a statement that is a call; None if it is not, or has none."""
    stmt = ast.parse(code).body[0]
    call = stmt.value if isinstance(stmt, ast.Expr | ast.Assign) else None
    if not isinstance(call, ast.Call) or call.end_col_offset != len(code) or not (call.args or call.keywords):
        return None
    parts = [ast.get_source_segment(code, x) or "" for x in (*call.args, *call.keywords)]
    return code[: call.func.end_col_offset], parts
