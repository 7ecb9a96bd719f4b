"""Places agree with libcst's own positions, and an untouched statement is written as it stood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from gradlint.frontend.places import Places, Unchanged
from tests.sampling import spread

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*ROOT.glob("fixtures/*/bad*.py"), *ROOT.glob("gradlint/rewrite/**/*.py")])

CORNERS = {
    "no newline at the end": "x = (1)\ny = f(a,\n      b)",
    "nothing": "",
    "only a comment": "# nothing\n",
    "carriage returns": "if a:\r\n\tb\r\nelse:\r\n\tc\r\n",
    "several on a line": "a; b = (c, d); del e\nif f: g(); h()\n",
    "decorated": "# above\n@a\n# between\n@b(c)\nasync def f(x: int = 1, *, y) -> None:\n    '''Two\n    lines.'''\n",
    "strings over lines": "x = '''a\nb''' + (yield)\nz = f'{a}' 'b'\n",
    "match": "match a:\n    case [1, *b]:\n        c\n    case _:\n        d\n",
}


def _compare(text: str) -> None:
    wrapper = MetadataWrapper(cst.parse_module(text))
    expected = wrapper.resolve(PositionProvider)
    places = Places(wrapper.module)
    assert expected
    assert [(type(node), places[node]) for node in expected] == [(type(node), at) for node, at in expected.items()]
    assert places.code == wrapper.module.code


@pytest.mark.parametrize("name", CORNERS)
def test_corners_agree_with_libcst(name: str) -> None:
    _compare(CORNERS[name])


@pytest.mark.parametrize("path", spread(FILES, 30, 120), ids=lambda p: str(p.relative_to(ROOT)))
def test_files_agree_with_libcst(path: Path) -> None:
    _compare(path.read_text(encoding="utf-8"))


def _with_body(module: cst.Module, body: list[Any]) -> str:
    return module.with_changes(body=body).code


@pytest.mark.parametrize("name", CORNERS)
def test_unchanged_statements_give_the_same_text(name: str) -> None:
    module = cst.parse_module(CORNERS[name])
    places = Places(module)
    assert _with_body(module, [Unchanged(statement, places) for statement in module.body]) == CORNERS[name]


def test_a_statement_that_is_indented_anew_is_written_anew() -> None:
    module = cst.parse_module("a = 1\nif b:\n    c = 2\n")
    places = Places(module)
    first, choice = module.body
    assert isinstance(choice, cst.If)
    inside: Any = [Unchanged(first, places), Unchanged(choice.body.body[0], places)]
    moved = choice.with_changes(body=choice.body.with_changes(body=inside))
    assert _with_body(module, [moved]) == "if b:\n    a = 1\n    c = 2\n"
