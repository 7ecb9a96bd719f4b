"""Messages speak the user's language: nothing of the inside shows, and every blank is filled in."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradlint.config import Layer, Settings
from gradlint.engine import lint
from gradlint.registry import all_rules
from tests.rules.expectations import FIXTURES
from tests.sampling import spread

LOOPS = FIXTURES.parent / "tests" / "loops"
SOURCES = [*sorted(FIXTURES.glob("*/*.py")), *sorted(LOOPS.glob("*.py"))]
INSIDE = ("#", "{", "}", "parse_args()")
EVERYTHING = Settings((Layer(select=("ALL",)),))

NUMBERED = """\
import torch


class Trainer:
    def __init__(self, model, steps):
        self.model = model
        self.steps = steps
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def fit(self, loader):
        for i, x in enumerate(loader):
            self.loss = self.model(x).mean()
            self.scaler.scale(self.loss).backward()
            if (i + 1) % self.steps == 0 or i + 1 == len(loader):
                self.scaler.step(self.optimizer)
                self.optimizer.zero_grad()


trainer = Trainer(torch.nn.Linear(8, 8), 4)
trainer.fit(loader)
"""


def _said(source: bytes, path: str) -> list[str]:
    findings = lint(source, path, EVERYTHING).findings
    return [text for f in findings for text in (f.message, *(related.message for related in f.related))]


@pytest.mark.parametrize("path", spread(SOURCES, 10, 80), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_nothing_of_the_inside_shows(path: Path) -> None:
    assert [text for text in _said(path.read_bytes(), str(path)) if any(part in text for part in INSIDE)] == []


def test_objects_of_the_files_own_classes_are_called_self() -> None:
    said = _said(NUMBERED.encode(), "numbered.py")
    assert any("`self.scaler.update()`" in text for text in said)
    assert any("`self.loss` is never divided" in text for text in said)
    assert not any("#" in text for text in said)


def test_messages_are_short() -> None:
    assert [rule.meta.code for rule in all_rules() if len(rule.message) > 120] == []
