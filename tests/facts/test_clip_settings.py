"""Limits that frameworks are given: found, off, or not known."""

from __future__ import annotations

import pytest

from gradlint.facts.settings import clip_settings
from tests.paths.tracing import program

HEAD = "import deepspeed\nfrom lightning import Trainer\nfrom transformers import TrainingArguments\n"


def _found(code: str) -> list[tuple[str, str | None, float | None]]:
    """The text, the kind and the limit of each."""
    settings = clip_settings(program(HEAD + code))
    return [(x.text, x.kind.name if x.kind is not None else None, x.limit) for x in settings]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("Trainer(gradient_clip_val=0.5)", ("Trainer(gradient_clip_val=0.5)", "NORM", 0.5)),
        ("Trainer(gradient_clip_val=0.5, gradient_clip_algorithm='value')",
         ("Trainer(gradient_clip_val=0.5)", "VALUE", 0.5)),
        ("Trainer(gradient_clip_val=0.5, gradient_clip_algorithm=chosen)",
         ("Trainer(gradient_clip_val=0.5)", None, 0.5)),
        ("Trainer(gradient_clip_val=0.5, **more)", ("Trainer(gradient_clip_val=0.5)", None, 0.5)),
        ("LIMIT = 2\nTrainer(gradient_clip_val=LIMIT)", ("Trainer(gradient_clip_val=LIMIT)", "NORM", 2.0)),
        ("Trainer(gradient_clip_val=args.limit)", ("Trainer(gradient_clip_val=args.limit)", "NORM", None)),
        ("TrainingArguments(max_grad_norm=0.1)", ("TrainingArguments(max_grad_norm=0.1)", "NORM", 0.1)),
        ("c = {'gradient_clipping': 0.1}\ndeepspeed.initialize(config=c)", ('"gradient_clipping": 0.1', "NORM", 0.1)),
        ("c = {'gradient_clipping': 0.1, 'zero_optimization': {}}", ('"gradient_clipping": 0.1', "NORM", 0.1)),
    ],
)  # fmt: skip
def test_found(code: str, found: tuple[str, str | None, float | None]) -> None:
    assert _found(code) == [found]


@pytest.mark.parametrize(
    "code",
    [
        "Trainer(gradient_clip_val=None)",
        "Trainer(gradient_clip_val=0)",
        "TrainingArguments(max_grad_norm=-1)",
        "c = {'gradient_clipping': 'auto'}\ndeepspeed.initialize(config=c)",
        "c = {'gradient_clipping': 0.1}",  # anybody's dict
        "def build(Trainer):\n    Trainer(gradient_clip_val=0.5)",  # whatever is handed over
        "def build():\n    Trainer = pick()\n    Trainer(gradient_clip_val=0.5)",
        "c = {'gradient_clipping': 0.1, 'zero_optimization': {}}\nc['gradient_clipping'] = 1.0",
    ],
)
def test_off_or_not_known(code: str) -> None:
    assert _found(code) == []


def test_a_trainer_of_the_file_is_another_one() -> None:
    call = "Trainer(gradient_clip_val=0.5)"
    assert [x.text for x in clip_settings(program(call))] == [call]
    assert clip_settings(program(f"class Trainer: ...\n{call}")) == []


def test_the_number_may_stand_elsewhere() -> None:
    (setting,) = clip_settings(program(HEAD + "LIMIT = 2\nTrainer(gradient_clip_val=LIMIT)"))
    assert setting.number is not None
    (setting,) = clip_settings(program(HEAD + "Trainer(gradient_clip_val=2)"))
    assert setting.number is None


def test_a_trainer_of_another_module_is_another_one() -> None:
    one = "def f():\n    Trainer(gradient_clip_val=0.5)\n"
    other = "def g():\n    from elsewhere import Trainer\n    Trainer(gradient_clip_val=0.7)\n"
    assert [limit for *_, limit in _found(one + other)] == [0.5]
