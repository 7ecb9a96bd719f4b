"""`GradientMonitor`: what a training loop holds."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from torch import Tensor

from gradlint.model import Severity
from gradlint.runner.files import shown_path
from gradlint.runtime.monitor.data import Clip, Condition, Finding, Layer, Limits, MonitorData, Sample, Total, summary
from gradlint.runtime.monitor.judge import Judge
from gradlint.runtime.monitor.log import LOGGER, Targets
from gradlint.runtime.monitor.measurement import author_model, checked_model, checked_scaler, torch_optimizer
from gradlint.runtime.monitor.observations import Circumstances, Observation
from gradlint.runtime.monitor.watcher import Watcher
from gradlint.runtime.page.monitor import monitor_page
from gradlint.runtime.page.render import write

_OTHERS = frozenset(
    {"torch", "accelerate", "lightning", "lightning_fabric", "pytorch_lightning", "transformers", "deepspeed"}
)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


def user_line() -> str:
    """`train.py:31`; empty where nobody's code is on the stack."""
    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        path = frame.f_code.co_filename
        ours = path.startswith(_PACKAGE)
        if not ours and module.split(".", 1)[0] not in _OTHERS and module not in ("contextlib", "functools"):
            return f"{shown_path(path)}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""


# -- the monitor -------------------------------------------------------------------------------------------------------


#: a sample costs a few hundredths of a step of a small model on a CPU; see benchmarks/monitor.py
EVERY = 10
#: samples that are kept; of a longer run the older ones are thinned out
KEPT = 500


class GradientMonitor:
    """Watches the gradients that an optimizer uses, without a change to the training loop or to what it computes.

        with GradientMonitor(model, optimizer, scaler) as monitor:
            for batch in loader:
                loss = ...
                monitor.loss(loss)  # optional: small gradients are no finding while the loss falls
                ...
        print(monitor.summary())
        monitor.report("gradients.html")

    Every `every` steps of the optimizer it takes a sample: for each parameter the gradient's norm, mean, standard
    deviation, largest value and ratio to the weights, all in true units, before the clip. The total norm is measured
    and clips are counted at every step. `limits` say from where on sizes are told. `log` is a function, a TensorBoard
    SummaryWriter, a W&B run, a path or file for JSON lines, or a list of them; findings always go to the logger
    "gradlint" as well. A scaler that steps the optimizer is found by itself, but with its first step only: hand it
    over.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        scaler: Any = None,
        *,
        every: int = EVERY,
        log: Any = None,
        keep: int = KEPT,
        limits: Limits | None = None,
    ) -> None:
        model, inner = checked_model(model), torch_optimizer(optimizer)
        self._model = type(author_model(model)).__name__
        self._keep = max(2, _positive("keep", keep))
        self._targets = Targets(log)
        self._samples: list[Sample] = []
        self._notes: list[str] = []
        self._watcher = Watcher(model, inner, checked_scaler(scaler), _positive("every", every), self)
        self._judge = Judge(limits, self._watcher.shard)
        if self._watcher.shard:
            self._notes.append("the model is sharded: norms are those of this rank's shards, not of whole gradients")

    def __enter__(self) -> GradientMonitor:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Begins to watch; the same as entering `with`."""
        self._watcher.start()

    def close(self) -> None:
        """Ends it, and leaves torch and the optimizer as they were. What was seen stays."""
        self._watcher.close()
        self._tell(self._judge.end())
        self._targets.close()

    def loss(self, loss: Tensor | float) -> None:
        """Tells the loss of a (micro-)batch; it stays on its device until the next sample."""
        self._watcher.tell(loss)

    @property
    def samples(self) -> list[Sample]:
        return list(self._samples)

    @property
    def findings(self) -> list[Finding]:
        return list(self._judge.findings)

    @property
    def clips(self) -> list[Clip]:
        """What each clip did, up to the last sample; after `close`, at all steps."""
        return [calls.result() for calls in self._watcher.clip_calls.values()]

    @property
    def steps(self) -> int:
        """Steps of the optimizer, with those that the scaler skipped."""
        return self._watcher.steps

    @property
    def skipped(self) -> int:
        """Steps that the scaler skipped."""
        return self._watcher.skipped

    @property
    def data(self) -> MonitorData:
        """All that was seen, as plain data."""
        roster = self._watcher.roster
        return MonitorData(
            model=self._model,
            optimizer=type(self._watcher.optimizer).__name__,
            every=self._watcher.every,
            steps=self.steps,
            skipped=self.skipped,
            parameters=len(roster.entries),
            elements=roster.elements,
            scaler=self._watcher.scaler is not None,
            samples=self.samples,
            totals=self._judge.totals.curve,
            skips=list(self._watcher.skips),
            median=self._judge.totals.median,
            largest=self._judge.totals.largest,
            seen=self._judge.totals.count,
            findings=self.findings,
            clips=self.clips,
            notes=list(self._notes),
            seconds=self._watcher.seconds,
        )

    def summary(self) -> str:
        return summary(self.data)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes one HTML file with everything in it."""
        write(monitor_page(self.data), Path(path))

    # What the watcher tells.

    def startling(self, norm: float) -> bool:
        return self._judge.startling(norm)

    def stepped(self, total: Total, at_once: bool) -> None:
        self._tell(self._judge.step(total, line=user_line if at_once else None))

    def sampled(self, sample: Sample, total: Total, circumstances: Circumstances) -> None:
        self._samples.append(sample)
        if len(self._samples) > self._keep:
            half = self._keep // 2
            self._samples[:half] = self._samples[:half:2]
        new = self._judge.step(total, sample, circumstances, user_line)
        self._targets.sample(sample)
        self._tell(new)

    def _tell(self, findings: list[Finding]) -> None:
        for finding in findings:
            self._targets.finding(finding)

    def skipping(self, step: int, streak: int, scale: float, layers: tuple[Layer, ...]) -> None:
        names = tuple(layer.name for layer in layers if not layer.finite)
        where = f", NaN or Inf in {', '.join(names[:3])}" if names else ""
        message = (
            f"the scaler has skipped {streak} steps in a row and its scale is down to {scale:g}: the gradients are not "
            f"finite at any scale{where}"
        )
        self._tell(self._judge.hold(Observation(Condition.SKIPPED_STEPS, Severity.ERROR, message, names), step))

    def failed(self, step: int, error: Exception) -> None:
        note = f"the monitor stopped at step {step}: {type(error).__name__}: {error}"
        self._notes.append(note)
        LOGGER.warning("%s (training goes on, unwatched)", note)


def _positive(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
    return value
