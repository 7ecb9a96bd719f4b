"""The monitor in one line: Hugging Face's Trainer, Lightning and Accelerate, with the real libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from gradlint.runtime import GradientMonitor
from gradlint.runtime.monitor.data import Condition
from tests.runtime.monitored import is_watched, loss_of, network

STEPS = 12


class Batches(Dataset[dict[str, Tensor]]):
    """Rows, as the Trainer wants them."""

    def __len__(self) -> int:
        return 8 * STEPS

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"x": torch.randn(4, generator=torch.Generator().manual_seed(index))}


class WithLoss(nn.Module):
    """A model that computes its own loss."""

    def __init__(self, cut: bool) -> None:
        super().__init__()
        self.body = network()
        self.cut = cut

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        hidden = self.body[:2](x)
        found = self.body[2:](hidden.detach() if self.cut else hidden)
        return {"loss": nn.functional.mse_loss(found, x.sum(1, keepdim=True))}


def checked(monitor: GradientMonitor | None, cut: bool) -> None:
    """All steps, clips and losses were seen, and what was cut off is named; nothing is left behind."""
    assert monitor is not None
    assert not is_watched()
    assert monitor.data.notes == []
    assert (monitor.steps, monitor.clips[0].calls) == (STEPS, STEPS)
    assert all(sample.loss is not None for sample in monitor.samples)
    assert [(f.condition, len(f.layers)) for f in monitor.findings] == ([(Condition.NEVER_TRAINED, 2)] if cut else [])


@pytest.mark.slow
@pytest.mark.parametrize("cut", [True, False])
def test_trainer(cut: bool, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from gradlint.runtime.callbacks.huggingface import GradientCallback

    callback = GradientCallback(every=2, report=tmp_path / "gradients.html")
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=STEPS, per_device_train_batch_size=4, gradient_accumulation_steps=2,
        max_grad_norm=0.01, report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no", seed=0,
        remove_unused_columns=False, logging_steps=5,
    )  # fmt: skip
    transformers.Trainer(WithLoss(cut), arguments, train_dataset=Batches(), callbacks=[callback]).train()
    checked(callback.monitor, cut)
    assert "body.2.weight" in (tmp_path / "gradients.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("cut", [True, False])
def test_lightning(cut: bool, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    from gradlint.runtime.callbacks.lightning import GradientCallback

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = WithLoss(cut)

        def training_step(self, batch: dict[str, Tensor], index: int) -> Tensor:
            return self.model(batch["x"])["loss"]  # type: ignore[no-any-return]

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    callback = GradientCallback(every=2, report=tmp_path / "gradients.html")
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, max_steps=STEPS, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=0.01, callbacks=[callback],
        default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(Module(), torch.utils.data.DataLoader(Batches(), batch_size=8))
    checked(callback.monitor, cut)
    assert "model.body.2.weight" in (tmp_path / "gradients.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("cut", [True, False])
def test_accelerate(cut: bool) -> None:
    accelerate = pytest.importorskip("accelerate")
    from gradlint.runtime.callbacks.accelerate import watch

    accelerator = accelerate.Accelerator(cpu=True)
    plain = WithLoss(cut)
    model, optimizer = accelerator.prepare(plain, torch.optim.AdamW(plain.parameters()))
    monitor = watch(accelerator, every=2)
    for _ in range(STEPS):
        accelerator.backward(model(torch.randn(8, 4))["loss"])
        accelerator.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.end_training()
    checked(monitor, cut)
    assert "backward" not in vars(accelerator)


@pytest.mark.slow
def test_accelerate_with_several_optimizers_is_told_which() -> None:
    accelerate = pytest.importorskip("accelerate")
    from gradlint.runtime.callbacks.accelerate import watch

    accelerator = accelerate.Accelerator(cpu=True)
    plain = network()
    first, second = (torch.optim.SGD(part.parameters(), lr=0.1) for part in (plain[0], plain[2]))
    model, one, two = accelerator.prepare(plain, first, second)
    with pytest.raises(ValueError, match=r"prepared 2 optimizers: say which, optimizer="):
        watch(accelerator)
    with watch(accelerator, optimizer=two) as monitor:
        accelerator.backward(loss_of(model, torch.randn(4, 4)))
        one.step()
        two.step()
    assert [layer.name for layer in monitor.samples[0].layers] == ["2.weight", "2.bias"]
