"""`monitor = watch(accelerator)`: watches the gradients of a loop that Accelerate has prepared."""

from __future__ import annotations

import functools
from typing import Any

from gradlint.runtime.monitor.monitor import GradientMonitor


class AccelerateMonitor(GradientMonitor):
    """Hears of the loss from `accelerator.backward`, and ends with `accelerator.end_training` or with its `with`."""

    def __init__(self, accelerator: Any, model: Any, optimizer: Any, **settings: Any) -> None:
        super().__init__(model, optimizer, getattr(accelerator, "scaler", None), **settings)
        self._accelerator = accelerator
        self._wrapped = False

    def start(self) -> None:
        super().start()
        if self._wrapped:
            return
        self._wrapped = True
        backward, end_training = self._accelerator.backward, self._accelerator.end_training

        @functools.wraps(backward)
        def told(loss: Any, *args: Any, **kwargs: Any) -> Any:
            self.loss(loss)
            return backward(loss, *args, **kwargs)

        @functools.wraps(end_training)
        def ended(*args: Any, **kwargs: Any) -> Any:
            self.close()
            return end_training(*args, **kwargs)

        self._accelerator.backward, self._accelerator.end_training = told, ended

    def close(self) -> None:
        if self._wrapped:
            self._wrapped = False
            # The methods of its class show again.
            del self._accelerator.backward, self._accelerator.end_training
        super().close()


def watch(accelerator: Any, model: Any = None, optimizer: Any = None, **settings: Any) -> AccelerateMonitor:
    """Begins to watch what was prepared; `model` and `optimizer` tell which, where there are several.

    The rest is what `GradientMonitor` takes. Call it behind `accelerator.prepare(…)`.
    """
    model = _only(accelerator._models, "model") if model is None else model
    optimizer = _only(accelerator._optimizers, "optimizer") if optimizer is None else optimizer
    monitor = AccelerateMonitor(accelerator, model, optimizer, **settings)
    monitor.start()
    return monitor


def _only(prepared: Any, what: str) -> Any:
    if len(prepared) != 1:
        raise ValueError(f"the accelerator has prepared {len(prepared)} {what}s: say which, {what}=…")
    return prepared[0]
