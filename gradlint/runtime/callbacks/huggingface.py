"""`Trainer(…, callbacks=[GradientCallback()])`: watches the gradients of Hugging Face's Trainer, and of trl's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback

from gradlint.runtime.monitor.measurement import author_model
from gradlint.runtime.monitor.monitor import GradientMonitor


class GradientCallback(TrainerCallback):
    """Takes what `GradientMonitor` takes; `report` is an HTML file that the first rank writes at the end.

    The loss is read from the model's output, where that has one, else from the Trainer's log.
    """

    def __init__(self, *, report: str | os.PathLike[str] | None = None, **settings: Any) -> None:
        self.monitor: GradientMonitor | None = None
        self._settings = settings
        self._report = report
        self._hook: Any = None
        self._told = False

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **others: Any
    ) -> None:
        self._close()
        if model is None or optimizer is None:  # DeepSpeed makes its own
            return
        self.monitor = GradientMonitor(model, optimizer, getattr(optimizer, "scaler", None), **self._settings)
        self.monitor.start()
        self._told = False
        self._hook = author_model(model).register_forward_hook(self._forward)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
        if self.monitor is not None and not self._told and isinstance(logs, Mapping) and "loss" in logs:
            self.monitor.loss(float(logs["loss"]))

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._close()
        if self.monitor is not None and self._report is not None and getattr(state, "is_world_process_zero", True):
            self.monitor.report(self._report)

    def _forward(self, module: Any, inputs: Any, output: Any) -> None:
        loss = output.get("loss") if isinstance(output, Mapping) else None
        if self.monitor is not None and isinstance(loss, Tensor) and module.training and torch.is_grad_enabled():
            self._told = True
            self.monitor.loss(loss if loss.numel() == 1 else loss.mean())

    def _close(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        if self.monitor is not None:
            self.monitor.close()
