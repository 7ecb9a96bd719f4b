"""Runs a piece of training code under the recorder, in this process."""

from __future__ import annotations

import itertools
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradlint.runtime.launch.orders import Orders
from gradlint.runtime.lines import decode, encode
from gradlint.runtime.recorder.session import Enough, Recorder
from gradlint.runtime.recording import H, Happening

_NUMBERS = itertools.count(1)

#: what most pieces begin with
PRELUDE = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(6, 4), torch.randn(6, 1)
def loss_of():
    return nn.functional.mse_loss(model(x), y)
"""


#: two windows of two micro-batches
LOOP = """
def train(batches):
    for i in range(batches):
        loss = loss_of()
        (loss / 2).backward()  # backward
        if i % 2:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)  # clip
            norms.append(float(norm))
            optimizer.step()  # step
            optimizer.zero_grad()  # zero
norms = []
train(4)
"""


@dataclass
class Run:
    """What came of it."""

    path: str
    text: str
    happenings: list[Happening] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)
    error: BaseException | None = None

    def of(self, kind: type[H]) -> list[H]:
        return [h for h in self.happenings if isinstance(h, kind)]

    def kinds(self, *left_out: str) -> list[str]:
        return [h.KIND for h in self.happenings if h.KIND not in ("met", "forward", *left_out)]

    def line(self, marked: str) -> int:
        """The number of the line that ends with this comment."""
        return next(n for n, line in enumerate(self.text.splitlines(), 1) if line.endswith(f"# {marked}"))


def run(folder: Path, code: str, prelude: str = PRELUDE, steps: int = 100, recorded: bool = True) -> Run:
    """Run the code; every happening goes through JSON and back, as it does between processes."""
    text = prelude + textwrap.dedent(code)
    path = folder / f"script{next(_NUMBERS)}.py"
    path.write_text(text, encoding="utf-8")
    outcome = Run(str(path), text, names={"__name__": "script", "__file__": str(path)})
    orders = Orders(str(folder), str(path), steps=steps)
    recorder = Recorder(orders, lambda h: outcome.happenings.append(decode(encode(h))))
    program = compile(text, str(path), "exec")
    try:
        if recorded:
            with recorder:
                exec(program, outcome.names)
        else:
            exec(program, outcome.names)
    except (Exception, Enough) as error:
        outcome.error = error
    outcome.notes = recorder.notes
    return outcome
