"""The loops and examples of the guides: gradlint finds nothing in them, and they run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from docs.pages import anchor
from gradlint.config import Layer, Settings
from gradlint.engine import lint
from tests.patience import PATIENCE
from tests.runtime.zygote import python, zygote

DOCS = Path(__file__).resolve().parents[2] / "docs"
EVERYTHING = Settings(layers=(Layer(select=("ALL",)),))
#: for what a page hands to two processes
RANKS = {"ddp": 2, "fsdp": 2}
#: a fork that takes DDP apart may wait for a thread that was not forked
LEAVE = "\nimport sys\n\nsys.stdout.flush()\nos._exit(0)\n"


def _blocks(name: str) -> list[tuple[str, str]]:
    """The Python of a page, each block with the heading that it stands under."""
    parts = re.split(r"^## (.*)$", (DOCS / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [
        (anchor(heading), block)
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
        for block in re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    ]


LOOPS = dict(_blocks("right-loops.md"))
each_loop = pytest.mark.parametrize("name", LOOPS)


def test_there_is_a_loop_of_every_kind() -> None:
    kinds = {"plain", "mixed-precision", "accumulation", "ddp", "fsdp", "gan", "reinforcement-learning"}
    assert {*LOOPS} == kinds
    assert {*RANKS} <= kinds


@each_loop
def test_no_rule_finds_anything(name: str) -> None:
    assert [(f.code, f.message) for f in lint(LOOPS[name].encode(), f"{name}.py", EVERYTHING).findings] == []


@each_loop
def test_the_loop_is_followed(name: str) -> None:
    """Nothing is found because it is right, and not because it is not understood."""
    lines = LOOPS[name].splitlines(keepends=True)
    (first, *_) = [number for number, line in enumerate(lines) if ".zero_grad()" in line]
    broken = "".join(line for number, line in enumerate(lines) if number != first)
    assert "GL401" in [f.code for f in lint(broken.encode(), f"{name}.py", EVERYTHING).findings]


@pytest.mark.slow
@each_loop
def test_the_loop_trains(name: str, tmp_path: Path) -> None:
    """On the CPU, distributed ones with two ranks; the number that each prints moves where it should."""
    script = tmp_path / f"{name.replace('-', '_')}.py"
    script.write_text(LOOPS[name] + (LEAVE if name in RANKS else ""), encoding="utf-8")
    if name in RANKS and not hasattr(os, "fork"):
        pytest.skip("ranks are forked")
    command = zygote().ranks(RANKS[name], str(script)) if name in RANKS else python(str(script))
    done = _run(command, tmp_path)
    told = re.search(r"(\w+) (\d+\.\d+) -> (\d+\.\d+)", done)
    assert told is not None, done
    before, after = float(told[2]), float(told[3])
    assert after > before if told[1] == "return" else after < before


def _run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_large_batch_and_its_parts_agree(tmp_path: Path) -> None:
    ((_, block),) = _blocks("guides/accumulation.md")
    (tmp_path / "agree.py").write_text(block, encoding="utf-8")
    difference = float(_run(python(str(tmp_path / "agree.py")), tmp_path).rpartition(" ")[2])
    assert difference < 1e-12


@pytest.mark.slow
def test_the_guide_to_nan_names_the_operation(tmp_path: Path) -> None:
    block = _blocks("guides/nan.md")[0][1]
    (tmp_path / "nan.py").write_text(block, encoding="utf-8")
    told = _run([*python(str(tmp_path / "nan.py"))], tmp_path)
    assert "sqrt" in told.lower(), told
