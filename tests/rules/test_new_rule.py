"""A rule that is written into the folder, and nothing else, speaks wherever its calls stand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RULE = '''"""GL799 anomaly-detection-left-on."""

from collections.abc import Iterator

from gradlint.rule import Call, Draft, FixSafety, Repair, Rule, RuleMeta, Severity


class AnomalyDetectionLeftOn(Rule):
    """Anomaly detection stays on while the model trains."""

    meta = RuleMeta("GL799", Severity.ADVICE, fix=FixSafety.SAFE, unshowable="it changes only speed")
    message = "`{call}` checks every backward for NaN and makes training much slower"
    calls = ("torch.autograd.set_detect_anomaly",)

    def on_call(self, call: Call) -> Iterator[Draft]:
        if call.constant(0, "mode", default=True) is True and not self.file.is_test:
            repair = Repair("Turn it off", lambda bench: bench.delete(call))
            yield self.finding(call, call=call.short, repairs=[repair])
'''
#: what the folder of rules is for a checkout: one folder more
RUN = """\
import sys
from gradlint import registry
registry._rules_package().__path__.append(sys.argv.pop(1))
from gradlint.cli import main
main(sys.argv[1:])
"""
TRAINS = """\
import torch

torch.autograd.set_detect_anomaly(True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
NO_LOOP = "from torch import autograd\n\n\ndef set_up():\n    autograd.set_detect_anomaly(mode=True)\n    return 1\n"
FILLER = "".join(f"def part_{n}(rows):\n    return [row * {n} for row in rows if row]\n\n\n" for n in range(1000))
LONG = f"import torch as t\n\n\n{FILLER}def last():\n    t.autograd.set_detect_anomaly(True)\n    return 0\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rules = tmp_path_factory.mktemp("rules")
    (rules / "anomaly_detection_left_on.py").write_text(RULE, encoding="utf-8")
    return rules


def _run(folder: Path, file: Path, *options: str) -> str:
    command = [sys.executable, "-c", RUN, str(folder), "check", "--isolated", "--no-cache", *options, str(file)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False).stdout


@pytest.mark.parametrize(
    ("source", "line"),
    [
        pytest.param(TRAINS, 3, id="in a training script"),
        pytest.param(NO_LOOP, 5, marks=pytest.mark.slow, id="without a loop"),
        pytest.param(LONG, 4005, marks=pytest.mark.slow, id="in the last function of 60 KB"),
    ],
)
def test_it_speaks(folder: Path, tmp_path: Path, source: str, line: int) -> None:
    file = tmp_path / "script.py"
    file.write_text(source, encoding="utf-8")
    found = json.loads(_run(folder, file, "--output-format", "json"))
    assert [(f["code"], f["location"]["row"]) for f in found] == [("GL799", line)]


@pytest.mark.slow
def test_its_repair_is_made(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(TRAINS, encoding="utf-8")
    _run(folder, file, "--fix")
    assert file.read_text(encoding="utf-8") == TRAINS.replace("torch.autograd.set_detect_anomaly(True)\n", "")


def test_the_long_file_is_long() -> None:
    assert len(LONG) > 60_000
