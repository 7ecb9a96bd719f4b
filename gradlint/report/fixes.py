"""The words about fixes: which findings have one, what was fixed, and what more could be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gradlint.model import FileResult, Finding, FixSafety
from gradlint.report.paint import Paint
from gradlint.report.paths import harmless

if TYPE_CHECKING:
    from gradlint.runner.mending import FixedFile


def help_text(finding: Finding) -> str | None:
    """What the fix of a finding would do."""
    if finding.fix is None:
        return None
    return f"{finding.fix.message}{' (unsafe)' if finding.fix.safety is FixSafety.UNSAFE else ''}"


def mark(finding: Finding, unsafe: bool | None, paint: Paint) -> str:
    """`[*] ` before a finding that `--fix` would mend; `unsafe` is None where that was done already."""
    if unsafe is None or not finding.fixable(unsafe=unsafe):
        return ""
    return f"{paint('[*]', 'fix')} "


def hint(results: Iterable[FileResult], unsafe: bool, paint: Paint) -> str | None:
    """`[*] 3 fixable with the --fix option (1 more with --unsafe-fixes)`"""
    findings = [finding for result in results for finding in result.findings]
    now = sum(finding.fixable(unsafe=unsafe) for finding in findings)
    more = sum(finding.fixable(unsafe=True) for finding in findings) - now
    if now:
        rest = f" ({more} more with --unsafe-fixes)" if more else ""
        return f"{paint('[*]', 'fix')} {now} fixable with the --fix option{rest}"
    return f"{more} fixable with --fix --unsafe-fixes" if more else None


def hint_after(results: Iterable[FileResult], unsafe: bool) -> str | None:
    """What a run with `--fix` has left that `--unsafe-fixes` would have mended."""
    more = _more(results, unsafe)
    return f"{more} more fixable with --unsafe-fixes" if more else None


def total(files: Sequence[FixedFile], results: Iterable[FileResult], checked: int, unsafe: bool, verb: str) -> str:
    """`Would fix 3 findings in 2 files (1 more with --unsafe-fixes)`"""
    count = sum(len(file.applied) for file in files)
    more = _more(results, unsafe)
    rest = f" ({more} more with --unsafe-fixes)" if more else ""
    if not files:
        return "Nothing to fix" + (rest or f" ({_plural(checked, 'file')} checked)")
    return f"{verb} {_plural(count, 'finding')} in {_plural(len(files), 'file')}{rest}"


def enumeration(files: Sequence[FixedFile], paint: Paint) -> Iterator[str]:
    """How often each rule was fixed, file by file."""
    if not files:
        return
    count = sum(len(file.applied) for file in files)
    yield paint(f"Fixed {_plural(count, 'finding')}:", "good")
    for file in files:
        yield f"- {paint(harmless(file.path), 'path')}:"
        counts = Counter((finding.code, finding.name) for finding in file.applied)
        width = len(str(max(counts.values(), default=0)))
        for (code, name), times in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            yield f"    {times:>{width}} × {paint(code, 'code')} ({name})"
    yield ""


def _more(results: Iterable[FileResult], unsafe: bool) -> int:
    findings = (finding for result in results for finding in result.findings)
    return sum(finding.fixable(unsafe=True) and not finding.fixable(unsafe=unsafe) for finding in findings)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
