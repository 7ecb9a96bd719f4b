"""Imports stand at the top of their module, which then tells what it needs; inside of functions, at seams only."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent / "gradlint"

#: what is costly, and needed by few runs: the parser that keeps every blank, torch, the packages of the extras and of
#: terminals
_COSTLY = ("libcst", "torch", "pygls", "lsprotocol", "watchfiles", "rich", "jinja2", "accelerate", "lightning")
#: how many others there are in each package: what the standard library has and a small run does without (`difflib`,
#: `traceback`, `tomllib`), `packaging`, notebooks, processes. None is added; those that go are taken off.
_OTHERS = {
    "comments.py": 1,
    "config": 5,
    "docs": 1,
    "documents": 3,
    "facts": 4,
    "model.py": 1,
    "python": 2,
    "records.py": 2,
    "repair": 1,
    "runner": 1,
    "runtime": 2,
}
#: modules that import what does the work once it is clear that there is any: the engine, and each command
_SEAMS = {"cli": 20, "engine.py": 5, "findings.py": 1, "inquiry.py": 2}


def _inside_functions() -> Iterator[tuple[str, str]]:
    """The package of each import inside of a function, and what is imported."""
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        found = {id(node): node for function in functions for node in ast.walk(function)}
        for node in found.values():
            if isinstance(node, ast.ImportFrom):
                yield path.relative_to(ROOT).parts[0], node.module or ""
            elif isinstance(node, ast.Import):
                yield path.relative_to(ROOT).parts[0], node.names[0].name


@pytest.mark.slow
def test_imports_inside_of_functions_are_at_seams() -> None:
    counts = Counter(package for package, name in _inside_functions() if name.partition(".")[0] not in _COSTLY)
    allowed = {**_OTHERS, **_SEAMS}
    more = {package: count for package, count in counts.items() if count > allowed.get(package, 0)}
    assert not more, "these packages have more than is allowed; import at the top, or say at which seam it is"


def test_a_clean_file_imports_little(tmp_path: Path) -> None:
    """What nobody needs to see that there is nothing to say."""
    (tmp_path / "plain.py").write_text("x = 1\n")
    script = "import sys; from gradlint.cli import run; run(['check', '-q']); print(*sys.modules)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=PATIENCE)
    modules = set(done.stdout.split())
    unwanted = {
        "libcst",
        "rich",
        "torch",
        "packaging",
        "concurrent.futures",
        "multiprocessing",
        "gradlint.runner.changes",
    }
    assert not modules & (unwanted | {"gradlint.documents.notebook", "gradlint.report.document", "gradlint.baseline"})
    ours = {name for name in modules if name.startswith("gradlint.")}
    data = {name for name in ours if name.startswith(("gradlint.knowledge", "gradlint.rules"))}
    assert len(ours - data) <= 60
