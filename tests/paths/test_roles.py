"""The table of uses that leave no doubt: each of its lines, and the same code without that line."""

from __future__ import annotations

import textwrap

import pytest

from gradlint.events import Backward, Clip, Guess, Role, Step, Unscale, Update, Zero
from gradlint.paths.roles import TABLE, suspect
from gradlint.states import Path
from tests.paths.tracing import happened, paths, program

#: (role, name, a file that leaves no doubt, one that does)
_LINES = {
    "an optimizer that is made": (
        Role.OPTIMIZER,
        "self.optimizer",
        "self.optimizer = torch.optim.SGD(model.parameters(), 0.1)",
        "self.optimizer = build(model)",
    ),
    "one that is made in one of two cases": (
        Role.OPTIMIZER,
        "opt",
        "opt = Adam(p) if adam else SGD(p)",
        "opt = make(p) if adam else None",
    ),
    "one that is annotated": (
        Role.OPTIMIZER,
        "opt",
        "from torch import optim\ndef f(opt: optim.Optimizer): ...",
        "def f(opt: Any): ...",
    ),
    "one that is annotated with a string": (
        Role.OPTIMIZER,
        "opt",
        "def f(opt: 'torch.optim.Optimizer | None'): ...",
        "def f(opt: 'Options'): ...",
    ),
    "an Optimizer of another library": (
        Role.OPTIMIZER,
        "opt",
        "from torch.optim import Optimizer\ndef f(opt: Optimizer): ...",
        "from skopt import Optimizer\ndef f(opt: Optimizer): ...",
    ),
    "one that clears and steps": (Role.OPTIMIZER, "opt", "opt.zero_grad()\nopt.step()", "opt.zero_grad()"),
    "one that only steps": (Role.OPTIMIZER, "opt", "opt.step()\nopt.zero_grad()", "opt.step()"),
    "one that a scaler steps": (Role.OPTIMIZER, "opt", "scaler.step(opt)", "trainer.step(opt)"),
    "one with groups of parameters": (
        Role.OPTIMIZER,
        "opt",
        "for g in opt.param_groups:\n    g['lr'] = lr",
        "for g in opt.groups:\n    g['lr'] = lr",
    ),
    "a scaler that is made": (
        Role.SCALER,
        "scaler",
        "scaler = torch.amp.GradScaler('cuda')",
        "scaler = StandardScaler()",
    ),
    "a scaler that is annotated": (
        Role.SCALER,
        "scaler",
        "def f(scaler: Optional[GradScaler] = None): ...",
        "def f(scaler: Optional[Scaler] = None): ...",
    ),
    "a scaler that scales a loss": (
        Role.SCALER,
        "scaler",
        "scaler.scale(loss).backward()",
        "x = scaler.scale(x)",
    ),
    "a scaler that only steps": (
        Role.SCALER,
        "scaler",
        "scaler.step(opt)\nscaler.scale(loss).backward()",
        "scaler.step(opt)",
    ),
    "a model that is annotated": (Role.MODEL, "net", "def f(net: nn.Module): ...", "def f(net: Network): ..."),
    "a model that is called": (Role.MODEL, "net", "loss = loss_fn(net(x), y)", "loss = loss_fn(net, y)"),
    "a model whose parameters are used": (
        Role.MODEL,
        "net",
        "clip_grad_norm_(net.parameters(), 1.0)",
        "clip_grad_norm_(net, 1.0)",
    ),
    "a framework that is imported": (
        Role.FRAMEWORK,
        "accelerator",
        "from accelerate import Accelerator",
        "from mylib import accelerator",
    ),
    "a framework that accumulates": (
        Role.FRAMEWORK,
        "accelerator",
        "with accelerator.accumulate(model): ...",
        "accelerator.backward(loss)",
    ),
}


@pytest.mark.parametrize("line", _LINES)
def test_a_line_of_the_table(line: str) -> None:
    role, name, plain, doubtful = _LINES[line]
    assert suspect([program(plain)], role, name) is None
    guess = suspect([program(doubtful)], role, name)
    assert guess is not None
    assert guess.clause == f"`{name}` is {role.value}"


def test_every_role_has_its_lines() -> None:
    assert set(TABLE) == set(Role)
    assert {role for role in Role if not TABLE[role]} == {Role.WINDOW, Role.CALL}  # nothing proves these


def test_objects_are_called_as_the_user_calls_them() -> None:
    guess = suspect([program("pass")], Role.SCALER, "Trainer#2.scaler")
    assert guess is not None
    assert guess.clause == "`self.scaler` is a gradient scaler"
    assert suspect([program("self.scaler.scale(loss).backward()")], Role.SCALER, "Trainer#2.scaler") is None


# -- what happens on a path


def _optimizers(source: str) -> dict[str, Guess | None]:
    return {ref.text: ref.guess for path in paths(source) for ref in path.optimizers.values()}


_LOOP = """
def train(model, loader, {name}, loss_fn):
    for x, y in loader:
        loss_fn(model(x), y).backward()
        {step}
"""


@pytest.mark.parametrize(
    ("name", "step", "seen"),
    [
        ("optimizer", "optimizer.step()", True),
        ("optimizer", "optimizer.step(closure)", True),
        ("opt", "opt.step(loss)", False),
        ("opt", "opt.step(epoch)", False),
        ("opt", "opt.step(metrics=loss)", False),
    ],
)
def test_a_step_behind_a_backward_of_the_same_function(name: str, step: str, *, seen: bool) -> None:
    assert (_optimizers(_LOOP.format(name=name, step=step))[name] is None) is seen


def test_a_step_without_a_backward_is_no_evidence() -> None:
    made = "def f(optimizer, loader):\n    for x in loader:\n        work(x)\n        optimizer.step()\n"
    assert _optimizers(made)["optimizer"] is not None


def test_a_backward_behind_the_step_is_no_evidence() -> None:
    made = "def f(optimizer, loss):\n    optimizer.step()\n\ndef g(optimizer, loss):\n    loss.backward()\n"
    assert _optimizers(made)["optimizer"] is not None


def test_functions_of_the_file_are_looked_into() -> None:
    """An optimizer under another name; a step in a method of its own."""
    made = """
    def update(it):
        it.step()

    def train(model, loader, optimizer, loss_fn):
        for x, y in loader:
            loss_fn(model(x), y).backward()
            update(optimizer)
    """
    assert _optimizers(made)["optimizer"] is None


def test_a_loss_that_is_scaled_first_and_backpropagated_later() -> None:
    made = """
    def train(model, loader, optimizer, loss_fn, scaler):
        for x, y in loader:
            loss = scaler.scale(loss_fn(model(x), y))
            loss.backward()
            scaler.step(optimizer)
            scaler.update()
    """
    events = [e for path in paths(made) for e in happened(path) if isinstance(e, Backward | Step | Update)]
    assert events
    assert all(e.scaler is not None and e.scaler.guess is None for e in events)
    never = textwrap.dedent(made).replace("scaler.scale(loss_fn(model(x), y))", "loss_fn(model(x), y)")
    steps = [e for path in paths(never) for e in happened(path) if isinstance(e, Step | Update | Unscale)]
    assert steps
    assert all(e.scaler is not None and e.scaler.guess is not None for e in steps)


def _first(source: str, kind: type[Backward | Clip | Step | Zero]) -> Guess | None:
    return next(e.guess for path in _all(source) for e in happened(path) if isinstance(e, kind))


def _all(source: str) -> list[Path]:
    return paths(source)


def test_a_backward_is_seen_where_it_is_called_on_the_loss() -> None:
    assert _first(_LOOP.format(name="optimizer", step="optimizer.step()"), Backward) is None
    other = "def f(strategy, loss, optimizer):\n    strategy.backward(loss)\n    optimizer.step()\n"
    guess = _first(other, Backward)
    assert guess is not None
    assert guess.clause == "`strategy.backward(loss)` is a plain backward"


def test_helpers_that_are_not_seen() -> None:
    guess = _first("def f(optimizer, loss):\n    loss.backward()\n    optimize(optimizer)\n", Step)
    assert guess is not None
    assert guess.role is Role.CALL
    guess = _first("def f(model, loss):\n    loss.backward()\n    reset_gradients(model)\n", Zero)
    assert guess is not None
    assert guess.role is Role.CALL


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        ("clip_gradients(model)", True),
        ("clip_gradients(model.parameters(), 1.0)", True),
        ("clip_gradients(model, scaler)", False),
        ("clip_gradients()", False),
    ],
)
def test_a_clip_of_another_file(call: str, *, seen: bool) -> None:
    """Given a model, it clips; given a scaler, it may do more."""
    source = f"def f(model, loss, scaler, optimizer):\n    loss.backward()\n    {call}\n    optimizer.step()\n"
    assert (_first(source, Clip) is None) is seen


def test_the_model_that_is_cleared() -> None:
    called = "def f(net, x, y):\n    net.zero_grad()\n    loss = F.mse_loss(net(x), y)\n    loss.backward()\n"
    assert _first(called, Zero) is None
    named = "def f(net, x, y):\n    net.zero_grad()\n    loss = make(x, y)\n    loss.backward()\n"
    guess = _first(named, Zero)
    assert guess is not None
    assert guess.role is Role.MODEL


def test_a_window_that_only_a_flag_speaks_of() -> None:
    source = """
    def train(model, loader, optimizer, loss_fn, {flag}):
        for i, (x, y) in enumerate(loader):
            loss_fn(model(x), y).backward()
            if {test}:
                optimizer.step()
                optimizer.zero_grad()
    """
    windows = [
        [e.guess for path in paths(source.format(flag=flag, test=test)) for e in path.events if _closes(e)]
        for flag, test in (("n", "(i + 1) % n == 0"), ("should_step", "should_step"))
    ]
    assert windows[0]
    assert not any(windows[0])
    assert windows[1]
    assert all(windows[1])


def _closes(event: object) -> bool:
    return isinstance(event, Step) and bool(event.window)
