"""GradScaler under the recorder: units, skipped steps, fused optimizers, disabled ones."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.amp, "GradScaler"):
    pytest.skip("torch < 2.3 has no GradScaler for the CPU", allow_module_level=True)

from gradlint.runtime.recorder.scaler import CPU_NOTE  # noqa: E402
from gradlint.runtime.recording import BackwardRan, Clipped, Met, Raised, Stepped, Unscaled, Updated  # noqa: E402
from tests.runtime.recorded import Run, run  # noqa: E402

AMP = """
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
for i in range(2):
    optimizer.zero_grad()
    scaler.scale(loss_of() / 2).backward()
    scaler.unscale_(optimizer)  # unscale
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)  # step
    scaler.update()  # update
"""


@pytest.fixture(scope="module")
def amp(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("amp"), AMP)


def test_the_order_of_amp(amp: Run) -> None:
    assert amp.error is None
    assert amp.notes == []
    assert amp.kinds() == ["zero", "backward", "unscale", "clip", "step", "update"] * 2


def test_the_scale_is_taken_out_of_the_factor(amp: Run) -> None:
    backward = amp.of(BackwardRan)[0]
    assert (backward.factor, backward.scale, backward.scaler) == (0.5, 1024.0, "scaler1")
    assert backward.root == "MseLossBackward0"
    with torch.no_grad():
        raw = float(torch.nn.functional.mse_loss(amp.names["model"](amp.names["x"]), amp.names["y"]))
    assert backward.loss is not None
    assert raw / 2 < backward.loss < 10  # in true units, before any step


def test_norms_are_labelled_with_their_units(amp: Run) -> None:
    backward, unscaled, step = amp.of(BackwardRan)[0], amp.of(Unscaled)[0], amp.of(Stepped)[0]
    assert backward.gradients[0].scale == 1024.0
    assert unscaled.before[0].norm == pytest.approx(backward.gradients[0].norm)
    assert unscaled.gradients[0].scale == 1.0
    assert unscaled.gradients[0].norm == pytest.approx(backward.gradients[0].true, rel=1e-5)
    assert (unscaled.scaler, unscaled.owner, unscaled.scale) == ("scaler1", "optimizer1", 1024.0)
    assert (step.scaler, step.skipped, step.before[0].scale) == ("scaler1", False, 1.0)
    assert step.place is not None
    assert step.place.line == amp.line("step")


def test_updates_tell_the_scale_before_and_after(amp: Run) -> None:
    assert [(u.scale, u.new_scale) for u in amp.of(Updated)] == [(1024.0, 1024.0), (1024.0, 2048.0)]


def test_a_clip_of_scaled_gradients_says_so(tmp_path: Path) -> None:
    code = AMP.replace("    scaler.unscale_(optimizer)  # unscale\n", "")
    outcome = run(tmp_path, code)
    assert outcome.kinds() == ["zero", "backward", "clip", "step", "update"] * 2
    clip = outcome.of(Clipped)[0]
    assert clip.before[0].scale == 1024.0
    assert clip.gradients[0].true == pytest.approx(1 / 1024, rel=1e-3)
    assert outcome.of(Stepped)[0].before[0].norm == pytest.approx(1 / 1024, rel=1e-3)


def test_an_infinite_gradient_skips_the_step(tmp_path: Path) -> None:
    outcome = run(tmp_path, AMP.replace("loss_of() / 2", "loss_of() * (float('inf') if i == 0 else 1.0)"))
    first, second = outcome.of(Stepped)
    assert (first.skipped, first.moved, first.number, first.scaler) == (True, None, 1, "scaler1")
    assert not first.before[0].finite
    assert (second.skipped, second.number) == (False, 2)
    assert second.moved
    assert outcome.of(Updated)[0].new_scale == 512.0


@pytest.mark.parametrize("unscale", [True, False])
def test_a_fused_optimizer(tmp_path: Path, unscale: bool) -> None:
    code = "optimizer = torch.optim.AdamW(model.parameters(), fused=True)\n" + AMP
    code = code.replace("loss_of() / 2", "loss_of() * (float('inf') if i == 1 else 1.0)")
    if not unscale:
        code = code.replace("    scaler.unscale_(optimizer)  # unscale\n", "").replace(
            "clip_grad_norm_", "get_total_norm"
        )
        code = code.replace("    torch.nn.utils.get_total_norm(model.parameters(), 1.0)\n", "")
    outcome = run(tmp_path, code)
    assert outcome.error is None
    assert outcome.notes == []
    first, second = outcome.of(Stepped)
    assert (first.skipped, second.skipped) == (False, True)
    true = outcome.of(BackwardRan)[0].gradients[0].true
    limit = min(true, 1.0) if unscale else true
    assert first.before[0].true == pytest.approx(limit, rel=1e-3)
    assert first.gradients[0].true == pytest.approx(limit, rel=1e-3)
    assert second.moved is None


def test_a_disabled_scaler_does_nothing(tmp_path: Path) -> None:
    outcome = run(tmp_path, AMP.replace('"cpu", ', '"cuda", enabled=False, '))
    assert outcome.error is None
    assert outcome.notes == []
    assert outcome.kinds() == ["zero", "backward", "clip", "step"] * 2
    assert [m.enabled for m in outcome.of(Met) if m.role == "scaler"] == [False]
    assert outcome.of(Stepped)[0].scaler == ""
    assert outcome.of(BackwardRan)[0].scale == 1.0


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.skipif(torch.cuda.is_available(), reason="with CUDA a scaler for CUDA works by itself")
@pytest.mark.parametrize(
    "made", ["torch.amp.GradScaler(init_scale=64.0)", "torch.cuda.amp.GradScaler(init_scale=64.0)"]
)
def test_a_scaler_for_cuda_works_on_the_cpu(tmp_path: Path, made: str) -> None:
    outcome = run(tmp_path, AMP.replace(AMP.splitlines()[1], f"scaler = {made}"))
    assert outcome.notes == [CPU_NOTE]
    assert outcome.kinds("warning") == ["zero", "backward", "unscale", "clip", "step", "update"] * 2
    assert outcome.of(BackwardRan)[0].scale == 64.0


def test_a_step_past_the_scaler_uses_scaled_gradients(tmp_path: Path) -> None:
    code = AMP.replace("    scaler.unscale_(optimizer)  # unscale\n", "").replace(
        "scaler.step(optimizer)", "optimizer.step()"
    )
    outcome = run(tmp_path, code)
    step = outcome.of(Stepped)[0]
    assert (step.scaler, step.before[0].scale) == ("", 1024.0)
    assert isinstance(outcome.error, AssertionError)
    assert [(r.type, r.during) for r in outcome.of(Raised)] == [("AssertionError", "update")]


@pytest.mark.cuda
def test_amp_on_cuda(tmp_path: Path) -> None:
    code = AMP.replace('"cpu"', '"cuda"')
    code = "model.cuda()\nx, y = x.cuda(), y.cuda()\noptimizer = torch.optim.AdamW(model.parameters())\n" + code
    outcome = run(tmp_path, code)
    assert outcome.error is None
    assert outcome.notes == []
    assert outcome.kinds() == ["zero", "backward", "unscale", "clip", "step", "update"] * 2
    assert outcome.of(BackwardRan)[0].scale == 1024.0


def test_two_scalers_in_one_scale_are_both_taken_out(tmp_path: Path) -> None:
    code = 'scaler = torch.amp.GradScaler("cpu", init_scale=8.0)\nscaler.scale(scaler.scale(loss_of()) / 4).backward()'
    backward = run(tmp_path, code).of(BackwardRan)[0]
    assert (backward.factor, backward.scale) == (0.25, 64.0)


def test_a_scaler_subclass_is_one_event_per_call(tmp_path: Path) -> None:
    code = """
    class Mine(torch.amp.GradScaler):
        def step(self, optimizer, *args, **kwargs):
            return super().step(optimizer, *args, **kwargs)
        def update(self, new_scale=None):
            super().update(new_scale)
    scaler = Mine("cpu")
    scaler.scale(loss_of()).backward()
    scaler.step(optimizer)
    scaler.update()
    """
    assert run(tmp_path, code).kinds() == ["backward", "step", "update"]
