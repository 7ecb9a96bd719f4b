"""Where samples and findings go: a function, TensorBoard, W&B, a file of JSON lines, a logger, or several of them.

Targets are known by what they can do, so that neither TensorBoard nor W&B is imported.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import os
from collections.abc import Callable
from typing import Any, TextIO

from gradlint.model import Severity
from gradlint.runtime.monitor.data import Finding, Sample, tried

#: findings always go here, too
LOGGER = logging.getLogger("gradlint")


class Target:
    """Takes what a monitor has to say, as far as it wants it."""

    def sample(self, sample: Sample) -> None:
        """The gradients of one step."""

    def finding(self, finding: Finding) -> None:
        """Those that take numbers only leave it to the logger."""

    def close(self) -> None:
        """What was handed to us is not ours to close."""


def targets(log: Any) -> list[Target]:
    """The targets that the argument `log` of a monitor names."""
    if log is None:
        return []
    if isinstance(log, list | tuple):
        return [target for each in log for target in targets(each)]
    return [_target(log)]


def _target(log: Any) -> Target:
    if isinstance(log, str | os.PathLike):
        return JsonLines(path=log)
    if isinstance(log, logging.Logger):
        return Lines(log)
    if hasattr(log, "add_scalar"):
        return TensorBoard(log)
    if hasattr(log, "log_metrics"):
        return Metrics(log.log_metrics)
    if hasattr(log, "log"):
        return Metrics(WandbRun(log))
    if hasattr(log, "write"):
        return JsonLines(file=log)
    if callable(log):
        return Function(log)
    raise TypeError(
        "log must be a function, a SummaryWriter, a W&B run, a path or file for JSON lines, or a list of these, "
        f"not {type(log).__name__}"
    )


def sample_record(sample: Sample) -> dict[str, Any]:
    """All that is known of a sample."""
    return {"kind": "sample", **dataclasses.asdict(sample), "label": sample.label}


def finding_record(finding: Finding) -> dict[str, Any]:
    record = {"kind": "finding", **dataclasses.asdict(finding)}
    return record | {"condition": finding.condition.value, "severity": finding.severity.label}


def metrics(sample: Sample) -> dict[str, float]:
    """The numbers that are drawn as curves; of each layer the norm and its ratio to the weights."""
    found: dict[str, float | None] = {
        "gradients/norm": sample.norm,
        "gradients/norm_after_clip": sample.used if sample.clipped is not None else None,
        "gradients/clip_limit": sample.limit,
        "gradients/clipped": None if sample.clipped is None else float(sample.clipped),
        "gradients/scale": sample.scale if sample.scale != 1.0 else None,
        "gradients/loss": sample.loss,
        **{f"gradients/rate/{i}": rate for i, rate in enumerate(sample.rates)},
        **{f"gradients/norm/{layer.name}": layer.norm for layer in sample.layers},
        **{f"gradients/ratio/{layer.name}": layer.ratio for layer in sample.layers},
    }
    return {name: value for name, value in found.items() if value is not None}


@dataclasses.dataclass(slots=True)
class Function(Target):
    """A function that gets a dictionary for each sample and for each finding; `kind` tells which."""

    call: Callable[[dict[str, Any]], object]

    def sample(self, sample: Sample) -> None:
        self.call(sample_record(sample))

    def finding(self, finding: Finding) -> None:
        self.call(finding_record(finding))


@dataclasses.dataclass(slots=True)
class Lines(Target):
    """A logger that gets one line for each sample; findings have a logger anyway."""

    logger: logging.Logger

    def sample(self, sample: Sample) -> None:
        loss = "" if sample.loss is None else f", loss {sample.loss:.4g}"
        after = "" if sample.clipped is None else f", {sample.used:.3g} after the clip"
        self.logger.info("step %d: gradient norm %.3g%s%s", sample.step, sample.norm, after, loss)

    def finding(self, finding: Finding) -> None:
        if self.logger is not LOGGER:
            write(finding, self.logger)


@dataclasses.dataclass(slots=True)
class TensorBoard(Target):
    """A SummaryWriter, or whatever has its methods."""

    writer: Any

    def sample(self, sample: Sample) -> None:
        for name, value in metrics(sample).items():
            self.writer.add_scalar(name, value, sample.step)

    def finding(self, finding: Finding) -> None:
        if hasattr(self.writer, "add_text"):
            self.writer.add_text("gradients/findings", spoken(finding), finding.step)


@dataclasses.dataclass(slots=True)
class Metrics(Target):
    """A function of numbers and a step: `log_metrics` of Lightning's loggers, a W&B run."""

    log: Callable[[dict[str, float], int], object]

    def sample(self, sample: Sample) -> None:
        self.log(metrics(sample), sample.step)


@dataclasses.dataclass(slots=True)
class WandbRun:
    """W&B drops what is logged for a step that lies behind the run's own count; that is then left to the run."""

    run: Any

    def __call__(self, numbers: dict[str, float], step: int) -> None:
        ahead = getattr(self.run, "step", 0)
        record = {**numbers, "gradients/step": float(step)}
        if isinstance(ahead, int) and ahead > step:
            self.run.log(record)
        else:
            self.run.log(record, step=step)


class JsonLines(Function):
    """One JSON object for each sample and each finding; numbers that JSON has not are strings ("NaN", "Infinity")."""

    def __init__(self, path: str | os.PathLike[str] | None = None, file: TextIO | None = None) -> None:
        super().__init__(self._write)
        self._path = path
        self._file = file

    def close(self) -> None:
        if self._path is not None and self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, record: dict[str, Any]) -> None:
        if self._file is None:
            assert self._path is not None
            self._file = open(self._path, "a", encoding="utf-8")  # noqa: SIM115 - it stays open for the training
        self._file.write(json.dumps(_plain(record)) + "\n")
        if hasattr(self._file, "flush"):
            self._file.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def spoken(finding: Finding) -> str:
    code = f" ({finding.code})" if finding.code else ""
    line = f", {finding.line}" if finding.line else ""
    return f"step {finding.step}{line}: {finding.message}{code}{tried(finding)}"


def write(finding: Finding, logger: logging.Logger = LOGGER) -> None:
    logger.log(logging.ERROR if finding.severity is Severity.ERROR else logging.WARNING, "%s", spoken(finding))


class Targets:
    """All targets of a monitor; one that fails is told of once, and left out from then on."""

    def __init__(self, log: Any) -> None:
        self._targets = targets(log)

    def sample(self, sample: Sample) -> None:
        self._each(lambda target: target.sample(sample))

    def finding(self, finding: Finding) -> None:
        write(finding)
        self._each(lambda target: target.finding(finding))

    def close(self) -> None:
        self._each(lambda target: target.close())

    def _each(self, tell: Callable[[Target], None]) -> None:
        for target in list(self._targets):
            try:
                tell(target)
            except Exception as error:  # whatever a logger of the user raises, training goes on
                self._targets.remove(target)
                LOGGER.warning("logging gradients to %s failed, and ends: %r", type(target).__name__, error)
