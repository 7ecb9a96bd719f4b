"""The recorder of a whole process: files, forks, ends and failures."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest

from gradlint.runtime.launch.orders import Orders
from gradlint.runtime.lines import load
from gradlint.runtime.recording import Ended, Raised, Recording, Stepped
from tests.patience import PATIENCE
from tests.runtime.zygote import python

BOOT = """
import runpy, sys
from gradlint.runtime.launch.orders import read
from gradlint.runtime.recorder.process import finish, start
from gradlint.runtime.recorder.session import Enough
orders = read(sys.argv[1])
assert start(orders) is start(orders)
sys.argv = [orders.script]
try:
    runpy.run_path(orders.script, run_name="__main__")
    finish("finished")
except Enough:
    finish("enough")
except SystemExit as left:
    finish("exit", left.code or 0)
except BaseException as error:
    finish("raised", 1, error)
"""

LOOP = """
import os, sys, time
import torch
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(steps, wait=0.0):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
"""


def record(folder: Path, code: str, steps: int = 3) -> list[Recording]:
    script = folder / "script.py"
    script.write_text(LOOP + textwrap.dedent(code), encoding="utf-8")
    boot = folder / "boot.py"
    boot.write_text(BOOT, encoding="utf-8")
    (folder / "events").mkdir()
    orders = Orders(str(folder / "events"), str(script), steps=steps).write()
    subprocess.run(python(str(boot), str(orders)), check=True, timeout=PATIENCE)
    return load(folder / "events")


def how(recording: Recording) -> tuple[str, int] | None:
    return None if recording.end is None else (recording.end.how, recording.end.code)


@pytest.mark.slow
def test_a_run_that_is_stopped(tmp_path: Path) -> None:
    [recording] = record(tmp_path, "train(100)")
    assert how(recording) == ("enough", 0)
    assert recording.steps == 3
    assert [s.number for s in recording.of(Stepped)] == [1, 2, 3]
    assert (recording.rank, recording.world, recording.device, recording.notes) == (0, 1, "cpu", [])
    assert recording.torch
    assert [h.index for h in recording.happenings] == list(range(len(recording.happenings)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "expected"),
    [("train(2)", ("finished", 0)), ("train(1); sys.exit(4)", ("exit", 4)), ("train(2); sys.exit()", ("exit", 0))],
)
def test_ends(tmp_path: Path, code: str, expected: tuple[str, int]) -> None:
    [recording] = record(tmp_path, code)
    assert how(recording) == expected


@pytest.mark.slow
def test_the_places_of_an_exception_are_the_scripts_own(tmp_path: Path) -> None:
    [recording] = record(tmp_path, "def broken():\n    optimizer.step(lambda: 1 / 0)\nbroken()")
    assert how(recording) == ("raised", 1)
    *_, raised = recording.of(Raised)
    assert (raised.type, raised.during) == ("ZeroDivisionError", "")
    assert [place.function for place in raised.places[:3]] == ["<lambda>", "broken", "<module>"]


@pytest.mark.slow
def test_a_script_that_will_not_stop_is_ended(tmp_path: Path) -> None:
    code = """
    while True:
        try:
            train(1)
        except BaseException:
            pass
    """
    [recording] = record(tmp_path, code)
    assert how(recording) == ("enough", 0)
    assert recording.steps == 3


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork here")
def test_a_forked_child_has_a_file_of_its_own(tmp_path: Path) -> None:
    code = """
    import torch.multiprocessing as mp
    torch.set_num_threads(1)
    train(1)
    child = mp.get_context("fork").Process(target=train, args=(100,))
    idle = mp.get_context("fork").Process(target=time.sleep, args=(0,))
    child.start(); idle.start(); child.join(); idle.join()
    sys.exit(child.exitcode)
    """
    recordings = record(tmp_path, code)
    assert sorted((r.steps, how(r)) for r in recordings) == [(1, ("exit", 0)), (3, ("enough", 0))]
    assert len({r.pid for r in recordings}) == 2


@pytest.mark.slow
def test_workers_of_a_loader_leave_no_files(tmp_path: Path) -> None:
    code = """
    data = torch.utils.data.TensorDataset(torch.randn(8, 3))
    for batch in torch.utils.data.DataLoader(data, batch_size=4, num_workers=2):
        train(1)
    """
    [recording] = record(tmp_path, code)
    assert recording.steps == 2
    assert [end.how for end in recording.of(Ended)] == ["finished"]


@pytest.mark.slow
def test_the_seed_is_set(tmp_path: Path) -> None:
    code = "import random; open('seen', 'w').write(f'{random.random()} {float(torch.rand(1))}')"
    seen = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        record(tmp_path / name, code.replace("'seen'", repr(str(tmp_path / name / "seen"))))
        seen.append((tmp_path / name / "seen").read_text(encoding="utf-8"))
    assert seen[0] == seen[1]
