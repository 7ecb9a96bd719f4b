"""The quick look says what the engine says: the same findings, words and places, and in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gradlint import engine
from gradlint.config import Layer, Settings
from gradlint.inquiry import Inquiry
from gradlint.lsp import glance as looking
from gradlint.lsp.glance import Memory, glance
from gradlint.model import FileResult
from gradlint.records import replace
from gradlint.rule import Rule
from tests.lsp.editor import LATE_CLIP
from tests.sampling import spread

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = sorted(ROOT.glob("fixtures/*/*.py"))
EVERYTHING = Settings(layers=(Layer(select=("ALL",), unfixable=("ALL",)),))


def _plain(result: FileResult) -> tuple[object, ...]:
    return [replace(f, fix=None) for f in result.findings], result.suppressed, result.unreadable


@pytest.mark.parametrize("path", spread(FILES, 6, 60), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_quick_look_agrees(path: Path) -> None:
    source = path.read_bytes()
    assert _plain(glance(source, "a.py", EVERYTHING)) == _plain(engine.lint(source, "a.py", EVERYTHING))


def test_most_fixtures_need_no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above would compare the engine with itself."""
    asked: list[str] = []
    monkeypatch.setattr(engine, "lint", lambda source, path, settings: asked.append(path))
    for path in FILES[::40]:
        glance(path.read_bytes(), str(path), EVERYTHING)
    assert asked == []


@pytest.mark.parametrize(
    "source",
    [
        b"def f(:\n",
        b"\0",
        b"# coding: latin-1\nx = '\xe9'\n",
        b"\xff",
        b"import torch\nloss.backward()  # gradlint: ignore[GL101]\n",
        "import torch\nü = 1; optimizer.zero_grad(); loss.backward(); optimizer.step(); "
        "torch.nn.utils.clip_grad_norm_(p, 1.0)\n".encode(),
        ("x = " + "(" * 300 + ")" * 300).encode(),
        ("x = " + "-" * 4000 + "1").encode(),
    ],
)
def test_odd_texts_are_the_engines(source: bytes) -> None:
    assert _plain(glance(source, "a.py", EVERYTHING)) == _plain(engine.lint(source, "a.py", EVERYTHING))


@pytest.mark.parametrize(
    "line",
    [
        'print(f"é😀 {torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)}")',
        'print(f"{model} "\n              f"x{torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)!r:>{9}}")',
        'print(f"""é {1}\n norm {torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)}""")',
        "norm = (torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))",
        "é = torch.nn.utils.clip_grad_norm_(\n            model.parameters(), 1.0\n        ) if True else (1, 2)",
    ],
)
def test_places_within_strings_brackets_and_lines(line: str) -> None:
    source = LATE_CLIP.replace("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", line).encode()
    (found,) = glance(source, "a.py", EVERYTHING).findings
    (expected,) = engine.lint(source, "a.py", EVERYTHING).findings
    assert found == expected


def test_what_was_said_of_the_same_program_is_said_again_at_its_new_place(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, source = Memory(), LATE_CLIP.encode()
    (first,) = glance(source, "a.py", EVERYTHING, memory).findings
    monkeypatch.setattr(looking, "Inquiry", None)  # nobody is asked
    (second,) = glance(b"# a remark\n" + source, "a.py", EVERYTHING, memory).findings
    assert (second.message, second.span.start.row) == (first.message, first.span.start.row + 1)


@pytest.mark.parametrize(
    ("source", "path", "settings"),
    [
        (LATE_CLIP.replace("1.0", "2.0"), "a.py", EVERYTHING),
        (LATE_CLIP, "b.py", EVERYTHING),
        (LATE_CLIP, "a.py", Settings(layers=(Layer(select=("GL102",)),))),
        (LATE_CLIP, "a.py", Settings(target_torch=(1, 8))),
    ],
)
def test_of_another_program_the_rules_are_asked_again(
    monkeypatch: pytest.MonkeyPatch, source: str, path: str, settings: Settings
) -> None:
    memory, asked = Memory(), []
    glance(LATE_CLIP.encode(), "a.py", EVERYTHING, memory)

    class Noted(Inquiry):
        def __init__(self, rules: Sequence[Rule], *others: Any) -> None:
            asked.append(rules)
            super().__init__(rules, *others)

    monkeypatch.setattr(looking, "Inquiry", Noted)
    glance(source.encode(), path, settings, memory)
    assert len(asked) == 1
