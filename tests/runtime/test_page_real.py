"""Pages of runs that really ran: a script through `gradlint verify --html`, and a monitor's report."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.runtime.page_reading import Element, read
from tests.runtime.verified import in_this_process
from tests.runtime.zygote import python

pytestmark = pytest.mark.slow

SCRIPT = """\
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
scaler = torch.amp.GradScaler("cpu")
for step in range(50):
    inputs, targets = torch.randn(16, 8) * 5, torch.randn(16, 1) * 20
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
"""

MONITOR = """\
import sys

import torch

from gradlint.runtime import GradientMonitor

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
with GradientMonitor(model, optimizer, every=2) as monitor:
    for step in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(torch.randn(16, 8)), torch.randn(16, 1))
        monitor.loss(loss)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.1)
        optimizer.step()
monitor.report(sys.argv[1])
"""


def _run(*command: str) -> None:
    outcome = subprocess.run(python(*command), capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert outcome.returncode in (0, 1), outcome.stdout + outcome.stderr


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Element:
    folder = tmp_path_factory.mktemp("verified")
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    page = folder / "report.html"
    done = in_this_process("--isolated", "--device", "cpu", "--html", page, folder / "train.py", cwd=folder)
    assert done.returncode == 1, done.stdout + done.stderr
    return read(page.read_text(encoding="utf-8"))


def test_the_mistake_is_seen_and_cured(verified: Element) -> None:
    assert verified.one("h1").text == "1 confirmed; the fix cured 1"
    row = verified.one("table", "evidence").one("tbody").one("tr")
    assert row.one("span", "rule").text == "GL201 clip-scaled-gradients"
    assert row.one("code", "line").text == "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)"


def test_the_events_are_those_of_the_loop(verified: Element) -> None:
    before, after = verified.all("svg", "lanes")[:2]
    assert before.attributes["aria-label"] == (
        "Iteration 1, before the fix: zero, forward, backward, clip (GL201), step, update, schedule"
    )
    assert after.attributes["aria-label"] == (
        "Iteration 1, after the fix: zero, forward, backward, unscale, clip (GL201), step, update, schedule"
    )
    assert len(after.all("circle", "added")) == 1


def test_the_numbers_are_in_true_units(verified: Element) -> None:
    before, after = verified.all("dl", "tallies")[:2]
    assert "norm at the step1.53e-05" in before.text.replace("\n", "").replace(" " * 4, "")
    assert "norm at the step1" in after.text
    assert verified.all("figure", "plots")[0].one("h3").text == "Gradient norm"


def test_a_monitors_report(tmp_path: Path) -> None:
    (tmp_path / "watch.py").write_text(MONITOR, encoding="utf-8")
    _run(str(tmp_path / "watch.py"), str(tmp_path / "gradients.html"))
    page = read((tmp_path / "gradients.html").read_text(encoding="utf-8"))
    assert "20 steps" in page.one("h1").text
    names = [t.text.splitlines()[0] for t in page.one("svg", "heat").all("title")]
    assert names == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert "clip_grad_norm_" in page.one("table", "clips").text
