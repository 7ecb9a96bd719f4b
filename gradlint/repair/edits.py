"""The difference of two texts as edits, and edits put into a text; lines that no edit names stay byte for byte."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable, Sequence

from gradlint.model import Edit, Position, Span
from gradlint.python.source import Lines, lines_of, parsed


def difference(old: str, new: str, *, exact: bool = False) -> tuple[Edit, ...]:
    """The edits that make the new text of the old one; whole lines, or the middle of a single line.

    Empty lines that come or go by themselves, away from what changes, are left alone unless it is to be exact.
    """
    first, start, end = _window(old, new)
    before, after = lines_of(old[start : len(old) - end]), lines_of(new[start : len(new) - end])
    head, tail = ends(before, after)
    # a thousand empty lines are a million pairs of equal ones
    matcher = difflib.SequenceMatcher(
        lambda line: not line.strip(),
        before[head : len(before) - tail],
        after[head : len(after) - tail],
        autojunk=False,
    )
    edits = []
    for tag, low, high, begun, ended in matcher.get_opcodes():
        if tag != "equal":
            edit = _edit(before, head + low, head + high, after[head + begun : head + ended])
            edits.append((edit.below(first), _only_blank_lines(before, edit)))
    every = [edit for edit, _ in edits]
    kept = every if exact else [edit for edit, blank in edits if not blank]
    if len(kept) < len(every) and not _same_program(applied(old, kept), new):
        return tuple(every)  # they stand in a string
    return tuple(kept)


def _window(old: str, new: str) -> tuple[int, int, int]:
    """What two texts have in common: whole lines at their beginning, these in characters, and characters at the end."""
    start = old.rfind("\n", 0, shared(old, new)) + 1
    behind = len(old) - shared_end(old, new, start)
    end = old.find("\n", behind) + 1
    lines = len(lines_of(old[:start])) if "\r" in old[:start] else old.count("\n", 0, start)
    return lines, start, len(old) - end if end else 0


def ends(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many lines two texts begin with in common, and how many of the others they end with."""
    most = min(len(before), len(after))
    head = next((n for n in range(most) if before[n] != after[n]), most)
    return head, next((n for n in range(most - head) if before[-1 - n] != after[-1 - n]), most - head)


def shared(old: str, new: str) -> int:
    """How many characters two texts begin with in common."""
    return _most(min(len(old), len(new)), lambda low, high: old[low:high] == new[low:high])


def shared_end(old: str, new: str, start: int) -> int:
    """How many characters they end with in common, behind the first ones."""
    sizes = len(old), len(new)
    return _most(
        min(sizes) - start,
        lambda low, high: old[sizes[0] - high : sizes[0] - low] == new[sizes[1] - high : sizes[1] - low],
    )


def _most(limit: int, alike: Callable[[int, int], bool]) -> int:
    """The largest number up to which all is alike; `alike` looks at one stretch."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if alike(low, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _only_blank_lines(before: list[str], edit: Edit) -> bool:
    start, end = edit.span.start, edit.span.end
    if start.column != 1 or end.column != 1:
        return False
    return not "".join([edit.content, *before[start.row - 1 : end.row - 1]]).strip()


def _same_program(one: str, other: str) -> bool:
    try:
        return ast.dump(parsed(one)) == ast.dump(parsed(other))
    except (SyntaxError, ValueError, RecursionError):
        return False


def _edit(before: list[str], low: int, high: int, new: list[str]) -> Edit:
    if high - low == 1 and len(new) == 1:
        return _within(before[low], new[0], low + 1)
    return Edit(Span(_line_start(before, low), _line_start(before, high)), "".join(new))


def _within(old: str, new: str, row: int) -> Edit:
    """Only the part of a line that changes."""
    head = shared(old, new)
    tail = shared_end(old, new, head)
    span = Span(Position(row, head + 1), Position(row, len(old) - tail + 1))
    return Edit(span, new[head : len(new) - tail])


def _line_start(lines: list[str], index: int) -> Position:
    """The start of a line; behind the last one if its end is missing."""
    if index == len(lines) and lines and not lines[-1].endswith(("\n", "\r")):
        return Position(index, len(lines[-1]) + 1)
    return Position(index + 1, 1)


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits made; they must not overlap."""
    lines = Lines(text)
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end), reverse=True):
        low, high = (lines.start(at.row) + at.column - 1 for at in (edit.span.start, edit.span.end))
        text = text[:low] + edit.content + text[high:]
    return text
