"""What each bad fixture is told, to the letter: `fixtures/<rule>/expected.txt`, written by `pytest --update-expected`.

The comments in a fixture say which code is found on which line. The file beside it holds what people read: message,
span, related lines, severity, grade, and what the offered fix changes. A person reads its diff before it is committed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from gradlint.config import Layer, Settings
from gradlint.engine import lint
from gradlint.model import FileResult, Finding, Grade, Span
from gradlint.repair.edits import applied
from gradlint.rule import Rule
from tests.rules.expectations import FIXTURES, rule_of

_HEAD = "=== "


def result_of(path: Path) -> FileResult:
    """Lints as most people do, with the folder's rule turned on too, and looks for fixes."""
    result = lint(path.read_bytes(), path.name, _settings(rule_of(path)))
    assert result.crashes == (), result.crashes[0].traceback
    return result


def _settings(rule: type[Rule]) -> Settings:
    return Settings(layers=(Layer(extend_select=(rule.meta.code,)),))


def shown(path: Path, result: FileResult) -> str:
    """All findings of a file as text."""
    source = path.read_text(encoding="utf-8")
    return "".join(line + "\n" for finding in result.findings for line in _lines(finding, source))


def _lines(finding: Finding, source: str) -> Iterator[str]:
    guessed = " (guessed)" if finding.grade is Grade.GUESSED else ""
    yield f"{_span(finding.span)} {finding.code} {finding.severity.label}{guessed}: {finding.message}"
    for related in finding.related:
        yield f"    {_span(related.span)}: {related.message}"
    if finding.fix is None:
        yield "    no fix"
        return
    yield f"    {finding.fix.safety.value} fix: {finding.fix.message}"
    after = applied(source, finding.fix.edits)
    for line in list(difflib.unified_diff(source.splitlines(), after.splitlines(), n=0, lineterm=""))[2:]:
        yield f"    {line}".rstrip()


def _span(span: Span) -> str:
    return f"{span.start.row}:{span.start.column}-{span.end.row}:{span.end.column}"


def expected(path: Path) -> str:
    """The part of `expected.txt` that is about this file."""
    try:
        text = path.with_name("expected.txt").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    parts = dict(part.partition("\n")[::2] for part in ("\n" + text).split(f"\n{_HEAD}")[1:])
    return parts.get(path.name, "").rstrip("\n") + "\n"


def write_all() -> None:
    """Writes every `expected.txt` anew."""
    for folder in sorted(x for x in FIXTURES.iterdir() if x.is_dir()):
        bad = sorted(folder.glob("bad*.py"))
        if bad:
            text = "\n".join(f"{_HEAD}{path.name}\n{shown(path, result_of(path))}" for path in bad)
            (folder / "expected.txt").write_text(text, encoding="utf-8", newline="\n")
