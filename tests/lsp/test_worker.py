"""What was said of a program is said again where it stands now; of another one, the rules are asked."""

from __future__ import annotations

from collections.abc import Container

import pytest

from gradlint.config import Layer, Settings
from gradlint.engine import lint
from gradlint.inquiry import Inquiry, Reading
from gradlint.lsp.worker import Memory
from tests.lsp.editor import LATE_CLIP

EVERYTHING = Settings(layers=(Layer(select=("ALL",), unfixable=("ALL",)),))


def test_what_was_said_of_the_same_program_is_said_again_at_its_new_place(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, source = Memory(), LATE_CLIP.encode()
    (first,) = memory.lint(source, "a.py", EVERYTHING).findings
    monkeypatch.setattr(Inquiry, "asked", None)  # nobody is asked
    (second,) = memory.lint(b"# a remark\n" + source, "a.py", EVERYTHING).findings
    assert (second.message, second.span.start.row) == (first.message, first.span.start.row + 1)


@pytest.mark.slow
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
    memory.lint(LATE_CLIP.encode(), "a.py", EVERYTHING)
    ask = Inquiry.asked

    def noted(self: Inquiry, reading: Reading, starts: Container[str] | None = None) -> Reading:
        asked.append(reading)
        return ask(self, reading, starts)

    monkeypatch.setattr(Inquiry, "asked", noted)
    memorised = memory.lint(source.encode(), path, settings)
    assert asked
    assert memorised == lint(source.encode(), path, settings)
