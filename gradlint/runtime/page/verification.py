"""The page of `gradlint verify`: what its template is given."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from gradlint.model import counted
from gradlint.runtime.page.curves import curves, ranks
from gradlint.runtime.page.lanes import flags_after, flags_before
from gradlint.runtime.page.render import Badge, render
from gradlint.runtime.page.story import Run, story
from gradlint.runtime.page.words import Places
from gradlint.runtime.recording import Recording
from gradlint.runtime.verdicts import Cure, Judged, Side, Verdict, Verification

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


#: a finding and whether only the run showed it; its place and source; its badges; the iteration in which the pictures
#: show it first, or 0
Entry = tuple[Judged, bool, str, str, Badge, Badge | None, int]


def entries(verification: Verification, places: Places, first: Mapping[str, int]) -> list[Entry]:
    judged = [(j, False) for j in verification.findings] + [(j, True) for j in verification.runtime_only]
    judged.sort(key=lambda pair: (_RANK[pair[0].verdict], -pair[0].severity, pair[0].filename, pair[0].line))
    return [
        (
            j,
            only,
            places.at(j.filename, j.line),
            places.source(j.filename, j.line),
            _VERDICTS[j.verdict],
            _CURES.get(j.after_fix),
            first.get(j.code, 0) if j.marks or j.marks_after else 0,
        )
        for j, only in judged
    ]


def headline(verification: Verification) -> str:
    """`2 confirmed, 1 refuted, 1 not shown; the fix cured 2`."""
    judged = verification.judged
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
    confirmed = _confirmed(verification)
    if confirmed and not verification.health and all(j.after_fix is Cure.CURED for j in confirmed):
        return "cured"
    if confirmed or verification.failure:
        return "wrong"
    return "open" if verification.health else "calm"


def summary(verification: Verification) -> str:
    """What the headline means for the reader."""
    confirmed = _confirmed(verification)
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


def _confirmed(verification: Verification) -> list[Judged]:
    return [j for j in verification.judged if j.verdict is Verdict.CONFIRMED]


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


# -- what the fix changed ----------------------------------------------------------------------------------------------


#: lines around a change, and lines that are shown at most
_CONTEXT = 3
_MOST = 400


def changes(verification: Verification, places: Places) -> list[tuple[str, list[tuple[str, str]]]]:
    """The files that differ; each line with its class in the page: plus, minus, hunk or same."""
    if verification.after is None:
        return []
    found = []
    for file, before in verification.before.sources.items():
        after = verification.after.sources.get(file, before)
        if after != before:
            found.append((places.name(file), list(_lines(before, after))[:_MOST]))
    return found


def _lines(before: str, after: str) -> Iterator[tuple[str, str]]:
    different = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=_CONTEXT)
    for line in list(different)[2:]:  # behind the names
        look = {"+": "plus", "-": "minus", "@": "hunk"}.get(line[:1], "same")
        yield look, line


# -- the page ----------------------------------------------------------------------------------------------------------


BEFORE, AFTER, ALONE = "Before the fix", "After the fix", "The run"


def verification_page(verification: Verification) -> str:
    """The text of the page; the same verification always gives the same text."""
    places = Places(verification.before.sources, verification.script, verification.cells)
    runs = _runs(verification, places)
    told = story([run for run, _ in runs])
    sides = [(run.heading, side.recordings) for (run, _), side in zip(runs, _sides(verification), strict=False)]
    tables, by_rank = ranks(sides)
    arguments = ("--", *verification.arguments) if verification.arguments else ()
    return render(
        "verification.html",
        title=f"gradlint verify: {places.name(verification.script)}",
        command=" ".join(("gradlint verify", places.name(verification.script), *arguments)),
        headline=headline(verification),
        mood=mood(verification),
        summary=summary(verification),
        about=_about(verification),
        notes=_notes(verification),
        entries=entries(verification, places, told.first),
        compared=verification.after is not None,
        unshowable=[(u, places.at(u.filename, u.line)) for u in verification.unshowable],
        failure=verification.failure,
        story=told,
        curves=curves([(run.heading, recording, run.optimizers) for run, recording in runs]),
        health=[
            (s, places.at(s.filename, s.line) if s.filename else "", places.source(s.filename, s.line))
            for s in verification.health
        ],
        changes=changes(verification, places),
        ranks=tables,
        by_rank=by_rank,
    )


def _runs(verification: Verification, places: Places) -> list[tuple[Run, Recording]]:
    judged = verification.judged
    before = verification.before.main
    after = verification.after.main if verification.after is not None else None
    runs = []
    if before is not None:
        heading = ALONE if verification.after is None else BEFORE
        runs.append((Run(heading, before, places, flags_before(judged)), before))
    if verification.after is not None and after is not None:
        fixed = Places(verification.after.sources, verification.script, verification.cells)
        flags = flags_after(judged, before, after, (places, fixed)) if before is not None else {}
        runs.append((Run(AFTER, after, fixed, flags), after))
    return runs


def _sides(verification: Verification) -> list[Side]:
    """Those that have something to show."""
    both = [verification.before, *([verification.after] if verification.after is not None else [])]
    return [side for side in both if side.main is not None]


def _about(verification: Verification) -> list[tuple[str, str]]:
    main = verification.before.main
    after = verification.after
    steps = str(verification.steps)
    if after is not None and after.steps != verification.steps:
        steps = f"{steps} before, {after.steps} after the fix"
    seconds = [side.seconds for side in (verification.before, after) if side is not None and side.seconds]
    return [
        (what, text)
        for what, text in (
            ("Device", verification.device),
            ("Steps", steps),
            ("Ranks", str(verification.nproc)),
            ("Seed", str(verification.seed)),
            ("PyTorch", main.torch if main is not None else ""),
            ("Ran for", " + ".join(f"{s:.1f} s" for s in seconds)),
        )
        if text
    ]


def _notes(verification: Verification) -> list[str]:
    """Those of the verification, then what the recorder has to say that is not in them."""
    notes = list(verification.notes)
    for side in (verification.before, verification.after):
        for recording in side.recordings if side is not None else ():
            notes += recording.notes
    spawned = len(verification.before.recordings)
    if spawned > max(1, verification.nproc):
        notes.append(
            f"{counted(spawned, 'process', 'processes')} trained; the order of events is that of the one that trained "
            "most."
        )
    return list(dict.fromkeys(notes))
