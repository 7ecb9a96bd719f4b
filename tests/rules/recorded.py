"""What each bad fixture is told, to the letter: `fixtures/<rule>/expected.txt`, written by `pytest --update-expected`.

The comments in a fixture say which code is found on which line. The file beside it holds what people read: message,
span, related lines, severity, grade, and what the offered fix changes. A person reads its diff before it is committed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from gradlint.config import Layer, Settings
from gradlint.config.load import ConfigTree
from gradlint.engine import lint
from gradlint.model import FileResult, Finding, Grade, Span
from gradlint.records import replace
from gradlint.repair.edits import applied
from gradlint.rule import Rule
from gradlint.runner.files import SourceFile, Stamp
from gradlint.runner.importers import Importers
from gradlint.runner.run import run
from tests.rules.expectations import FIXTURES, rule_of

_HEAD = "=== "
#: folders of files that import each other
BAD_TREES = sorted(x for x in FIXTURES.glob("*/bad_*") if x.is_dir())
GOOD_TREES = sorted(x for x in FIXTURES.glob("*/good_*") if x.is_dir())


def result_of(path: Path) -> FileResult:
    """Lints as most people do, with the folder's rule turned on too, and looks for fixes."""
    result = lint(path.read_bytes(), path.name, _settings(rule_of(path)))
    assert result.crashes == (), result.crashes[0].traceback
    return result


def results_of(tree: Path) -> dict[Path, FileResult]:
    """The same for all files of a tree, which are followed into each other."""
    settings = replace(_settings(rule_of(tree)), project=True, root=str(tree))
    files = [SourceFile(str(path), str(path), Stamp.of(path.stat()), settings, True) for path in sources(tree)]
    results = run(files, cache=None, jobs=1, importers=Importers(ConfigTree(), [str(tree)])).results
    assert [crash.traceback for result in results for crash in result.crashes] == []
    return {Path(result.path): result for result in results}


def sources(tree: Path) -> list[Path]:
    return sorted(tree.rglob("*.py"))


def _settings(rule: type[Rule]) -> Settings:
    return Settings(layers=(Layer(extend_select=(rule.meta.code,)),))


def tree_shown(tree: Path, results: dict[Path, FileResult]) -> str:
    """What is told in each file of a tree."""
    told = [(path, shown(path, results[path])) for path in sources(tree) if path in results]
    return "".join(f"{path.relative_to(tree).as_posix()}\n{text}" for path, text in told if text)


def shown(path: Path, result: FileResult) -> str:
    """All findings of a file as text."""
    source = path.read_text(encoding="utf-8")
    return "".join(line + "\n" for finding in result.findings for line in _lines(finding, source))


def _lines(finding: Finding, source: str) -> Iterator[str]:
    guessed = " (guessed)" if finding.grade is Grade.GUESSED else ""
    yield f"{_span(finding.span)} {finding.code} {finding.severity.label}{guessed}: {finding.message}"
    for related in finding.related:
        beside = f"{Path(related.path).name}:" if related.path else ""
        yield f"    {beside}{_span(related.span)}: {related.message}"
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
        parts = {path: shown(path, result_of(path)) for path in folder.glob("bad*.py")}
        parts |= {tree: tree_shown(tree, results_of(tree)) for tree in BAD_TREES if tree.parent == folder}
        if parts:
            text = "\n".join(f"{_HEAD}{path.name}\n{parts[path]}" for path in sorted(parts))
            (folder / "expected.txt").write_text(text, encoding="utf-8", newline="\n")
