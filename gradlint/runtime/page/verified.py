"""The page of `gradlint verify`: what its template is given."""

from __future__ import annotations

from gradlint.runtime.health import Symptom
from gradlint.runtime.page.changes import changes
from gradlint.runtime.page.curves import curves
from gradlint.runtime.page.findings import entries, headline, mood, summary, where
from gradlint.runtime.page.flags import flags_after, flags_before
from gradlint.runtime.page.places import Places
from gradlint.runtime.page.ranks import ranks
from gradlint.runtime.page.render import render
from gradlint.runtime.page.runs import Run
from gradlint.runtime.page.story import story
from gradlint.runtime.page.words import counted
from gradlint.runtime.recording import Recording
from gradlint.runtime.verification import Side, Verification

BEFORE, AFTER, ALONE = "Before the fix", "After the fix", "The run"


def page(verification: Verification) -> str:
    places = Places(verification.before.sources, verification.script, verification.cells)
    runs = _runs(verification, places)
    told = story([run for run, _ in runs])
    sides = [(run.heading, side.recordings) for (run, _), side in zip(runs, _sides(verification), strict=False)]
    tables, by_rank = ranks(sides)
    return render(
        "verification.html",
        title=f"gradlint verify: {places.name(verification.script)}",
        command=" ".join(("gradlint verify", places.name(verification.script), *_arguments(verification))),
        headline=headline(verification),
        mood=mood(verification),
        summary=summary(verification),
        about=_about(verification),
        notes=_notes(verification),
        entries=entries(verification, places, told.first),
        compared=verification.after is not None,
        unshowable=[(u, where(u, places)) for u in verification.unshowable],
        failure=verification.failure,
        story=told,
        curves=curves([(run.heading, recording, run.cast) for run, recording in runs]),
        health=[(s, _place(s, places), places.source(s.filename, s.line)) for s in verification.health],
        changes=changes(verification, places),
        ranks=tables,
        by_rank=by_rank,
    )


def _runs(verification: Verification, places: Places) -> list[tuple[Run, Recording]]:
    judged = [*verification.findings, *verification.runtime_only]
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


def _place(symptom: Symptom, places: Places) -> str:
    return places.at(symptom.filename, symptom.line) if symptom.filename else ""


def _sides(verification: Verification) -> list[Side]:
    """Those that have something to show."""
    both = [verification.before, *([verification.after] if verification.after is not None else [])]
    return [side for side in both if side.main is not None]


def _arguments(verification: Verification) -> tuple[str, ...]:
    return ("--", *verification.arguments) if verification.arguments else ()


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
