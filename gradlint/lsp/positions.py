"""How an editor counts: the units of a line, and how places move when text is put in or taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gradlint.model import split_lines
from gradlint.report.lsp import utf16

#: how many units so many characters of a line are
Width = Callable[[str, int], int]


def _utf8(line: str, characters: int) -> int:
    return len(line[:characters].encode("utf-8", "surrogatepass"))


def _utf32(line: str, characters: int) -> int:
    return min(characters, len(line))


WIDTHS: dict[str, Width] = {"utf-8": _utf8, "utf-16": utf16, "utf-32": _utf32}


def characters(line: str, units: int, width: Width) -> int:
    """How many characters of a line so many units are; never beyond its end, never half a character."""
    if line.isascii() or width is _utf32:
        return min(max(units, 0), len(line))
    low, high = 0, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if width(line, middle) <= units else (low, middle - 1)
    return low


class Spot(NamedTuple):
    """A place as the protocol has it: line and character from 0, in the units of the editor."""

    line: int
    character: int


class Shift(NamedTuple):
    """What a change does to the places of a text: all between `start` and `end` is replaced, up to `now`."""

    start: Spot
    end: Spot
    now: Spot

    @classmethod
    def of(cls, start: Spot, end: Spot, text: str, width: Width) -> Shift:
        *above, last = split_lines(text)
        reached = width(last, len(last))
        if above:
            return cls(start, end, Spot(start.line + len(above), reached))
        return cls(start, end, Spot(start.line, start.character + reached))

    def moved(self, start: Spot, end: Spot) -> tuple[Spot, Spot] | None:
        """Where a range is now; None if all of it was taken away."""
        begins = start if start < self.start else self._after(max(start, self.end))
        if start == end:
            return None if self.start < start < self.end else (begins, begins)
        ends = end if end <= self.start else self.start if end < self.end else self._after(end)
        return (begins, ends) if begins < ends else None

    def _after(self, spot: Spot) -> Spot:
        if spot.line == self.end.line:
            return Spot(self.now.line, self.now.character + spot.character - self.end.character)
        return Spot(spot.line + self.now.line - self.end.line, spot.character)
