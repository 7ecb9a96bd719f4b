"""Losses that are divided by hand and by a trainer; a backward of one's own is one's own business."""

from __future__ import annotations

import pytest

from gradlint.facts.settings import second_divisions
from tests.paths.tracing import program

HF = """
from transformers import Trainer
class Base(Trainer): ...
class Mine(Base):
    {head}
    def compute_loss(self, model, inputs{more}):
        return model(**inputs).loss / self.args.gradient_accumulation_steps
"""
LIGHTNING = """
import lightning as L
class Mine(L.LightningModule):
    {head}
    def training_step(self, batch):
        return self.loss(batch) / {by}
L.Trainer(accumulate_grad_batches={n})
"""


def _trainers(code: str) -> list[str]:
    return [found.framework.name for found in second_divisions(program(code))]


@pytest.mark.parametrize(
    ("head", "more", "divided"),
    [
        ("", "", True),
        ("", ", num_items_in_batch=None", False),  # since 4.46 the trainer leaves it to the model
        ("", ", **kwargs", False),
        ("model_accepts_loss_kwargs = False", ", num_items_in_batch=None", True),
        ("def training_step(self, *args): self.run(*args)", "", False),
        ("def training_step(self, *args): return super().training_step(*args)", "", True),
    ],
)
def test_hugging_face(head: str, more: str, divided: bool) -> None:
    assert _trainers(HF.format(head=head, more=more)) == (["the Trainer"] if divided else [])


@pytest.mark.parametrize(
    ("head", "by", "n", "divided"),
    [
        ("", "self.trainer.accumulate_grad_batches", "4", True),
        ("", "self.hparams.accum", "args.accum", True),
        ("", "ACCUM", "ACCUM", True),
        ("", "self.n", "args.n", False),  # may be another number
        ("", "self.accumulate_grad_batches", "1", False),
        ("automatic_optimization = False", "self.trainer.accumulate_grad_batches", "4", False),
    ],
)
def test_lightning(head: str, by: str, n: str, divided: bool) -> None:
    assert _trainers(LIGHTNING.format(head=head, by=by, n=n)) == (["Lightning"] if divided else [])


def test_another_trainer_divides_by_its_own_rules() -> None:
    assert _trainers(HF.format(head="", more="").replace("transformers", "mine")) == []
