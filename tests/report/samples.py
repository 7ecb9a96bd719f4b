"""Findings in small texts, for the tests of the formats."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hypothesis import strategies as st

from gradlint.model import (
    Cell,
    Edit,
    FileResult,
    Finding,
    Fix,
    FixSafety,
    Position,
    Related,
    RuleCrash,
    Severity,
    Span,
    Unreadable,
    split_lines,
)
from gradlint.report.document import Report

#: step and clip, with characters that count twice in UTF-16 in front of them
TRAIN = """\
def train():
    x = '\N{GRINNING FACE}é'; step()
    y = '\N{GRINNING FACE}\N{GRINNING FACE}'; clip(
        a,
    )
"""
#: names that mean something to shells, addresses, XML, Markdown or workflow commands
ODD_PATHS = (
    "train.py",
    "a b/c d.py",
    "é/損失.py",
    "100%25.py",
    "a,b:c;d.py",
    "a<b>&\"c'.py",
    "[x](y)_*z*`.py",
    "#frag?ment.py",
)
#: what of a name's bytes is no text comes as halves of characters; editors can hand over any of them
ANY_PATH = st.text(st.characters(exclude_characters="\0"), min_size=1)
#: names that no encoding can write: a byte, halves of both kinds
UNWRITABLE_PATHS = ("caf\udce9.py", "\ud800", "a/\udfff b.py", "\ud83d\udce9\udc7f.py", "\ud800\x1b[31m\n.py")


def span_of(text: str, part: str) -> Span:
    """Where a part of a text stands."""
    at = text.index(part)
    return Span(_position(text, at), _position(text, at + len(part)))


def _position(text: str, offset: int) -> Position:
    lines = split_lines(text[:offset])
    return Position(len(lines), len(lines[-1]) + 1)


def finding(
    span: Span,
    *,
    code: str = "GL101",
    name: str = "clip-after-step",
    severity: Severity = Severity.ERROR,
    message: str = "`clip()` runs after `step()`",
    related: tuple[Related, ...] = (),
    fix: Fix | None = None,
) -> Finding:
    return Finding(code, name, severity, message, span, related, fix)


def train_finding(text: str = TRAIN) -> Finding:
    """A finding with all that one can have."""
    clip = span_of(text, text[text.index("clip(") : text.rindex(")") + 1])
    step = span_of(text, "step()")
    edits = (Edit(Span(step.start, step.start), "clip(a); "), Edit(clip, "pass"))
    return finding(clip, related=(Related(step, "used here"),), fix=Fix(FixSafety.SAFE, "Move the clip", edits))


def report(results: list[FileResult], sources: Mapping[str, str | bytes] | None = None) -> Report:
    given = sources or {}

    def read(path: str) -> bytes | None:
        text = given.get(path)
        return text.encode() if isinstance(text, str) else text

    return Report(results, len(results), read)


def one_file(path: str = "train.py", text: str = TRAIN) -> Report:
    return report([FileResult(path, (train_finding(text),))], {path: text})


def troubled() -> Report:
    """A file that could not be read, and one on which a rule failed."""
    return report(
        [
            FileResult("binary.py", unreadable=Unreadable("it is a binary file")),
            FileResult("odd.py", crashes=(RuleCrash("GL101", "KeyError: 'x'", "Traceback …"),)),
        ]
    )


CELLS = {2: "import torch\n\nstep()", 4: "x = 1\nclip()"}


def notebook_source(*, joined: bool = False) -> bytes:
    """A notebook whose cells 2 and 4 are `CELLS`; the sources are lists of lines, or whole strings."""
    cells = []
    for number in range(1, 5):
        text = CELLS.get(number, "words")
        source = text if joined else text.splitlines(keepends=True)
        kind = {"cell_type": "code", "outputs": []} if number in CELLS else {"cell_type": "markdown"}
        cells.append({**kind, "metadata": {}, "source": source})
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()


def notebook(*, joined: bool = False) -> Report:
    """The clip of cell 4 is wrong, the story is in cell 2, and the fix changes both."""
    step, clip = Span(Position(3, 1), Position(3, 7)), Span(Position(5, 1), Position(5, 7))
    edits = (Edit(Span(step.start, step.start), "clip()\n"), Edit(Span(clip.start, Position(6, 1)), ""))
    made = finding(clip, related=(Related(step, "used here"),), fix=Fix(FixSafety.UNSAFE, "Move the clip", edits))
    result = FileResult("nb.ipynb", (made,), cells=(Cell(2, 1, 3), Cell(4, 4, 2)))
    return report([result], {"nb.ipynb": notebook_source(joined=joined)})
