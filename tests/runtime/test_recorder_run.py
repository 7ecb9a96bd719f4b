"""The recorder round a run: schedulers, models, loaders, the end of it, odd tensors, and taking it out again."""

from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gradlint.runtime import norms  # noqa: E402
from gradlint.runtime.launch.orders import Orders  # noqa: E402
from gradlint.runtime.recorder.session import Enough, Recorder  # noqa: E402
from gradlint.runtime.recording import (  # noqa: E402
    BackwardRan,
    Forwarded,
    Happening,
    LoaderTurned,
    Met,
    Raised,
    Scheduled,
    Stepped,
    Warned,
)
from tests.runtime.recorded import LOOP, run  # noqa: E402


def test_schedulers_move_the_rate_once_per_call(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        schedulers = torch.optim.lr_scheduler
        one = schedulers.StepLR(optimizer, 1)
        class Mine(schedulers.LambdaLR):
            def step(self, epoch=None):
                super().step(epoch)
        two = Mine(optimizer, lambda n: 0.5 ** n)
        chain = schedulers.SequentialLR(
            optimizer, [schedulers.ConstantLR(optimizer, 0.1), schedulers.ExponentialLR(optimizer, 0.9)], [2]
        )
        plateau = schedulers.ReduceLROnPlateau(optimizer)
        optimizer.step()
        one.step()
        two.step()
        for _ in range(3):
            chain.step()
        plateau.step(1.0)
        state = one.state_dict()
        """,
    )
    assert outcome.kinds("warning") == ["step", *["schedule"] * 6]
    met = [m for m in outcome.of(Met) if m.role == "scheduler"]
    assert [m.type for m in met] == [
        "StepLR",
        "Mine",
        "ConstantLR",
        "ExponentialLR",
        "SequentialLR",
        "ReduceLROnPlateau",
    ]
    assert all(m.optimizer == "optimizer1" for m in met)
    assert [s.told for s in outcome.of(Scheduled)] == [False, False, False, False, False, True]
    first = outcome.of(Scheduled)[0]
    assert first.new_rates == pytest.approx((first.rates[0] * 0.1,))
    plain = run(tmp_path, outcome.text, prelude="", recorded=False)
    assert outcome.names["state"] == plain.names["state"]


def test_a_scheduler_before_the_optimizer_makes_torch_warn(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = run(
            tmp_path, "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)\nscheduler.step()  # schedule"
        )
    warned = outcome.of(Warned)
    assert len(warned) == 1
    assert "before `optimizer.step()`" in warned[0].message
    assert warned[0].place is not None
    assert warned[0].place.line == outcome.line("schedule")
    shown = [w for w in caught if "before `optimizer.step()`" in str(w.message)]
    assert [(w.filename, w.lineno) for w in shown] == [(outcome.path, outcome.line("schedule"))]


def test_models_called_by_the_user(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        criterion = nn.MSELoss()
        frozen = nn.Linear(4, 1).requires_grad_(False)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)  # forward
        criterion(out.float(), y)
        frozen(x)
        with torch.no_grad():
            model(x)
        """,
    )
    forwards = outcome.of(Forwarded)
    assert [(f.type, f.autocast, f.sync) for f in forwards] == [("Sequential", "bfloat16", None)]
    assert forwards[0].place is not None
    assert forwards[0].place.line == outcome.line("forward")


def test_a_backward_under_autocast_says_so(tmp_path: Path) -> None:
    outcome = run(
        tmp_path, 'with torch.autocast("cpu", dtype=torch.bfloat16):\n    loss_of().backward()\nloss_of().backward()'
    )
    assert [b.autocast for b in outcome.of(BackwardRan)] == ["bfloat16", ""]


def test_loaders_begin_and_end(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4)
        for epoch in range(2):
            for bx, by in loader:  # loop
                optimizer.zero_grad()
        next(iter(loader))
        """,
    )
    turns = outcome.of(LoaderTurned)
    assert [(t.loader, t.over) for t in turns] == [("loader1", o) for o in (False, True, False, True, False)]
    assert turns[1].place is not None
    assert turns[1].place.line == outcome.line("loop")


def test_enough_comes_before_the_step_that_is_too_many(tmp_path: Path) -> None:
    outcome = run(tmp_path, LOOP.replace("train(4)", "train(100)"), steps=3)
    assert isinstance(outcome.error, Enough)
    assert outcome.error.code == 0
    assert len(outcome.of(Stepped)) == 3
    assert outcome.kinds()[-1] == "clip"


def test_enough_waits_for_the_slower_optimizer(tmp_path: Path) -> None:
    code = """
    other = torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1)
    never = torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1)
    for i in range(1000):
        optimizer.step()
        if i % {every} == {every} - 1:
            other.step()
    """
    outcome = run(tmp_path, code.format(every=3), steps=4)
    steps = {owner: sum(s.owner == owner for s in outcome.of(Stepped)) for owner in ("optimizer1", "optimizer2")}
    assert steps == {"optimizer1": 12, "optimizer2": 4}
    # one that stepped once and never again does not hold up the other for ever
    outcome = run(tmp_path, code.format(every=1000).replace("for i", "other.step()\n    for i"), steps=4)
    assert sum(s.owner == "optimizer1" for s in outcome.of(Stepped)) == 16


def test_a_script_that_swallows_enough_is_told_again(tmp_path: Path) -> None:
    code = """
    caught = 0
    for i in range(12):
        try:
            loss_of().backward()
            optimizer.step()
            optimizer.zero_grad()
        except BaseException:
            caught += 1
    """
    outcome = run(tmp_path, code, steps=2)
    assert outcome.names["caught"] == 10
    assert len(outcome.of(Stepped)) == 2


def test_a_watched_call_that_raises_is_told_and_the_exception_goes_on(tmp_path: Path) -> None:
    code = """
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(loss_of()).backward()
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)
    """
    outcome = run(tmp_path, code)
    assert isinstance(outcome.error, RuntimeError)
    raised = outcome.of(Raised)
    assert [(r.type, r.during) for r in raised] == [("RuntimeError", "unscale")]
    assert "already been called" in raised[0].message


def test_the_recorder_gives_everything_back(tmp_path: Path) -> None:
    def state() -> list[object]:
        optim, clip = torch.optim, torch.nn.utils.clip_grad
        names: list[tuple[Any, str]] = [
            (optim.Optimizer, n) for n in ("__init__", "zero_grad", "_patch_step_function", "add_param_group")
        ]
        names += [(optim.SGD, "step"), (torch.nn.Module, "__call__"), (torch.nn.Module, "zero_grad")]
        names += [(torch.amp.GradScaler, n) for n in ("__init__", "scale", "step", "update", "unscale_")]
        names += [(optim.lr_scheduler.LRScheduler, n) for n in ("__init__", "step", "__init_subclass__")]
        names += [(clip, "clip_grad_norm_"), (torch.nn.utils, "clip_grad_norm_"), (torch.autograd, "backward")]
        names += [(torch.Tensor, "grad"), (warnings, "warn"), (torch.distributed, "all_reduce")]
        return [vars(owner).get(name) for owner, name in names]

    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)  # torch itself wraps `step` with the first one
    before, finders = state(), list(sys.meta_path)
    first = run(tmp_path, LOOP)
    second = run(tmp_path, LOOP)
    assert state() == before
    assert sys.meta_path == finders
    assert first.kinds() == second.kinds()


def test_an_optimizer_from_an_earlier_recording_is_met_again(tmp_path: Path) -> None:
    first = run(tmp_path, "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)\nloss_of().backward()")
    seen: list[Happening] = []
    with Recorder(Orders(str(tmp_path), first.path), seen.append):
        first.names["optimizer"].step()
        first.names["scheduler"].step()
    assert [h.KIND for h in seen] == ["met", "step", "met", "schedule"]


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param("emb = nn.Embedding(5, 3, sparse=True)\nopt = torch.optim.SparseAdam(emb.parameters())\n"
                     "out = lambda: emb(torch.tensor([1, 1, 2])).sum()", id="sparse"),
        pytest.param("w = nn.Parameter(torch.ones(3, dtype=torch.complex64))\nopt = torch.optim.SGD([w], lr=0.1)\n"
                     "out = lambda: (w * w.conj()).real.sum()", id="complex"),
        pytest.param("w = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))\nopt = torch.optim.SGD([w], lr=0.1)\n"
                     "out = lambda: w.sum()", id="half"),
        pytest.param("w = nn.Parameter(torch.ones(3))\nu = nn.Parameter(torch.ones(0))\n"
                     "opt = torch.optim.SGD([w, u], lr=0.1)\nout = lambda: w.sum()", id="unused-and-empty"),
        pytest.param("w = nn.Parameter(torch.ones(3, device='meta'))\nopt = torch.optim.SGD([w], lr=0.1)\n"
                     "out = lambda: w.sum()", id="meta"),
    ],
)  # fmt: skip
def test_odd_parameters_do_no_harm(tmp_path: Path, setup: str) -> None:
    loop = "\nfor _ in range(2):\n    opt.zero_grad()\n    out().backward()\n    out().backward()\n    opt.step()\n"
    outcome = run(tmp_path, setup + loop)
    assert outcome.error is None
    assert outcome.notes == []
    assert outcome.kinds() == ["zero", "backward", "backward", "step"] * 2
    assert all(math.isfinite(g.norm) for h in outcome.happenings for g in h.gradients)


def test_what_fails_in_the_recorder_stays_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(tensors: object) -> float:
        raise ValueError("no norm today")

    monkeypatch.setattr(norms, "total", broken)
    outcome = run(tmp_path, LOOP)
    assert outcome.error is None
    assert len(outcome.names["norms"]) == 2
    assert any(note.startswith("the recorder failed at a step: ValueError: no norm today") for note in outcome.notes)
