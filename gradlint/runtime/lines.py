"""The lines of the user's files: which statement a line is in, and which loops that statement is in."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

#: what ends a line for Python; `str.splitlines` knows several more, form feeds among them
_LINE_END = re.compile(r"\r\n|\r|\n")

#: behind code; what holds a quote may be a part of a string
_COMMENT = re.compile(r"\s+#[^\"']*$")

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True, slots=True)
class Line:
    """The statement that a line belongs to; of a compound statement, its head."""

    #: first line of the statement, and the last one of it (or of its head)
    start: int
    end: int
    #: first lines of the loops of the same function that it is in, from the outside in
    loops: tuple[int, ...] = ()
    #: of the function it is in; "" outside of any
    function: str = ""


@dataclass(slots=True)
class File:
    """One file as it ran."""

    text: str
    lines: dict[int, Line] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = _LINE_END.split(self.text)
        try:
            tree = ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError):
            return  # what ran was something else: every line is a statement of its own
        self._block(tree.body, (), "")

    def at(self, line: int) -> Line:
        return self.lines.get(line) or Line(line, line)

    def source(self, line: int) -> str:
        """The statement's text on one line, cut to a length that can be read."""
        about = self.at(line)
        rows = [_COMMENT.sub("", row) for row in self.rows[about.start - 1 : about.end]]
        text = " ".join(" ".join(rows).split())
        return text if len(text) <= 120 else text[:117] + "…"

    def _block(self, body: list[ast.stmt], loops: tuple[int, ...], function: str) -> None:
        for statement in body:
            self._statement(statement, loops, function)

    def _statement(self, statement: ast.stmt, loops: tuple[int, ...], function: str) -> None:
        blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        blocks += [handler.body for handler in getattr(statement, "handlers", [])]
        blocks += [case.body for case in getattr(statement, "cases", [])]
        inner = [s for block in blocks for s in block if isinstance(s, ast.stmt)]
        last = statement.end_lineno or statement.lineno
        end = max(statement.lineno, min(s.lineno for s in inner) - 1) if inner else last
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            self._mark(statement.lineno, end, loops, function)
            self._block(statement.body, (), statement.name)
            return
        if isinstance(statement, ast.ClassDef):
            self._mark(statement.lineno, end, loops, function)
            self._block(statement.body, (), function)
            return
        around = loops
        if isinstance(statement, _LOOPS):
            # the head asks for the next item: it is a part of the turn that it begins
            around = (*loops, statement.lineno)
        self._mark(statement.lineno, end, around, function)
        for name, block in zip(("body", "orelse", "finalbody"), blocks, strict=False):
            self._block(block, around if name == "body" else loops, function)
        for block in blocks[3:]:
            self._block(block, loops, function)

    def _mark(self, start: int, end: int, loops: tuple[int, ...], function: str) -> None:
        about = Line(start, end, loops, function)
        for number in range(start, end + 1):
            self.lines.setdefault(number, about)


class Files:
    """All files of a run."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._files = {name: File(text) for name, text in sources.items()}

    def __getitem__(self, name: str) -> File:
        found = self._files.get(name)
        if found is None:
            found = self._files[name] = File("")
        return found
