"""The evidence table: each finding with what the run showed, before and after the fix, and the sum of it in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradlint.runtime.page.places import Places
from gradlint.runtime.page.words import counted
from gradlint.runtime.verification import Cure, Judged, Unshowable, Verdict, Verification


@dataclass(frozen=True, slots=True)
class Badge:
    """A word with a sign and a colour: `look` is its class in the page."""

    text: str
    sign: str
    look: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the table."""

    code: str
    name: str
    severity: str
    message: str
    place: str
    source: str
    runtime_only: bool
    verdict: Badge
    evidence: str
    cure: Badge | None
    after: str
    #: the iteration in which the pictures show it first; 0 if none does
    seen: int


_VERDICTS = {
    Verdict.CONFIRMED: Badge("confirmed", "!", "wrong"),
    Verdict.REFUTED: Badge("refuted", "○", "calm"),
    Verdict.NOT_SHOWN: Badge("not shown", "–", "open"),
}
_CURES = {
    Cure.CURED: Badge("cured", "✓", "cured"),
    Cure.NOT_CURED: Badge("not cured", "!", "wrong"),
}
#: what matters most stands first
_RANK = {Verdict.CONFIRMED: 0, Verdict.NOT_SHOWN: 1, Verdict.REFUTED: 2}


def entries(verification: Verification, places: Places, first: Mapping[str, int]) -> list[Entry]:
    judged = [(j, False) for j in verification.findings] + [(j, True) for j in verification.runtime_only]
    judged.sort(key=lambda pair: (_RANK[pair[0].verdict], -pair[0].severity, pair[0].filename, pair[0].line))
    return [_entry(j, only, places, first.get(j.code, 0)) for j, only in judged]


def where(finding: Judged | Unshowable, places: Places) -> str:
    return places.at(finding.filename, finding.line)


def headline(verification: Verification) -> str:
    """`2 confirmed, 1 refuted, 1 not shown; the fix cured 2`."""
    judged = [*verification.findings, *verification.runtime_only]
    seen = len(verification.health)
    if not judged and seen and not verification.failure:
        return f"Nothing to confirm, but {counted(seen, 'thing looks', 'things look')} wrong in the run"
    if not judged and verification.stepless and not verification.failure:
        return "Nothing was judged: no optimizer step was taken"
    if not judged:
        return (
            "The script failed"
            if verification.failure
            else "Nothing to confirm: the linter found nothing that a run can show"
        )
    counts = [(_count(judged, verdict), badge.text) for verdict, badge in _VERDICTS.items()]
    said = ", ".join(f"{count} {word}" for count, word in counts if count)
    if not _count(judged, Verdict.CONFIRMED):
        said = f"Nothing confirmed: {said}"
    return f"{said}; {_cured(judged)}" if _cured(judged) else said


def mood(verification: Verification) -> str:
    """The class of the headline: wrong, cured or calm."""
    confirmed = [j for j in (*verification.findings, *verification.runtime_only) if j.verdict is Verdict.CONFIRMED]
    if confirmed and not verification.health and all(j.after_fix is Cure.CURED for j in confirmed):
        return "cured"
    if confirmed or verification.failure:
        return "wrong"
    return "open" if verification.health else "calm"


def summary(verification: Verification) -> str:
    """What the headline means for the reader."""
    confirmed = [j for j in (*verification.findings, *verification.runtime_only) if j.verdict is Verdict.CONFIRMED]
    cured = [j for j in confirmed if j.after_fix is Cure.CURED]
    if not confirmed:
        quiet = not verification.failure and verification.steps and not verification.health
        return "The run showed nothing wrong either." if quiet and not verification.findings else ""
    if len(cured) == len(confirmed):
        one = "The mistake is real, and the fixed copy trains without it."
        return one if len(confirmed) == 1 else "The mistakes are real, and the fixed copy trains without them."
    left = len(confirmed) - len(cured)
    if any(j.after_fix is Cure.NOT_CURED for j in confirmed):
        return f"{counted(left, 'confirmed finding')} left after the fix."
    return f"{counted(left, 'confirmed finding')} for you to mend by hand."


def _entry(judged: Judged, runtime_only: bool, places: Places, seen: int) -> Entry:
    return Entry(
        judged.code,
        judged.name,
        judged.severity.label,
        judged.message,
        where(judged, places),
        places.source(judged.filename, judged.line),
        runtime_only,
        _VERDICTS[judged.verdict],
        judged.evidence,
        _CURES.get(judged.after_fix),
        judged.after,
        seen if judged.marks or judged.marks_after else 0,
    )


def _cured(judged: Sequence[Judged]) -> str:
    cured = sum(j.after_fix is Cure.CURED for j in judged)
    failed = sum(j.after_fix is Cure.NOT_CURED for j in judged)
    if cured and failed:
        return f"the fix cured {cured} and left {failed}"
    if cured:
        return f"the fix cured {cured}"
    return "the fix cured nothing" if failed else ""


def _count(judged: Sequence[Judged], verdict: Verdict) -> int:
    return sum(j.verdict is verdict for j in judged)
