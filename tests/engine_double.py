"""An engine whose findings and fixes are plain words in the source, for tests of what is built around it.

`SAFE` and `RISKY` are findings with a safe and an unsafe fix (they become `MENDED`), `STUCK` is one without.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from gradlint.config import Settings
from gradlint.model import Edit, FileResult, Finding, Fix, Fixed, FixSafety, Position, Severity, Span

#: the comment makes the runner think that the file is worth a look
SOURCE = b"# gradlint: a double\nx = SAFE\ny = RISKY\nz = STUCK\n"
ALL_SAFE = b"# gradlint: a double\nx = SAFE\ny = SAFE\n"
NOTHING = b"# gradlint: a double\nx = MENDED\n"

_RULES = {
    b"SAFE": ("GL405", "method-not-called", Severity.ERROR, FixSafety.SAFE),
    b"RISKY": ("GL101", "clip-after-step", Severity.ERROR, FixSafety.UNSAFE),
    b"STUCK": ("GL208", "backward-under-autocast", Severity.WARNING, None),
}


def lint(source: bytes, path: str, settings: Settings) -> FileResult:
    enabled = settings.enabled_for(path)
    findings = []
    for found in re.finditer(rb"SAFE|RISKY|STUCK", source):
        code, name, severity, safety = _RULES[found[0]]
        if code not in enabled:
            continue
        row = source.count(b"\n", 0, found.start()) + 1
        column = found.start() - (source.rfind(b"\n", 0, found.start()) + 1) + 1
        span = Span(Position(row, column), Position(row, column + len(found[0])))
        fix = None
        if safety is not None and settings.fixable(code):
            fix = Fix(safety, f"Mend `{found[0].decode()}`", (Edit(span, "MENDED"),))
        findings.append(Finding(code, name, severity, f"`{found[0].decode()}` is wrong", span, fix=fix))
    return FileResult(path, tuple(findings))


def fix(
    source: bytes, path: str, settings: Settings, *, unsafe: bool,
    keep: Callable[[FileResult, str], FileResult] | None = None,
) -> Fixed:  # fmt: skip
    def judged(text: bytes) -> FileResult:
        result = lint(text, path, settings)
        return result if keep is None else keep(result, text.decode())

    told = judged(source).findings
    applied = [finding for finding in told if finding.fixable(unsafe=unsafe)]
    for word, (code, *_) in _RULES.items():
        if any(finding.code == code for finding in applied):
            source = source.replace(word, b"MENDED")
    return Fixed(source, tuple(applied), judged(source), told)


@pytest.fixture(autouse=True)
def double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Import it into a test module, and every test there has this engine."""
    monkeypatch.setattr("gradlint.engine.lint", lint)
    monkeypatch.setattr("gradlint.engine.fix", fix)
