"""What hangs on a condition, and so which conditions are tried both ways."""

from __future__ import annotations

import textwrap

import pytest

from gradlint.paths.branches import Branches, Weight
from gradlint.python import syntax as s
from tests.paths.tracing import paths, program

FILE = """
class Meter:
    def update(self, value, n=1):
        self.value = value

class Trainer:
    def train(self, loader):
        for x in loader:
            self.model.train()
            self.model(x).mean().backward()
            self.optimizer.step()

    def check(self):
        self.model.train()

def helper(optimizer):
    optimizer.step()

def wrap(model):
    return DistributedDataParallel(model)

scaler = torch.amp.GradScaler()
advance = partial(helper, optimizer)
trainer = Trainer()
for x in loader:
    if cond:
{body}
    count += 1
    if count % 4 == 0 and flag:
        optimizer.step()
    with guard:
        loss.backward()
"""


@pytest.mark.parametrize(
    ("body", "weight"),
    [
        ("print(x)", Weight.NOTHING),
        ("x = 1", Weight.NOTHING),
        ("log(loss)", Weight.NOTHING),
        ("loss.backward()", Weight.EVENTS),
        ("p.grad = None", Weight.EVENTS),
        ("with model.no_sync():\n    pass", Weight.EVENTS),
        ("model = torch.nn.parallel.DistributedDataParallel(model)", Weight.STATE),
        ("model = wrap(model)", Weight.STATE),
        ("count = 0", Weight.EVENTS),
        ("flag = False", Weight.EVENTS),
        ("optimizer = make()", Weight.STATE),
        ("guard = nullcontext()", Weight.STATE),
        ("helper(optimizer)", Weight.EVENTS),
        ("advance()", Weight.EVENTS),
        ("scaler.update()", Weight.EVENTS),
        ("other.update()", Weight.EVENTS),
        ("my_scaler.update(2.0)", Weight.EVENTS),
        ("meter.update(loss, 4)", Weight.NOTHING),
        ("options.update(lr=1)", Weight.NOTHING),
        ("model.train()", Weight.NOTHING),
        ("trainer.train(loader)", Weight.EVENTS),
        ("trainer.train(loader=loader)", Weight.EVENTS),
        ("trainer.train(*args)", Weight.EVENTS),
        ("Trainer.train(trainer, loader)", Weight.EVENTS),
        ("trainer.check()", Weight.NOTHING),
        ("stranger.train(loader)", Weight.NOTHING),
    ],
)
def test_what_a_block_can_do(body: str, weight: Weight) -> None:
    parsed = program(FILE.format(body=textwrap.indent(body, " " * 8)))
    loop = next(stmt for stmt in parsed.body if isinstance(stmt, s.For))
    branch = loop.body[0]
    assert isinstance(branch, s.If)
    assert parsed.once(Branches).weight(branch.body) is weight


def test_an_update_is_none_of_a_scaler_where_there_is_none() -> None:
    parsed = program("if cond:\n    bar.update()\noptimizer.step()\n")
    branch = parsed.body[0]
    assert isinstance(branch, s.If)
    assert parsed.once(Branches).weight(branch.body) is Weight.NOTHING


def _decided(body: str, behind: str = "") -> set[str]:
    """The conditions that are tried both ways."""
    rows = textwrap.indent(textwrap.dedent(body), " " * 8)
    source = f"def train(model, optimizer, loader, args):\n    for x in loader:\n{rows}"
    found = paths(f"{source}\n{textwrap.indent(textwrap.dedent(behind), ' ' * 4)}")
    return {key for path in found for key, _ in path.forced}


STEP = """
optimizer.zero_grad()
model(x).mean().backward()
optimizer.step()
"""


def test_what_is_set_behind_the_last_event_makes_no_difference() -> None:
    assert _decided(STEP, "if args.a:\n    optimizer = None\n") == set()
    assert _decided(STEP, "if args.a:\n    return\noptimizer.zero_grad()\n") == {"args.a"}
    assert _decided(STEP, "if args.a:\n    return\nprint(x)\n") == set()


def test_what_leaves_a_loop_in_which_nothing_happens_makes_no_difference() -> None:
    assert _decided(STEP + "for info in args.infos:\n    if info.done:\n        break\n    args.note(info)\n") == set()
    assert _decided(STEP + "if args.done:\n    break\n") == {"args.done"}


def test_a_way_out_behind_another_open_condition_is_not_tried() -> None:
    """It would take two unusual decisions."""
    assert _decided(STEP + "if args.limit:\n    if args.norm > args.limit:\n        break\n") == set()


def test_what_makes_no_difference_is_not_tried_again_without_mixed_precision() -> None:
    body = """
        optimizer.zero_grad()
        loss = model(x).mean()
        if args.penalty:
            wall = torch.autograd.grad(x, x)
        if args.fp16:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            if args.clip:
                optimizer.zero_grad()
            optimizer.step()
        """
    found = paths(f"def train(model, optimizer, loader, args, scaler):\n    for x in loader:\n{body}")
    amp = "mixed precision is on"
    assert [set(dict(path.forced)) for path in found] == [set(), {"args.penalty"}, {amp}, {amp, "args.clip"}]
