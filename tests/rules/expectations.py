"""What a fixture expects, read from its own comments: `# expect: GL101` or `# expect: GL101@5, GL401`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gradlint.config import Layer, Settings
from gradlint.engine import lint
from gradlint.model import FileResult
from gradlint.registry import by_name
from gradlint.rule import Rule

ROOT = Path(__file__).resolve().parent.parent.parent
FIXTURES = ROOT / "fixtures"

_CODE = r"GL\d{3}(?:@\d+)?"
_COMMENT = re.compile(rf"# expect: ({_CODE}(?:, {_CODE})*)$")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A code that must be found on a line, and where on it if the fixture says so."""

    line: int
    code: str
    column: int | None = None


def expectations(text: str) -> list[Expectation]:
    """All of a file, by line; a comment that is nearly right is an error, not a comment."""
    found: list[Expectation] = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = _COMMENT.search(line)
        if match is None:
            assert "# expect" not in line, f"line {number}: write `# expect: GL101` at its end, not `{line.strip()}`"
            continue
        for word in match[1].split(", "):
            code, _, column = word.partition("@")
            found.append(Expectation(number, code, int(column) if column else None))
    return found


def rule_of(fixture: Path) -> type[Rule]:
    """The rule that a fixture's folder is named after."""
    return by_name()[fixture.parent.name.replace("_", "-")]


def lint_with(rule: type[Rule], source: str, path: str) -> FileResult:
    """Lints as most people do, with this rule turned on too; what could be mended is not asked here."""
    settings = Settings(layers=(Layer(extend_select=(rule.meta.code,), unfixable=("ALL",)),))
    result = lint(source.encode(), path, settings)
    assert result.crashes == (), result.crashes[0].traceback
    return result
