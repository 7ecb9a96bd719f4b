"""Who looks at gradients, and which loops are long."""

from __future__ import annotations

import pytest

from gradlint.events import Step
from gradlint.facts.models import Monitoring
from gradlint.paths.explorer import Explorer
from tests.paths.tracing import happened, program

TURN = "optimizer.zero_grad()\n{i}loss = model(x)\n{i}loss.backward()\n{i}optimizer.step()\n"


@pytest.mark.parametrize(
    "code",
    [
        "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "print(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))",
        "total = sum(p.grad.norm() for p in model.parameters())",
        "wandb.watch(model)",
        "model.weight.register_hook(print)",
        "log_gradients(model)",
        "import deepspeed",
    ],
)
def test_somebody_looks(code: str) -> None:
    assert Monitoring(program(f"import torch\n{code}")).looks


@pytest.mark.parametrize(
    "code",
    [
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "max_grad_norm = 1.0",
        "p.grad = None",
        "p.grad.zero_()",
        "if p.grad is None:\n    pass",
        "torch.autograd.grad(loss, x)",
    ],
)
def test_nobody_looks(code: str) -> None:
    assert not Monitoring(program(f"import torch\n{code}")).looks


@pytest.mark.parametrize(
    ("head", "long"),
    [
        ("for epoch in range(epochs):\n    for x in loader:\n        ", True),
        ("for x in loader:\n    ", False),  # who knows how often it runs
        ("def train_epoch(loader):\n    for x in loader:\n        ", True),
        ("while step < max_steps:\n    ", True),
        ("while True:\n    ", True),
        ("for step in range(num_iterations):\n    ", True),
        ("for step in range(5000):\n    ", True),
        ("for step in range(20):\n    ", False),
        ("for a in range(40):\n    for b in range(50):\n        ", True),
    ],
)
def test_long_loops(head: str, long: bool) -> None:
    indent = " " * (len(head) - len(head.rstrip(" ")))
    read = program(f"import torch\noptimizer = torch.optim.SGD(model.parameters())\n{head}{TURN.format(i=indent)}")
    path = next(path for path in Explorer(read).paths() if happened(path))
    step = next(e for e in path.events if isinstance(e, Step))
    assert (Monitoring(read).long_loop(step) is not None) is long
