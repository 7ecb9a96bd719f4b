"""Imports stand at the top of their module, which then tells what it needs; inside of functions, at seams only."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent / "gradlint"

#: what is costly, and needed by few runs: the parser that keeps every blank, torch, the packages of the extras and of
#: terminals. Whoever imports a module of ours that imports one of these stands at the same seam
_COSTLY = ("libcst", "torch", "pygls", "lsprotocol", "watchfiles", "rich", "jinja2", "accelerate", "lightning")
#: how many others there are in each package. At two seams: a command imports what it alone needs, and the engine what
#: does the work once it is clear that there is any. And what the standard library has and a small run does without
#: (`difflib`, `traceback`, `tomllib`), `packaging`, notebooks, processes. None is added; those that go are taken off.
_OTHERS = {
    "cli": 13,
    "config": 4,
    "docs": 1,
    "documents": 3,
    "engine.py": 4,
    "facts": 4,
    "findings.py": 1,
    "inquiry.py": 1,
    "model.py": 1,
    "python": 1,
    "records.py": 2,
    "registry.py": 1,
    "runner": 1,
}


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The full names of modules that these statements may import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_costly(name: str) -> bool:
    """A package that is costly, or a module of ours that begins by importing one."""
    if name.partition(".")[0] in _COSTLY:
        return True
    path = ROOT.parent / f"{name.replace('.', '/')}.py"
    if not name.startswith("gradlint.") or not path.is_file():
        return False
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return any(each.partition(".")[0] in _COSTLY for each in _imported(body))


def _inside_functions() -> Iterator[str]:
    """The package of each import inside of a function, but for those at a costly seam."""
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        found = {id(node): node for function in functions for node in ast.walk(function)}
        for node in found.values():
            names = list(_imported([node]))
            if names and not any(map(_is_costly, names)):
                yield path.relative_to(ROOT).parts[0]


@pytest.mark.slow
def test_imports_inside_of_functions_are_at_seams() -> None:
    counts = Counter(_inside_functions())
    assert counts == _OTHERS, "import at the top, or say at which seam it is; take off those that have gone"


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
