"""`Trainer(callbacks=[GradientCallback()])`: watches the gradients of a Lightning module."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradlint.runtime.monitor.monitor import GradientMonitor

# The same library under two names: the one that the script has imported is meant.
_OLD_NAME = "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules
if TYPE_CHECKING or (not _OLD_NAME and importlib.util.find_spec("lightning") is not None):
    from lightning.pytorch import Callback
else:
    from pytorch_lightning import Callback


class GradientCallback(Callback):
    """Takes what `GradientMonitor` takes; `report` is an HTML file that the first rank writes at the end.

    A module with several optimizers has a monitor for each, in their order, and a report for each: `gradients.html`,
    `gradients-2.html`.
    """

    def __init__(self, *, report: str | os.PathLike[str] | None = None, **settings: Any) -> None:
        super().__init__()
        self.monitors: list[GradientMonitor] = []
        self._settings = settings
        self._report = None if report is None else Path(report)

    @property
    def monitor(self) -> GradientMonitor | None:
        """Of the first optimizer."""
        return self.monitors[0] if self.monitors else None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._close()
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        self.monitors = [GradientMonitor(pl_module, each, scaler, **self._settings) for each in trainer.optimizers]
        for monitor in self.monitors:
            monitor.start()

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        # Which of several optimizers it is for, nobody can tell.
        if len(self.monitors) == 1:
            self.monitors[0].loss(loss)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._close()
        if self._report is None or not trainer.is_global_zero:
            return
        for i, monitor in enumerate(self.monitors, 1):
            path = self._report if i == 1 else self._report.with_stem(f"{self._report.stem}-{i}")
            monitor.report(path)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        for monitor in self.monitors:
            monitor.close()
