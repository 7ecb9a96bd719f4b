"""The byte scan may let a harmless file through, but must never hold back one with events."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradlint.frontend.bytescan import may_hold_events, worth_reading
from gradlint.registry import all_rules

EVERY_CODE = frozenset(rule.meta.code for rule in all_rules())
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"print('hello')\n",
        b"import torch\nmodel = torch.nn.Linear(2, 2)\n",
        b"env.step(action)\nscheduler.step()\n",  # something steps, but no gradient is made or cleared
        b"loss.backward()\n",  # made, but never used
        b"with torch.no_grad():\n    model(x)\n",
        # words of the language that no rule judges when they stand alone
        b"scaler.unscale_(optimizer)\n",
        b"scaler = GradScaler()\n",
        b"with model.no_sync():\n    pass\n",
        b"Accelerator(gradient_accumulation_steps=4)\n",
        b"Trainer(accumulate_grad_batches=4)\n",
    ],
)
def test_files_without_events_are_left_out(source: bytes) -> None:
    assert not may_hold_events(source)


@pytest.mark.parametrize(
    "source",
    [
        b"loss.backward()\noptimizer.step()\n",
        b"optimizer.zero_grad()\nself.optimizer.step()\n",
        b"self.manual_backward(loss)\nopt.step()\n",
        b"with torch.autocast('cuda'):\n    loss.backward()\n",
        b"clip_grad_norm_(model.parameters(), 1.0)\n",
        b"from torch.cuda.amp import autocast\n",
        b"Trainer(gradient_clip_algorithm='value')\n",
        b"Trainer(gradient_clip_val=0.001)\n",
        b"TrainingArguments('out', max_grad_norm=0.01)\n",
        b"deepspeed.initialize(config={'gradient_clipping': 0.01})\n",
        b"def training_step(self, batch):\n    return loss / self.trainer.accumulate_grad_batches\n",
        b"loss.backward\noptimizer.step\n",  # the parentheses are missing: that is a finding too
        b"\xef\xbb\xbfloss.backward()\r\noptimizer.step()\r\n",
    ],
)
def test_files_with_events_are_let_in(source: bytes) -> None:
    assert may_hold_events(source)


def test_every_fixture_that_expects_something_is_let_in() -> None:
    expecting = [path for path in (ROOT / "fixtures").rglob("bad*.py") if b"# expect: " in path.read_bytes()]
    assert expecting
    assert [str(path) for path in expecting if not worth_reading(path.read_bytes(), EVERY_CODE)] == []
