"""What is wrong with a run whatever its order of events: each with a right twin, of which nothing is said.

Five of them are errors that a public study of silent training errors (TrainCheck) has collected, in scripts of our own:
the optimizer of a layer that is frozen; steps that find no gradients any more; a model that is wrapped here and not
there; one that is moved after DDP has wrapped it; ranks that each clip by themselves. Its sixth, the missing
`zero_grad`, is GL401's.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from gradlint.runtime.health import Symptom, symptoms
from gradlint.runtime.launch.run import Job, run
from gradlint.runtime.verdicts import Side, Verdicts
from tests.patience import PATIENCE
from tests.runtime.forked import forked_scripts  # noqa: F401 - a fixture
from tests.sampling import takes_every_file

pytestmark = pytest.mark.slow

HEAD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.drop, self.head = nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 1)
    def forward(self, x):
        h = torch.tanh(self.encoder(x))
        return self.head(self.drop(h))

x = torch.randn(64, 4)
batches = [(b, b.sum(dim=1, keepdim=True)) for b in x.split(8)]
model = Net()
"""
LOOP = """
for x, y in batches:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
"""
SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.05)\n"
#: two ranks that started by themselves, with the same seed and other data
RANKS = """
import os
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
batches = [(b + dist.get_rank(), y) for b, y in batches]
"""

#: name, a script that has it (`# here` at the line that is to be named), and what puts it right
Told = tuple[str, str, str, list[tuple[str, str]], int]
CASES: list[Told] = [
    (
        "cut graph",
        "no-gradient",
        HEAD.replace("self.encoder(x))", "self.encoder(x)).detach()  # here") + SGD + LOOP,
        [(".detach()", "")],
        1,
    ),
    (
        "layer under no_grad",
        "no-gradient",
        HEAD.replace(
            "        h = torch.tanh(self.encoder(x))\n",
            "        with torch.no_grad():\n            h = torch.tanh(self.encoder(x))  # here\n",
        )
        + SGD
        + LOOP,
        # frozen on purpose: whoever says so in requires_grad is believed
        [("model = Net()\n", "model = Net()\nmodel.encoder.requires_grad_(False)\n")],
        1,
    ),
    (
        "head replaced behind the optimizer's back",
        "stale-optimizer",
        HEAD + SGD.rstrip("\n") + "  # here\nmodel.head = nn.Linear(8, 1)\n" + LOOP,
        [("model.head = nn.Linear(8, 1)\n", "")],
        1,
    ),
    (
        "all frozen but one, and the optimizer has another",
        "idle-optimizer",
        HEAD
        + "model.head.requires_grad_(False)\n"
        + "optimizer = torch.optim.Adam(model.head.parameters())  # here\n"
        + LOOP,
        [("model.head.requires_grad_(False)", "model.encoder.requires_grad_(False)")],
        1,
    ),
    (
        "optimizer of another copy of the model",
        "idle-optimizer",
        HEAD + "import copy\n" + SGD.rstrip("\n") + "  # here\nmodel = copy.deepcopy(model)\n" + LOOP,
        [("model = copy.deepcopy(model)\n", "")],
        1,
    ),
    (
        "a checkpoint in a new model",
        "stale-optimizer",
        HEAD
        + SGD
        + "best = {name: value.clone() for name, value in model.state_dict().items()}\n"
        + LOOP.replace("for x, y in batches:", "for i, (x, y) in enumerate(batches):").replace(
            "optimizer.step()", "optimizer.step()  # here"
        )
        + "    if i == 3:\n        model = Net()\n        model.load_state_dict(best)\n",
        [("        model = Net()\n", "")],
        1,
    ),
    (
        "units that nothing excites",
        "dead-units",
        HEAD.replace("torch.tanh(self.encoder(x))", "torch.relu(self.encoder(x))  # here")
        + "with torch.no_grad():\n    model.encoder.bias[:6] = -50.0\n"
        + SGD
        + LOOP,
        [("= -50.0", "= 0.0")],
        1,
    ),
    (
        "encoder left out of the optimizer",
        "not-optimized",
        HEAD.replace("self.encoder(x))", "self.encoder(x))  # here")
        + "optimizer = torch.optim.SGD(model.head.parameters(), lr=0.05)\n"
        + LOOP,
        [("model.head.parameters(), lr", "model.parameters(), lr")],
        1,
    ),
    (
        "eval mode is never left",
        "eval-mode",
        HEAD
        + SGD
        + LOOP.replace(
            "    loss = nn.functional.mse_loss(model(x), y)", "    loss = nn.functional.mse_loss(model(x), y)  # here"
        )
        + "    model.eval()\n",
        [("    model.eval()\n", "    model.eval()\n    model.train()\n")],
        1,
    ),
    (
        "learning rate 0",
        "zero-rate",
        HEAD + SGD.replace("0.05", "0.0") + LOOP.replace("optimizer.step()", "optimizer.step()  # here"),
        [("lr=0.0)", "lr=0.01)")],
        1,
    ),
    (
        "losses kept with their graphs",
        "graphs-kept",
        HEAD
        + SGD
        + "total = 0.0\n"
        + LOOP.replace("loss.backward()", "loss.backward()  # here")
        + "    total += loss\n",
        [("total += loss", "total += loss.item()")],
        1,
    ),
    (
        "log of 0",
        "not-finite",
        HEAD
        + SGD
        + LOOP.replace(
            "    loss = nn.functional.mse_loss(model(x), y)\n    loss.backward()",
            "    loss = -torch.log(torch.relu(model(x) - 50.0)).mean()\n    loss.backward()  # here",
        ),
        [("torch.relu(model(x) - 50.0)", "(torch.relu(model(x) - 50.0) + 1e-3)")],
        1,
    ),
    (
        "root at 0",
        "not-finite",
        HEAD
        + SGD
        + LOOP.replace(
            "    loss = nn.functional.mse_loss(model(x), y)\n    loss.backward()",
            "    loss = torch.sqrt((0.0 * model(x)).square()).sum()\n    loss.backward()  # here",
        ),
        [("(0.0 * model(x)).square()", "((0.0 * model(x)).square() + 1e-6)")],
        1,
    ),
    (
        # the gradient of the encoder is 0 behind a head of zeros, and 0 / 0 is what Adam makes of it
        "weights by 0 over 0",
        "not-finite",
        HEAD
        + "nn.init.zeros_(model.head.weight)\n"
        + "optimizer = torch.optim.Adam(model.parameters(), eps=0.0)\n"
        + LOOP.replace("optimizer.step()", "optimizer.step()  # here"),
        [("eps=0.0", "eps=1e-8")],
        1,
    ),
    (
        "a step far too long",
        "exploding",
        HEAD + SGD.replace("0.05", "30.0") + LOOP.replace("optimizer.step()", "optimizer.step()  # here"),
        [("lr=30.0)", "lr=0.01)")],
        1,
    ),
    (
        "several ranks, nobody is distributed",
        "ranks-apart",
        HEAD + RANKS + SGD + LOOP.replace("optimizer.step()", "optimizer.step()  # here"),
        # the optimizer may well come first: DDP leaves the parameters as they are
        [("model = Net()\n", "model = Net()\nlocal = model\n"), (SGD, SGD + "model = DDP(local)\n")],
        2,
    ),
    (
        "the wrapper is gone round",
        "ranks-apart",
        HEAD
        + RANKS
        + "model = DDP(model)\n"
        + SGD
        + LOOP.replace("model(x)", "model.module(x)").replace("optimizer.step()", "optimizer.step()  # here"),
        [("model.module(x)", "model(x)")],
        2,
    ),
    (
        "moved after it was wrapped",
        "ranks-apart",
        HEAD
        + RANKS
        + "model = DDP(model)\nmodel = model.double()\n"
        + SGD
        + LOOP.replace("model(x), y)", "model(x.double()), y.double())").replace(
            "optimizer.step()", "optimizer.step()  # here"
        ),
        [("model = DDP(model)\nmodel = model.double()\n", "model = DDP(model.double())\n")],
        2,
    ),
    (
        "each rank clips what is its own",
        "ranks-apart",
        HEAD
        + RANKS
        + "model = DDP(model)\n"
        + SGD
        + LOOP.replace(
            "    optimizer.step()",
            "    if dist.get_rank() == 0:\n        nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n"
            "    optimizer.step()  # here",
        ),
        [("if dist.get_rank() == 0:", "if dist.is_initialized():")],
        2,
    ),
    (
        "optimizer of what FSDP has sharded since",
        "idle-optimizer",
        HEAD
        + RANKS
        + "from torch.distributed.fsdp import fully_shard\n"
        + "from torch.distributed.device_mesh import init_device_mesh\n"
        + SGD.rstrip("\n")
        + '  # here\nfully_shard(model, mesh=init_device_mesh("cpu", (2,)))\n'
        + LOOP,
        [(SGD.rstrip("\n") + "  # here\n", ""), ("(2,)))\n", "(2,)))\n" + SGD)],
        2,
    ),
    (
        "optimizer of what FSDP has flattened since",
        "idle-optimizer",
        HEAD
        + RANKS
        + "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
        + SGD.rstrip("\n")
        + '  # here\nmodel = FSDP(model, device_id=torch.device("cpu"))\n'
        + LOOP,
        [(SGD.rstrip("\n") + "  # here\n", ""), ('device("cpu"))\n', 'device("cpu"))\n' + SGD)],
        2,
    ),
]


def _params(cases: list[Told]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("name", "text", "changes", "ranks"),
        [case[1:] for case in cases],
        ids=[case[0].replace(" ", "-") for case in cases],
    )


#: the right twin of one case for each symptom; all of them before a release (`pytest --every-file`)
TWINS = CASES if takes_every_file() else list({case[1]: case for case in CASES}.values())


def _symptoms(folder: Path, text: str, ranks: int) -> list[Symptom]:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    outcome = run(Job(script, nproc=ranks, limit=PATIENCE, cwd=folder))
    assert outcome.traceback == ""
    side = Side(outcome.recordings, 0.0, {str(script): script.read_text(encoding="utf-8")})
    assert side.steps >= 4
    assert [note for r in outcome.recordings for note in r.notes if "failed" in note] == []
    return symptoms(Verdicts(side).run)


@_params(CASES)
def test_what_is_wrong_is_told(
    name: str, text: str, changes: list[tuple[str, str]], ranks: int, tmp_path: Path
) -> None:
    (found,) = _symptoms(tmp_path, text, ranks)
    here = 1 + text.splitlines().index(next(line for line in text.splitlines() if line.endswith("# here")))
    assert (found.name, found.line) == (name, here), found.message


@_params(TWINS)
def test_its_right_twin_is_let_alone(
    name: str, text: str, changes: list[tuple[str, str]], ranks: int, tmp_path: Path
) -> None:
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    assert _symptoms(tmp_path, text, ranks) == []


def test_what_is_an_order_of_events_is_left_to_the_rules(tmp_path: Path) -> None:
    """Cleared before each step (GL403): gradients were made, and none was used."""
    late = LOOP.replace("    optimizer.zero_grad()\n", "")
    text = HEAD + SGD + late.replace("    optimizer.step()", "    optimizer.zero_grad()\n    optimizer.step()")
    assert _symptoms(tmp_path, text, 1) == []


def test_the_operation_is_named(tmp_path: Path) -> None:
    logarithm = next(text for case, _, text, _, _ in CASES if case == "log of 0")
    (found,) = _symptoms(tmp_path, logarithm, 1)
    assert "the loss was inf before step 1" in found.message
    assert "log (LogBackward0" in found.message
    weights = next(text for case, _, text, _, _ in CASES if case == "weights by 0 over 0")
    (found,) = _symptoms(tmp_path, weights, 1)
    assert "the weights are not finite after step 1, though its gradients were (norm" in found.message
    root = next(text for case, _, text, _, _ in CASES if case == "root at 0")
    (found,) = _symptoms(tmp_path, root, 1)
    assert "the gradients of a finite loss (0) were not finite before step 1" in found.message
    assert "sqrt" in found.message
