"""Where a monitor writes to."""

from __future__ import annotations

import io
import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from gradlint.runtime import GradientMonitor
from gradlint.runtime.monitor.data import Layer, Sample
from gradlint.runtime.monitor.log import JsonLines, WandbRun
from tests.runtime.monitored import network, train


class Writer:
    """What a SummaryWriter can do."""

    def __init__(self) -> None:
        self.scalars: list[tuple[str, float, int]] = []
        self.texts: list[tuple[str, str, int]] = []

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def add_text(self, name: str, text: str, step: int) -> None:
        self.texts.append((name, text, step))


class Run:
    """What a W&B run can do; it drops what lies behind its own step."""

    def __init__(self, step: int = 0) -> None:
        self.step = step
        self.rows: list[tuple[int | None, dict[str, float]]] = []

    def log(self, numbers: dict[str, float], step: int | None = None) -> None:
        self.rows.append((step, numbers))


def logged(log: Any, steps: int = 4, **settings: Any) -> GradientMonitor:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    with GradientMonitor(model, optimizer, every=2, log=log) as monitor:
        train(model, optimizer, steps, max_norm=1.0, **settings)
    return monitor


def test_a_function_gets_samples_and_findings() -> None:
    records: list[dict[str, Any]] = []
    monitor = logged(records.append, factor=1e4)
    assert [record["kind"] for record in records] == ["sample", "finding", "sample", "sample"]
    assert [record["step"] for record in records] == [1, 1, 2, 4]
    assert records[0]["norm"] == monitor.samples[0].norm
    assert records[0]["layers"][0]["name"] == "0.weight"
    assert records[0]["label"] == "true units, before the clip"
    assert (records[1]["condition"], records[1]["severity"]) == ("exploding", "warning")


def test_json_lines_by_path_and_by_file(tmp_path: Path) -> None:
    path, file = tmp_path / "gradients.jsonl", io.StringIO()
    logged([path, str(tmp_path / "again.jsonl"), file])
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 4]
    assert file.getvalue().splitlines() != []
    assert [json.loads(line)["norm"] for line in file.getvalue().splitlines()] == [json.loads(x)["norm"] for x in lines]


def test_json_has_no_nan() -> None:
    file = io.StringIO()
    layer = Layer("w", math.nan, math.inf, 1.0, -math.inf, None, 1)
    JsonLines(file=file).sample(Sample(1, math.nan, math.inf, layers=(layer,)))

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    record = json.loads(file.getvalue(), parse_constant=refuse)
    assert (record["norm"], record["used"], record["layers"][0]["largest"]) == ("NaN", "Infinity", "-Infinity")


def test_tensorboard_gets_curves_and_findings() -> None:
    writer = Writer()
    monitor = logged(writer, factor=1e4)
    curves = {(name, step): value for name, value, step in writer.scalars}
    assert curves["gradients/norm", 2] == monitor.samples[1].norm
    assert curves["gradients/norm_after_clip", 2] == pytest.approx(1.0, rel=1e-3)
    assert curves["gradients/clip_limit", 2] == 1.0
    assert curves["gradients/norm/0.weight", 4] == monitor.samples[2].layers[0].norm
    assert ("gradients/rate/0", 4) in curves
    assert [(name, step) for name, _, step in writer.texts] == [("gradients/findings", 1)]


@pytest.mark.slow
def test_a_real_summary_writer(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with tensorboard.SummaryWriter(tmp_path) as writer:
        monitor = logged(writer)
    read = accumulators.EventAccumulator(str(tmp_path))
    read.Reload()
    norms = [(event.step, event.value) for event in read.Scalars("gradients/norm")]
    assert norms == [(sample.step, pytest.approx(sample.norm)) for sample in monitor.samples]


def test_wandb_gets_numbers_for_the_step() -> None:
    run = Run()
    monitor = logged(run)
    assert [step for step, _ in run.rows] == [1, 2, 4]
    assert run.rows[1][1]["gradients/norm"] == monitor.samples[1].norm
    assert all(isinstance(value, float) for value in run.rows[1][1].values())


def test_wandb_is_not_sent_into_its_own_past() -> None:
    run = Run(step=50)
    WandbRun(run)({"gradients/norm": 1.0}, 7)
    assert run.rows == [(None, {"gradients/norm": 1.0, "gradients/step": 7.0})]


def test_findings_go_to_the_logger_of_gradlint(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "gradlint"):
        logged(None, factor=1e4)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("gradlint", "WARNING")
    assert record.message.startswith("step 1, ")
    assert "monitored.py:" in record.message.split(": ")[0]
    assert "exploding: the total norm is " in record.message
    assert "try, in this order: 1. a lower learning rate" in record.message


def test_a_logger_gets_lines(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        logged(logging.getLogger("training"))
    assert [record.name for record in caplog.records] == ["training"] * 3
    assert caplog.records[1].message.startswith("step 2: gradient norm ")


def test_a_target_that_fails_is_left_out_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[dict[str, Any]] = []

    def fail(record: dict[str, Any]) -> None:
        raise OSError("disk full")

    with caplog.at_level(logging.WARNING, "gradlint"):
        logged([fail, calls.append])
    assert len(calls) == 3
    assert [record.message for record in caplog.records] == [
        "logging gradients to Function failed, and ends: OSError('disk full')"
    ]
