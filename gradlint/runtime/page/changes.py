"""What the fix changed, line by line."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from gradlint.runtime.page.places import Places
from gradlint.runtime.verification import Verification

#: lines around a change, and lines that are shown at most
_CONTEXT = 3
_MOST = 400


@dataclass(frozen=True, slots=True)
class Change:
    """The difference of one file; each line with its class in the page: plus, minus, hunk or same."""

    name: str
    lines: list[tuple[str, str]]


def changes(verification: Verification, places: Places) -> list[Change]:
    if verification.after is None:
        return []
    found = []
    for file, before in verification.before.sources.items():
        after = verification.after.sources.get(file, before)
        if after != before:
            found.append(Change(places.name(file), list(_lines(before, after))[:_MOST]))
    return found


def _lines(before: str, after: str) -> Iterator[tuple[str, str]]:
    different = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=_CONTEXT)
    for line in list(different)[2:]:  # behind the names
        look = {"+": "plus", "-": "minus", "@": "hunk"}.get(line[:1], "same")
        yield look, line
