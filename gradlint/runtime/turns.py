"""In which turn of which loops something happened, from the order of the lines that did it.

A run tells no loops, only lines. Within one call of a function, a line that comes before the last one, or the same line
once more, begins a new turn of the innermost loop that holds both. Code that is called again and again from a
place in no loop of the user's (a framework's trainer) gets a loop of its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gradlint.events import Turn
from gradlint.model import split_lines
from gradlint.runtime.recording import Place

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
        self.rows = split_lines(self.text)
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

    def statement(self, name: str, line: int) -> tuple[str, int]:
        """The file, and the first line of the statement."""
        return name, self[name].at(line).start

    def bound_at(self, place: Place | None) -> str:
        """`self.optimizer` for the place of `self.optimizer = AdamW(…)`; "" if no one name is bound there."""
        name, equals, _ = self[place.file].source(place.line).partition("=") if place is not None else ("", "", "")
        name = name.partition(":")[0].strip()
        return name if equals and name.replace(".", "").replace("_", "").isalnum() else ""


# -- turns -------------------------------------------------------------------------------------------------------------


#: comprehensions are a part of the statement they stand in
_WITHIN = ("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>", "<lambda>")
_MODULE = "<module>"
#: a loop: the file, and the line of its head (negative: a call that comes again without a loop)
_Loop = tuple[str, int]


@dataclass(slots=True)
class _Level:
    """Where in one call of a function the last event came from."""

    place: Place
    line: Line
    turns: dict[_Loop, int]
    #: what has happened at this very statement in this turn
    seen: set[object] = field(default_factory=set)
    #: the functions that this very statement has called in this turn
    called: set[tuple[str, str]] = field(default_factory=set)


def own_places(places: tuple[Place, ...]) -> tuple[Place, ...]:
    """From the outside in, without comprehensions."""
    named = [p for p in places if p.function not in _WITHIN]
    return tuple(reversed(named or places))


class Turns:
    """Hands out frames, event by event."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._levels: list[_Level] = []
        self._counts: dict[_Loop, int] = {}
        self._ids: dict[_Loop, int] = {}
        #: of the outermost function: which call of it, and in which turn that is
        self._call: tuple[_Loop, int] | None = None
        self._turn = 0

    def frames(self, places: tuple[Place, ...], what: object) -> tuple[Turn, ...]:
        """The loops round an event, from the outside in. `what`: the same again at the same line is a new turn."""
        chain = own_places(places)
        levels: list[_Level] = []
        shared = True
        outermost = self._calls(chain)
        for depth, place in enumerate(chain):
            line = self._files[place.file].at(place.line)
            last = self._levels[depth] if shared and depth < len(self._levels) else None
            if last is None or (last.place.file, last.place.call) != (place.file, place.call):
                shared = False
                level = _Level(place, line, {})
            else:
                level = self._moved(last, place, line, chain, depth, what)
                shared = shared and level.seen is last.seen
            for loop in self._loops(place, line, depth == len(chain) - 1):
                if loop not in level.turns:
                    level.turns[loop] = self._next(loop)
            levels.append(level)
            if depth + 1 < len(chain):
                level.called.add((chain[depth + 1].file, chain[depth + 1].function))
        if levels:
            levels[-1].seen.add(what)
        self._levels = levels
        return outermost + tuple(
            Turn(self._id(loop), level.turns[loop])
            for depth, level in enumerate(levels)
            for loop in self._loops(level.place, level.line, depth == len(chain) - 1)
        )

    def _calls(self, chain: tuple[Place, ...]) -> tuple[Turn, ...]:
        """Of a function that is called again and again from elsewhere, each call is a turn of a loop of its own."""
        if not chain or chain[0].function == _MODULE:
            return ()
        loop = (f"{chain[0].file}:{chain[0].function}", -1)
        if self._call != (loop, chain[0].call):
            self._call, self._turn = (loop, chain[0].call), self._next(loop)
        return (Turn(self._id(loop), self._turn),)

    def lasting(self, frames: tuple[Turn, ...]) -> tuple[Turn, ...]:
        """Without the calls that turned out to come only once."""
        single = {self._id(loop) for loop, count in self._counts.items() if loop[1] < 0 and count < 2}
        return tuple(f for f in frames if f.loop not in single)

    def _moved(
        self, last: _Level, place: Place, line: Line, chain: tuple[Place, ...], depth: int, what: object
    ) -> _Level:  # fmt: skip
        """The same call of the function goes on: in the same turn, or in a new one of the innermost common loop."""
        again = self._again(last, line, chain, depth, what)
        if not again and line.start == last.line.start:
            return _Level(place, line, dict(last.turns), last.seen, last.called)
        loops = self._loops(place, line, depth == len(chain) - 1)
        common = [loop for loop in loops if loop in last.turns]
        kept = common[:-1] if again else common
        return _Level(place, line, {loop: last.turns[loop] for loop in kept})

    def _again(self, last: _Level, line: Line, chain: tuple[Place, ...], depth: int, what: object) -> bool:
        if line.start != last.line.start:
            return line.start < last.line.start
        before = self._levels[depth + 1] if depth + 1 < len(self._levels) else None
        now = chain[depth + 1] if depth + 1 < len(chain) else None
        if now is None:
            return before is None and what in last.seen
        if before is None:
            return True  # what it is called with was made before the line itself acted
        return before.place.call != now.call and (now.file, now.function) in last.called

    def _loops(self, place: Place, line: Line, innermost: bool) -> list[_Loop]:
        if line.loops:
            return [(place.file, head) for head in line.loops]
        return [] if innermost else [(place.file, -line.start)]

    def _next(self, loop: _Loop) -> int:
        count = self._counts.get(loop, 0)
        self._counts[loop] = count + 1
        return count

    def _id(self, loop: _Loop) -> int:
        return self._ids.setdefault(loop, len(self._ids))
