"""`gradlint verify` with runs: what becomes of scripts that train, that do not, and that fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.test_project import ASKED, DIVIDES
from tests.patience import PATIENCE, Clock
from tests.runtime.forked import forked_scripts  # noqa: F401 - a fixture
from tests.runtime.launched import is_alive

pytestmark = pytest.mark.slow

MISTAKE = """
import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(40):
    loss = model(torch.randn(4, 8)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
LINE = 8


def write(name: str, text: str) -> None:
    Path(name).write_text(textwrap.dedent(text), encoding="utf-8")


def _run(gradlint: Command, *arguments: str) -> tuple[int, dict[str, Any], str]:
    patience = f"--timeout={PATIENCE}"
    outcome = gradlint("verify", "--device", "cpu", "--output-format", "json", patience, *arguments)
    data: dict[str, Any] = outcome.json()  # stdout is JSON and nothing else
    return outcome.code, data, outcome.err


def test_options_of_a_run(gradlint: Command) -> None:
    """--no-fix, --steps, --seed: the same seed gives the same evidence, another seed other numbers."""
    write("train.py", MISTAKE)
    code, first, _ = _run(gradlint, "train.py", "--no-fix", "--steps", "4", "--seed", "7")
    assert (code, first["steps"], first["seed"]) == (1, 4, 7)
    (finding,) = first["findings"]
    assert (finding["code"], finding["line"], finding["verdict"], finding["after_fix"]) == (
        "GL401", LINE, "confirmed", "no-fix",
    )  # fmt: skip
    assert finding["evidence"].startswith("all 3 steps used old gradients as well")
    assert _run(gradlint, "train.py", "--no-fix", "--steps", "4", "--seed", "7")[1]["findings"] == [finding]
    assert _run(gradlint, "train.py", "--no-fix", "--steps", "4", "--seed", "8")[1]["findings"] != [finding]


def test_unsafe_fixes(gradlint: Command) -> None:
    text = """
    import torch

    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(40):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8)).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)
        optimizer.step()
    """
    write("train.py", text)
    (finding,) = _run(gradlint, "train.py", "--steps", "3")[1]["findings"]
    assert (finding["code"], finding["verdict"], finding["after_fix"]) == ("GL104", "confirmed", "no-fix")
    assert finding["after"] == "only an unsafe fix is offered: --unsafe-fixes"
    (finding,) = _run(gradlint, "train.py", "--steps", "3", "--unsafe-fixes")[1]["findings"]
    assert (finding["code"], finding["after_fix"]) == ("GL104", "cured")


def test_a_script_that_raises(gradlint: Command) -> None:
    """Its own traceback, all of it and nothing else; what the run showed up to there counts."""
    text = MISTAKE.replace("40", "4") + '\n\ndef save():\n    raise ValueError("no space [left]")\n\n\nsave()\n'
    write("train.py", text)
    code, data, said = _run(gradlint, "train.py")
    assert code == 3
    script = os.path.abspath("train.py")
    # (newer Pythons point at the part of the line)
    told = "".join(line for line in data["failure"].splitlines(keepends=True) if line.strip(" ~^\n"))
    assert told == (
        "Traceback (most recent call last):\n"
        f'  File "{script}", line 16, in <module>\n    save()\n'
        f'  File "{script}", line 13, in save\n    raise ValueError("no space [left]")\n'
        "ValueError: no space [left]\n"
    )
    assert "gradlint: the script failed; this is its own output:\n  | Traceback" in said
    assert "  | ValueError: no space [left]\n" in said
    (finding,) = data["findings"]
    # the fixed copy fails just the same, which is not the fault of the fix
    assert (finding["code"], finding["verdict"], finding["after_fix"]) == ("GL401", "confirmed", "cured")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys, torch\nsys.exit('nothing to do')\n", "nothing to do"),
        ("import sys, torch\nsys.exit(0)\n", "the script ended without an optimizer step"),
        ("print('no GPU here')\n", "without an optimizer step; the last that it printed: no GPU here"),
        ("import torch\nfor x in\n", "SyntaxError: invalid syntax"),
        (
            "import argparse as a\np = a.ArgumentParser()\np.add_argument('-d', required=True)\np.parse_args()\n",
            "train.py: error: the following arguments are required: -d",
        ),
        ("import no_such_package\n", "ModuleNotFoundError: No module named 'no_such_package'"),
    ],
    ids=["exit-with-words", "exit", "no-torch", "syntax", "argparse", "import"],
)
def test_a_script_that_never_trains(gradlint: Command, text: str, said: str) -> None:
    write("train.py", text)
    outcome, data, _ = _run(gradlint, "train.py")
    assert outcome == 3
    assert (data["steps"], data["findings"], data["runtime_only"]) == (0, [], [])
    told = data["failure"] or "\n".join(data["notes"])
    assert said in told
    assert "gradlint" not in told


def test_a_script_that_does_not_come_to_a_step(gradlint: Command) -> None:
    write("train.py", "import time\nwhile True:\n    time.sleep(0.1)\n")
    code, data, _ = _run(gradlint, "train.py", "--timeout", "5")
    assert code == 3
    assert data["failure"].strip() == "the time limit of 5 s was reached before the first optimizer step"


def test_a_time_limit_behind_the_first_steps(
    gradlint: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It trains no more, and does not end: what the steps showed counts."""
    trained = tmp_path / "trained"
    monkeypatch.setattr("gradlint.runtime.launch.run.time", Clock(trained))
    text = MISTAKE.replace("range(40)", "range(3)")
    write("train.py", f"import time\n{text}\nopen({str(trained)!r}, 'w').close()\ntime.sleep(600)\n")
    code, data, _ = _run(gradlint, "train.py", "--timeout", "900", "--no-fix")
    assert code == 1
    assert data["steps"] == 3
    assert data["notes"] == ["the time limit of 900 s was reached after 3 optimizer steps"]


def test_comments_and_configuration_are_respected(gradlint: Command, project: Path) -> None:
    """Of four mistakes one is silenced by a comment, one only a run shows and a comment silences it, one is switched
    off by the configuration, and the last is left."""
    write(
        "train.py",
        """
        import torch

        model = torch.nn.Linear(8, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        seen = []
        for _ in range(40):
            scheduler.step()
            loss = model(torch.randn(4, 8)).pow(2).mean()
            scaler.scale(loss).backward()  # gradlint: ignore[GL401]
            seen.append([p.grad.norm() for p in model.parameters()])  # gradlint: ignore[GL211]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        """,
    )
    plain = _run(gradlint, "train.py", "--no-fix", "--isolated")[1]
    assert {f["code"] for f in plain["findings"]} == {"GL201", "GL406"}
    write("gradlint.toml", 'ignore = ["GL406"]\n')
    code, data, _ = _run(gradlint, "train.py", "--no-fix")
    assert code == 1
    assert [(f["code"], f["verdict"]) for f in data["findings"]] == [("GL201", "confirmed")]
    assert data["runtime_only"] == plain["runtime_only"] == []
    Path("train.py").write_text(Path("train.py").read_text().replace("  # gradlint: ignore[GL211]", ""))
    shown = _run(gradlint, "train.py", "--no-fix")[1]
    assert "GL211" in {f["code"] for f in (*shown["findings"], *shown["runtime_only"])}


def test_a_link_to_the_script(gradlint: Command, project: Path) -> None:
    (project / "real").mkdir()
    write("real/train.py", MISTAKE)
    try:
        (project / "link").symlink_to("real", target_is_directory=True)
    except OSError:
        pytest.skip("no links here")
    code, data, _ = _run(gradlint, "link/../link/train.py", "--steps", "3")
    (finding,) = data["findings"]
    assert (code, finding["verdict"], finding["after_fix"]) == (1, "confirmed", "cured")
    assert finding["filename"] == str(project / "link" / "train.py")


def test_verbose_shows_what_the_script_prints_on_stderr(gradlint: Command) -> None:
    write("train.py", "print('the script speaks')\n" + MISTAKE)
    code, _, said = _run(gradlint, "train.py", "--verbose", "--steps", "2")
    assert code == 1
    assert said.count("  | the script speaks\n") == 2, "once in each run"
    assert "gradlint: running the fixed copy with the same seed\n" in said


def test_a_module_is_run_as_python_does(gradlint: Command) -> None:
    Path("package").mkdir()
    write("package/__init__.py", "")
    write("package/parts.py", "import sys\n\nwanted = sys.argv[1:]\n")
    write("package/train.py", "from .parts import wanted\nassert wanted == ['a', '--lr', '1'], wanted\n" + MISTAKE)
    code, data, _ = _run(gradlint, "-m", "package.train", "--steps", "3", "a", "--", "--lr", "1")
    assert code == 1
    assert (data["findings"][0]["verdict"], data["findings"][0]["after_fix"]) == ("confirmed", "cured")


def test_a_notebook_is_run_cell_by_cell(gradlint: Command, project: Path) -> None:
    lines = MISTAKE.splitlines(keepends=True)
    loop = next(i for i, line in enumerate(lines) if line.startswith("for "))
    cells = [["%matplotlib inline\n", "!pip install torch\n"], lines[:loop], ["display(model)\n"], lines[loop:]]
    written = [{"cell_type": "markdown", "metadata": {}, "source": ["# Training\n"]}]
    written += [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell} for cell in cells]
    notebook = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": written})
    write("train.ipynb", notebook)
    code, data, said = _run(gradlint, "train.ipynb", "--steps", "3")
    assert code == 1, said
    (finding,) = data["findings"]
    assert (finding["verdict"], finding["after_fix"], finding["cell"]) == ("confirmed", "cured", 5)
    assert finding["line"] <= len(lines[loop:])
    assert (project / "train.ipynb").read_text(encoding="utf-8") == notebook
    assert f"cell 5, line {finding['line']}" in " ".join(gradlint("verify", "train.ipynb", "--no-fix").out.split())


def test_a_report(gradlint: Command, project: Path) -> None:
    write("train.py", MISTAKE)
    outcome = gradlint("verify", "train.py", "--device", "cpu", "--steps", "3", "--html", "page.html")
    assert outcome.code == 1
    assert "gradlint: the report is in page.html" in outcome.err
    page = (project / "page.html").read_text(encoding="utf-8")
    assert "GL401" in page
    assert sorted(path.name for path in project.iterdir()) == ["page.html", "train.py"]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_interrupted(project: Path) -> None:
    """Ctrl-C: the command says so, and of the script and what it started nothing is left."""
    write(
        "train.py",
        """
        import os, subprocess, sys, time

        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open("pids.part", "w") as file:
            file.write(f"{os.getpid()} {child.pid}")
        os.rename("pids.part", "pids.txt")
        while True:
            time.sleep(0.1)
        """,
    )
    command = [sys.executable, "-m", "gradlint", "verify", "train.py", "--device", "cpu", "--output-format", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + PATIENCE
        while not (project / "pids.txt").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        pids = [int(word) for word in (project / "pids.txt").read_text().split()]
        assert all(map(is_alive, pids))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out == ""
    assert err.endswith("gradlint: interrupted\n")
    assert "Traceback" not in err
    assert not any(map(is_alive, pids))


def test_stdout_has_nothing_but_json(project: Path) -> None:
    """As a user runs it, from the very beginning: what the script and its children print does not get in between."""
    write("train.py", "import os\nos.system('echo noise')\nprint('more noise')\n" + MISTAKE)
    command = [sys.executable, "-m", "gradlint", "verify", "train.py", "--device", "cpu", "--output-format", "json"]
    done = subprocess.run(
        [*command, "--no-fix", "--steps", "2"], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["steps"] == 2
    assert "noise" not in done.stdout + done.stderr


def test_the_copy_is_fixed_as_far_as_all_callers_let_it_be(gradlint: Command, project: Path) -> None:
    write("engine.py", ASKED)
    write(
        "train.py",
        """
        import torch
        import torch.nn.functional as F
        from engine import train

        model = torch.nn.Linear(8, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        loader = [(torch.randn(4, 8), torch.randint(0, 4, (4,))) for _ in range(32)]
        train(model, optimizer, loader, F.cross_entropy, 8)
        """,
    )
    for other, options, after in (("", [], "cured"), (DIVIDES, [], "no-fix"), (DIVIDES, ["--unsafe-fixes"], "cured")):
        write("right.py", other)
        _, data, _ = _run(gradlint, "train.py", *options)
        assert [(f["code"], f["verdict"], f["after_fix"]) for f in data["findings"]] == [("GL301", "confirmed", after)]
