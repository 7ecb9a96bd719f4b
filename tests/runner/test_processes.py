"""Processes: same results, and a file that kills its process costs only itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradlint.config.load import ConfigTree
from gradlint.model import FileResult
from gradlint.runner import processes
from gradlint.runner.files import FileFinder, SourceFile
from gradlint.runner.run import run
from tests.sources import CLIP_AFTER_STEP

_real = processes.lint_one


def _deadly(source: bytes, file: SourceFile) -> FileResult:
    if b"DEADLY" in source:
        os._exit(9)
    return _real(source, file)


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

    monkeypatch.setattr(processes, "_pool", never)
    assert len(run(files[:5], cache=None, jobs=8).results) == 5


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the patched function reaches the process through fork")
def test_a_file_that_kills_its_process(
    files: list[SourceFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train_07.py").write_text("# DEADLY\n" + CLIP_AFTER_STEP)
    monkeypatch.setattr(processes, "lint_one", _deadly)
    outcome = run(files, cache=None, jobs=2)
    crashed = [result for result in outcome.results if result.crashes]
    assert [result.path for result in crashed] == ["train_07.py"]
    assert "died" in crashed[0].crashes[0].error
    assert sum(len(result.findings) for result in outcome.results) == 29
