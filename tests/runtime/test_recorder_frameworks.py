"""Accelerate and Fabric under the recorder: their work is told once, in the user's place, with their name on it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from gradlint.runtime.recording import BackwardRan, Clipped, LoaderTurned, Scheduled, Stepped
from tests.runtime.recorded import run

ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 4)), batch_size=2)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for (batch,) in loader:
    with accelerator.accumulate(model):
        loss = model(batch).pow(2).mean()
        accelerator.backward(loss)  # backward
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()  # step
        scheduler.step()
        optimizer.zero_grad()
"""

FABRIC = """
from {package} import Fabric
fabric = Fabric(accelerator="cpu", devices=1)
model, optimizer = fabric.setup(model, optimizer)
for i in range(2):
    fabric.backward(model(x).pow(2).mean() / 2)
    fabric.clip_gradients(model, optimizer, {limit})
    optimizer.step()
    optimizer.zero_grad()
"""


#: as much of DeepSpeed's engine as the recorder looks at
ENGINE = """
class DeepSpeedEngine:
    def __init__(self, model, optimizer, steps):
        self.model, self.optimizer, self.steps, self.seen = model, optimizer, steps, 0
    def gradient_accumulation_steps(self):
        return self.steps
    def backward(self, loss):
        (loss / self.steps).backward()
        self.seen += 1
    def step(self):
        if self.seen % self.steps == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()
"""

DEEPSPEED = """
from deepspeed.runtime.engine import DeepSpeedEngine
engine = DeepSpeedEngine(model, optimizer, 2)
for _ in range(4):
    engine.backward(loss_of())
    engine.step()  # step
"""


def test_deepspeed_by_a_double_of_its_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages" / "deepspeed" / "runtime"
    folder.mkdir(parents=True)
    (folder / "engine.py").write_text(ENGINE, encoding="utf-8")
    for package in (folder, folder.parent):
        (package / "__init__.py").touch()
    for name in ("deepspeed", "deepspeed.runtime", "deepspeed.runtime.engine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    outcome = run(tmp_path, DEEPSPEED)
    for name in ("deepspeed", "deepspeed.runtime", "deepspeed.runtime.engine"):
        sys.modules.pop(name, None)
    assert outcome.error is None
    assert outcome.kinds() == ["backward", "backward", "step", "zero"] * 2
    backward, step = outcome.of(BackwardRan)[0], outcome.of(Stepped)[0]
    assert (backward.manager, backward.factor, backward.managed_division) == ("DeepSpeed", 1.0, 2.0)
    assert step.manager == "DeepSpeed"
    assert step.place is not None
    assert step.place.line == outcome.line("step")


@pytest.mark.slow
def test_accelerate(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    outcome = run(tmp_path, ACCELERATE)
    assert outcome.error is None
    assert outcome.notes == []
    assert outcome.kinds("loader") == ["backward", "backward", "clip", "step", "schedule", "zero"] * 2
    backward, clip, step = outcome.of(BackwardRan)[0], outcome.of(Clipped)[0], outcome.of(Stepped)[0]
    assert (backward.manager, backward.managed_division, backward.factor) == ("Accelerate", 2.0, 1.0)
    assert backward.place is not None
    assert backward.place.line == outcome.line("backward")
    assert (clip.manager, clip.function, clip.limit) == ("Accelerate", "Accelerator.clip_grad_norm_", 0.01)
    assert clip.unscales
    assert step.manager == "Accelerate"
    assert step.place is not None
    assert step.place.line == outcome.line("step")
    assert outcome.of(Scheduled)[0].manager == "Accelerate"
    # it reads one batch ahead: the loader is over when the loop is
    assert [t.over for t in outcome.of(LoaderTurned)] == [False, True]
    assert outcome.happenings[-1].KIND == "loader"


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "how"), [("max_norm=0.01", "norm"), ("clip_val=0.01", "value")])
def test_fabric(tmp_path: Path, limit: str, how: str) -> None:
    package = next((p for p in ("lightning_fabric", "lightning") if importlib.util.find_spec(p)), None)
    if package is None:
        pytest.skip("needs lightning-fabric")
    outcome = run(tmp_path, FABRIC.format(package=package, limit=limit))
    assert outcome.error is None
    assert outcome.notes == []
    assert outcome.kinds() == ["backward", "clip", "step", "zero"] * 2
    backward, clip, step = outcome.of(BackwardRan)[0], outcome.of(Clipped)[0], outcome.of(Stepped)[0]
    assert (backward.manager, backward.factor, backward.managed_division) == ("Fabric", 0.5, 1.0)
    assert (clip.manager, clip.how, clip.limit, clip.unscales) == ("Fabric", how, 0.01, True)
    assert (step.manager, step.owner) == ("Fabric", "optimizer1")
