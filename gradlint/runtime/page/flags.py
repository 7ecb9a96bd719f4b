"""What findings point at: which happening shows which rule, and whether that is bad news."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from gradlint.runtime.page.places import Places
from gradlint.runtime.recording import Happening, Raised, Recording
from gradlint.runtime.verification import Cure, Judged, Verdict


class Tone(enum.Enum):
    """The value is the class in the page."""

    WRONG = "wrong"
    CURED = "cured"
    REFUTED = "refuted"


#: the sign beside the colour
SIGNS = {Tone.WRONG: "!", Tone.CURED: "✓", Tone.REFUTED: "○"}
WORDS = {Tone.WRONG: "wrong here", Tone.CURED: "cured", Tone.REFUTED: "not wrong here"}


@dataclass(frozen=True, slots=True)
class Flag:
    """One finding at one happening."""

    code: str
    name: str
    tone: Tone


#: calls within which something may be raised, by what they are a part of
_CALLS = {"scaler.step": "step", "closure": "step", "scale": "backward"}

Flags = dict[int, tuple[Flag, ...]]


def flags_before(judged: Iterable[Judged]) -> Flags:
    """By the index of the happening."""
    pointed = []
    for finding in judged:
        tone = Tone.WRONG if finding.verdict is Verdict.CONFIRMED else Tone.REFUTED
        pointed.append((Flag(finding.code, finding.name, tone), finding.marks))
    return _gathered(pointed)


def flags_after(judged: Iterable[Judged], before: Recording, after: Recording, places: tuple[Places, Places]) -> Flags:
    """What is still wrong; and of what is cured, the same statements, which are right now."""
    pointed = []
    for finding in judged:
        if finding.after_fix is Cure.CURED:
            marks = finding.marks_after or _same_statements(finding, before, after, places)
            pointed.append((Flag(finding.code, finding.name, Tone.CURED), marks))
        else:
            pointed.append((Flag(finding.code, finding.name, Tone.WRONG), finding.marks_after))
    return _gathered(pointed)


def kind_of(happening: Happening) -> str:
    """What a call raised is of the kind of the call."""
    if isinstance(happening, Raised) and happening.during:
        return _CALLS.get(happening.during, happening.during)
    return happening.KIND


def worst(at: Iterable[Flag]) -> Tone | None:
    tones = {flag.tone for flag in at}
    return next((tone for tone in Tone if tone in tones), None)


def _gathered(pointed: Iterable[tuple[Flag, Iterable[int]]]) -> Flags:
    found: Flags = {}
    for flag, marks in pointed:
        for index in marks:
            at = found.get(index, ())
            found[index] = at if flag in at else (*at, flag)
    return found


def _same_statements(finding: Judged, before: Recording, after: Recording, places: tuple[Places, Places]) -> list[int]:
    """The flagged statements in the fixed copy; one that the fix has rewritten is known if it is the only one left."""
    marks = frozenset(finding.marks)
    marked = {_statement(h, places[0]) for h in before.happenings if h.index in marks}
    found = [h.index for h in after.happenings if _statement(h, places[1]) in marked]
    return found or _only_ones(after, {kind for kind, _ in marked}, places[1])


def _only_ones(recording: Recording, kinds: set[str], places: Places) -> list[int]:
    alike = [h for h in recording.happenings if kind_of(h) in kinds]
    return [h.index for h in alike] if len({_statement(h, places) for h in alike}) == 1 else []


def _statement(happening: Happening, places: Places) -> tuple[str, str]:
    place = happening.place
    return kind_of(happening), places.source(place.file, place.line) if place is not None else ""
