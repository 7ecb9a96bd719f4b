"""No framework's name stands in a rule or an interpreter: they ask traits and rows, and take their words from them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradlint.knowledge.frameworks import BASES, CLASSES, FRAMEWORKS

ROOT = Path(__file__).resolve().parents[2]
#: where code asks about frameworks
PLACES = ("rules", "gradlint/python", "gradlint/paths", "gradlint/facts", "gradlint/machine", "gradlint/repair",
          "gradlint/states.py",
          "gradlint/subjects.py", "gradlint/rule.py", "gradlint/engine.py", "gradlint/findings.py",
          "gradlint/inquiry.py")  # fmt: skip
#: `accelerate launch` is a command, and this reads commands
EXEMPT = {"gradlint/python/source.py"}

SINGLE = {framework.name for framework in FRAMEWORKS if " " not in framework.name}
STEMS = {framework.stem for framework in FRAMEWORKS if framework.stem}
PACKAGES = {package for framework in FRAMEWORKS for package in framework.packages}
NAMES = sorted({name.strip("*").lower() for name in SINGLE | STEMS | PACKAGES | CLASSES | (BASES - {"*Trainer"})})


def _files() -> list[Path]:
    found = [
        path for place in PLACES for path in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py"))
    ]
    return [path for path in found if path.exists() and path.relative_to(ROOT).as_posix() not in EXEMPT]


def named(code: str) -> list[str]:
    """The names of frameworks in code: in identifiers and strings, but not in docstrings and comments."""
    if not any(name in code.lower() for name in NAMES):
        return []
    tree = ast.parse(code)
    documented = {id(text) for node in ast.walk(tree) if (text := _docstring(node)) is not None}
    words = (word for node in ast.walk(tree) if id(node) not in documented for word in _words(node))
    return sorted(word for word in words if any(name in word.lower() for name in NAMES))


def _docstring(node: ast.AST) -> ast.expr | None:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
        return None
    first = node.body[0]
    return first.value if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else None


def _words(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str() as name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias(name=name, asname=other):
            yield from (name, other or "")
        case ast.ImportFrom(module=str() as name):
            yield name
        case _:
            pass


@pytest.mark.parametrize("place", PLACES)
def test_code_names_no_framework(place: str) -> None:
    files = [path for path in _files() if path.relative_to(ROOT).as_posix().startswith(place)]
    assert files or place.endswith(".py")
    found = {path.name: names for path in files if (names := named(path.read_text(encoding="utf-8")))}
    assert found == {}


@pytest.mark.parametrize(
    "code",
    [
        "manager is Manager.ACCELERATE", "if tail == 'LightningModule': ...", "def lightning_method(self): ...",
        "from gradlint.knowledge.frameworks.deepspeed import DEEPSPEED", "f'{x} in Composer'", "call(fabric=1)",
    ],
)  # fmt: skip
def test_names_are_seen(code: str) -> None:
    assert named(code)


def test_docstrings_and_comments_may_speak_of_them() -> None:
    assert named('"""Accelerate."""\ndef f():\n    """DeepSpeed."""\n    return 1  # as in Fabric\n') == []
    assert {"accelerat", "lightningmodule", "deepspeed", "composer", "timm", "fastai"} <= set(NAMES)
