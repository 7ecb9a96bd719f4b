"""How a verification is printed: a table for people, JSON for programs."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gradlint.model import Severity, counted
from gradlint.registry import by_code
from gradlint.runtime.health import Symptom
from gradlint.runtime.verdicts import Claim, Cure, Judged, Verdict, Verification

_COLOURS = {
    Verdict.CONFIRMED: "bold red",
    Verdict.REFUTED: "green",
    Verdict.NOT_SHOWN: "dim",
}
_CURES = {Cure.CURED: "bold green", Cure.NOT_CURED: "bold red", Cure.NO_FIX: "dim"}


def word(value: Verdict | Cure) -> str:
    """`not shown` for `not-shown`."""
    return str(value.value).replace("-", " ")


def as_json(verification: Verification) -> str:
    """The documented shape: keys are only ever added."""
    return json.dumps(
        {
            "script": verification.script,
            "arguments": list(verification.arguments),
            "device": verification.device,
            "nproc": verification.nproc,
            "seed": verification.seed,
            "steps": verification.steps,
            "findings": [_record(verification, j) for j in verification.findings],
            "runtime_only": [_record(verification, j) for j in verification.runtime_only],
            "health": [_plain_symptom(verification, s) for s in verification.health],
            "not_shown_by_a_run": [_plain(verification, u) for u in verification.unshowable],
            "notes": verification.notes,
            "failure": verification.failure or None,
        },
        indent=2,
    )


def _record(verification: Verification, judged: Judged) -> dict[str, object]:
    return {
        **_plain(verification, judged),
        "verdict": judged.verdict.value,
        "evidence": judged.evidence,
        "after_fix": judged.after_fix.value,
        "after": judged.after,
    }


def _plain_symptom(verification: Verification, symptom: Symptom) -> dict[str, object]:
    return {
        "name": symptom.name,
        "severity": symptom.severity.label,
        **_where(verification, symptom),
        "step": symptom.step,
        "subject": symptom.subject,
        "message": symptom.message,
    }


def _plain(verification: Verification, found: Claim) -> dict[str, object]:
    return {
        "code": found.code,
        "name": found.name,
        "severity": found.severity.label,
        **_where(verification, found),
        "message": found.message,
    }


def _where(verification: Verification, found: Claim | Symptom) -> dict[str, object]:
    place = verification.place(found.filename, found.line)
    return {
        "filename": found.filename,
        "line": place.row,
        **({} if place.cell is None else {"cell": place.cell}),
    }


def summary(verification: Verification) -> str:
    """`2 confirmed (2 cured by the fix), 1 refuted, 1 not shown`."""
    counts = Counter(j.verdict for j in verification.judged)
    cures = Counter(j.after_fix for j in verification.judged if j.verdict is Verdict.CONFIRMED)
    parts = []
    for verdict in Verdict:
        if counts[verdict]:
            said = f"{counts[verdict]} {word(verdict)}"
            if verdict is Verdict.CONFIRMED and verification.after is not None:
                said += f" ({cures[Cure.CURED]} cured by the fix)"
            parts.append(said)
    if verification.stepless and not counts[Verdict.CONFIRMED]:
        return ", ".join(["nothing was judged", *parts])
    if verification.health:
        parts.append(f"{len(verification.health)} more that the run shows")
    return ", ".join(parts) or "nothing to confirm"


def printed(verification: Verification) -> Group:
    """All that a terminal shows."""
    return Group(*_parts(verification))


def _parts(verification: Verification) -> Iterator[RenderableType]:
    if verification.findings or verification.runtime_only:
        yield _table(verification)
    for symptom in verification.health:
        where = f" {_told(verification, symptom)}"
        style = "bold red" if symptom.severity is Severity.ERROR else "bold yellow"
        yield Text.assemble((symptom.name, style), f"{where if symptom.line else ''}: {symptom.message}")
    for found in verification.unshowable:
        yield Text.assemble(
            ("  ", ""), (f"{found.code} ", "bold"),
            f"{_told(verification, found)}: ",
            (_why_not(found.code), "dim"),
        )  # fmt: skip
    for note in verification.notes:
        yield Text.assemble(("note: ", "bold"), note)
    ran = f"{counted(verification.steps, 'optimizer step')} on {verification.device}"
    if verification.nproc > 1:
        ran += f" × {verification.nproc} ranks"
    yield Text.assemble((summary(verification), "bold"), f" in {ran}, seed {verification.seed}.")


def _why_not(code: str) -> str:
    reason = by_code()[code].meta.unshowable
    return f"no run can show this: {reason}" if reason else f"this run cannot tell; `gradlint prove {code}` shows it"


def _table(verification: Verification) -> Table:
    fixed = any(j.after for j in verification.findings)
    headings = ("finding", "verdict", "what the run showed", *(("after the fix",) if fixed else ()))
    table = Table(*headings, header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for judged in verification.findings:
        table.add_row(*_row(verification, judged, fixed, ""))
    for judged in verification.runtime_only:
        table.add_row(*_row(verification, judged, fixed, "seen only in the run"))
    return table


def _row(verification: Verification, judged: Judged, fixed: bool, remark: str) -> list[RenderableType]:
    name = f"[bold]{judged.code}[/] {escape(judged.name)}\n{escape(_told(verification, judged))}"
    name += f"\n[dim]{remark}[/]" if remark else ""
    verdict = Text(word(judged.verdict), _COLOURS[judged.verdict])
    row: list[RenderableType] = [Text.from_markup(name), verdict, Text(judged.evidence)]
    if fixed:
        confirmed = judged.verdict is Verdict.CONFIRMED
        told = Text.assemble((word(judged.after_fix), _CURES[judged.after_fix])) if confirmed else Text("")
        if confirmed and judged.after:
            told.append(f"\n{judged.after}")
        row.append(told)
    return row


def _told(verification: Verification, found: Claim | Symptom) -> str:
    """`line 12`, `line 3 of parts/engine.py`: the file is named only where it is not the script itself."""
    said = verification.place(found.filename, found.line).said
    if os.path.realpath(found.filename) == os.path.realpath(verification.script):
        return said
    shown = os.path.relpath(found.filename)
    return f"{said} of {found.filename if shown.startswith('..') else shown}"


def show(verification: Verification, console: Console) -> None:
    console.print(printed(verification), highlight=False)
