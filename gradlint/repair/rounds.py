"""Applies fixes in rounds: as many at once as do not touch, to a fixpoint, and never more rounds than a cap."""

from __future__ import annotations

import io
import tokenize
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from gradlint.model import Edit, FileResult, Finding, FixSafety, Severity
from gradlint.registry import by_code
from gradlint.repair.edits import applied

_ROUNDS = 40

Text = TypeVar("Text")  # the bytes of a file, or the cells of a notebook
Edited = Callable[[Text, Sequence[Edit]], Text]


def rounds(
    source: Text, lint: Callable[[Text], FileResult], codes: Callable[[Text], Counter[str]], edit: Edited[Text],
    fixable: Callable[[str], bool], *, unsafe: bool,
) -> tuple[Text, tuple[Finding, ...], FileResult]:  # fmt: skip
    """The text after all fixes that may be applied, what was mended, and what is left.

    `codes`: what all rules say beside advice, those that are not on included.
    """
    done: list[Finding] = []
    result = lint(source)
    causes = {code for code, rule in by_code().items() if rule.meta.cause}
    for _ in range(_ROUNDS):
        offered = [f for f in result.findings if f.fix is not None and (unsafe or f.fix.safety is FixSafety.SAFE)]
        wanted = [f for f in offered if fixable(f.code)]
        if not wanted:
            break
        # the rest is judged anew without what causes it
        wanted = [f for f in wanted if f.code in causes] or wanted
        # each is right alone; should they not be so together, they come one by one
        together = _apart(wanted)
        for chosen in (together, *([finding] for finding in wanted if together != [finding])):
            new = edit(source, [made for finding in chosen if finding.fix is not None for made in finding.fix.edits])
            after = lint(new)
            if _better(result, after, chosen) and (len(chosen) == 1 or not codes(new) - codes(source)):
                break
        else:
            break
        source, result = new, after
        done.extend(chosen)
    return source, tuple(done), result


def _apart(findings: Sequence[Finding]) -> list[Finding]:
    """The first fix, and all others whose edits are away from those before."""
    chosen: list[Finding] = []
    taken: list[Edit] = []
    for finding in findings:
        edits = finding.fix.edits if finding.fix is not None else ()
        if not overlap(edits, taken):
            chosen.append(finding)
            taken.extend(edits)
    return chosen


def overlap(some: Sequence[Edit], others: Sequence[Edit]) -> bool:
    """Whether two sets of edits touch: the same rows, or rows that meet."""
    return any(a.span.start.row <= b.span.end.row and b.span.start.row <= a.span.end.row for a in some for b in others)


def _better(before: FileResult, after: FileResult, chosen: Sequence[Finding]) -> bool:
    """What was to be mended is gone, and nothing has come that was not there, but for advice on what was wrong."""
    if after.unreadable is not None or after.crashes:
        return False
    mended = {f.code for f in chosen}
    advise = all(f.severity is Severity.ADVICE for f in chosen)
    told = (f for f in after.findings if advise or f.severity is not Severity.ADVICE or f.code in mended)
    allowed = Counter(f.code for f in before.findings) - Counter(f.code for f in chosen)
    return not Counter(f.code for f in told) - allowed


def edited(source: bytes, edits: Sequence[Edit]) -> bytes:
    """The bytes with the edits made, in the encoding and with the byte order mark that they had."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return applied(source.decode(encoding), edits).encode(encoding)
