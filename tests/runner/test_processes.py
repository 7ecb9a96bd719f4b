"""Processes: same results, and a file that kills its process costs only itself."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from gradlint.config.load import ConfigTree
from gradlint.config.settings import Settings
from gradlint.runner import processes
from gradlint.runner import run as run_module
from gradlint.runner.files import FileFinder, SourceFile, Stamp, read_bytes
from gradlint.runner.run import Asked, Candidate, Outcome, Task, run
from tests.patience import PATIENCE
from tests.sources import CLIP_AFTER_STEP


class Deadly(Task):
    """Work on one file of which ends the process."""

    def work(self, asked: Asked | Candidate) -> Outcome:
        if b"DEADLY" in Path(asked.file.path).read_bytes():
            os._exit(9)
        return super().work(asked)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[SourceFile]:
    monkeypatch.chdir(tmp_path)
    for number in range(30):
        (tmp_path / f"train_{number:02}.py").write_text(CLIP_AFTER_STEP)
    return list(FileFinder(ConfigTree()).find(["."]))


def test_many_files_go_to_processes_and_come_back_in_order(files: list[SourceFile]) -> None:
    ticks: list[tuple[int, int]] = []
    outcome = run(files, cache=None, jobs=2, tick=lambda done, total: ticks.append((done, total)))
    assert [result.path for result in outcome.results] == sorted(file.shown for file in files)
    assert all([finding.code for finding in result.findings] == ["GL101"] for result in outcome.results)
    assert ticks[0] == (0, 30)
    assert ticks[-1] == (30, 30)


def test_few_files_start_no_process(files: list[SourceFile], monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a pool was started")

    monkeypatch.setattr(processes, "share_out", never)
    assert len(run(files[:5], cache=None, jobs=8).results) == 5


@pytest.mark.slow
def test_a_file_that_kills_its_process(
    files: list[SourceFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train_07.py").write_text("# DEADLY\n" + CLIP_AFTER_STEP)
    monkeypatch.setattr(run_module, "Task", Deadly)
    outcome = run(files, cache=None, jobs=2)
    crashed = [result for result in outcome.results if result.crashes]
    assert [result.path for result in crashed] == ["train_07.py"]
    assert "died" in crashed[0].crashes[0].error
    assert sum(len(result.findings) for result in outcome.results) == 29


@pytest.mark.slow
def test_once_processes_work_files_are_read_there(
    files: list[SourceFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few are looked at here, until it is clear that there is enough to do; the others are handed on as they are."""
    for number in range(200):
        (tmp_path / f"plain_{number:03}.py").write_text("x = 1\n")
    read: list[str] = []

    def noted(path: str) -> bytes:
        read.append(path)
        return read_bytes(path)

    monkeypatch.setattr(run_module, "read_bytes", noted)
    outcome = run(FileFinder(ConfigTree()).find(["."]), cache=None, jobs=2)
    assert (outcome.checked, len(outcome.results), outcome.parsed) == (230, 230, 30)
    assert len(read) < 30
    assert run(FileFinder(ConfigTree()).find(["."]), cache=None, jobs=1).results == outcome.results


def test_batches_hold_files_of_one_folder_and_not_too_many(tmp_path: Path) -> None:
    asked = []
    for number in range(60):
        file = SourceFile(
            "", str(tmp_path / f"folder_{number % 3}" / f"{number}.py"), Stamp(0, 0, 30_000), Settings(), False
        )
        asked.append(Asked(file, checked=False))
    batches = list(run_module._batches(asked))
    assert sorted(one for batch in batches for one in batch) == sorted(asked)
    assert all(len({os.path.dirname(one.file.path) for one in batch}) == 1 for batch in batches)
    assert max(sum(one.file.stamp.size for one in batch) for batch in batches) < 600_000
    assert len(batches) > 3


#: each says its line in one piece, as two at once may be asked
_WAITING = """
import os
import time
from gradlint.runner.processes import share_out

def work(item):
    os.write(1, b"%d\\n" % item)
    time.sleep(1e6)

list(share_out(work, [[1], [2]], 2, lambda item, why: None))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the work would have to be imported")
def test_processes_end_when_their_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", _WAITING], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout as said:
        assert {said.readline(), said.readline()} == {b"1\n", b"2\n"}
        parent.kill()
        parent.wait()
        # nobody holds the other end of the pipe any more
        assert select.select([said], [], [], PATIENCE)[0]
        assert said.read() == b""
