"""The cache: when it is believed, when it is not, and that nothing in it can do harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gradlint.config.loader import ConfigTree, Overrides
from gradlint.config.selectors import Layer
from gradlint.model import (
    Edit,
    FileResult,
    Finding,
    Fix,
    FixSafety,
    Grade,
    Position,
    Related,
    RuleCrash,
    Severity,
    Span,
)
from gradlint.runner import run as run_module
from gradlint.runner.cache import FOLDER, Cache
from gradlint.runner.codec import decode, encode
from gradlint.runner.files import FileFinder
from gradlint.runner.run import Run, run
from tests.patience import PATIENCE
from tests.sources import BROKEN, CLEAN, CLIP_AFTER_STEP, NO_GRADIENTS


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _age(*paths: Path, seconds: int = 60) -> None:
    """Files as they are in life: written some time before they are linted."""
    then = time.time() - seconds
    for path in paths:
        os.utime(path, (then, then))


def _lint(root: Path, *paths: str, layer: Layer | None = None) -> Run:
    tree = ConfigTree(Overrides(layer or Layer()))
    return run(FileFinder(tree).find(paths or (".",)), cache=Cache(str(root)), jobs=1)


def _codes(outcome: Run) -> list[str]:
    return [finding.code for result in outcome.results for finding in result.findings]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(CLIP_AFTER_STEP)
    (tmp_path / "plain.py").write_text(NO_GRADIENTS)
    _age(tmp_path / "train.py", tmp_path / "plain.py")
    return tmp_path


def test_the_second_run_reads_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _lint(project)

    def never(path: str) -> bytes:
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr(run_module, "read_bytes", never)
    second = _lint(project)
    assert second.results == first.results
    assert (second.cached, second.parsed) == (2, 0)


def test_the_folder_ignores_itself(project: Path) -> None:
    _lint(project)
    assert "*" in (project / FOLDER / ".gitignore").read_text().splitlines()
    assert (project / FOLDER / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_a_change_is_seen(project: Path) -> None:
    _lint(project)
    (project / "train.py").write_text(CLEAN)
    assert _codes(_lint(project)) == []


def test_a_change_of_the_same_size_within_the_same_tick_is_seen(project: Path) -> None:
    path = project / "train.py"
    path.write_text(CLIP_AFTER_STEP)
    status = path.stat()
    _lint(project)
    path.write_text("#" * len(CLIP_AFTER_STEP))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert _codes(_lint(project)) == []


def test_a_touched_file_is_known_by_its_content(project: Path) -> None:
    _lint(project)
    _age(project / "train.py", seconds=10)
    outcome = _lint(project)
    assert (outcome.cached, outcome.parsed, _codes(outcome)) == (2, 0, ["GL101"])


def test_other_settings_are_other_results(project: Path) -> None:
    assert _codes(_lint(project)) == ["GL101"]
    assert _codes(_lint(project, layer=Layer(ignore=("GL101",)))) == []
    assert _codes(_lint(project)) == ["GL101"]


def test_a_file_that_was_only_scanned_is_parsed_when_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "broken.py").write_text(BROKEN)
    _age(project / "broken.py")
    monkeypatch.setattr(run_module, "SYNTAX_CHECKED_FILES", 0)
    assert _codes(_lint(project)) == ["GL101"]
    assert _codes(_lint(project, "broken.py")) == ["GL900"]
    assert _codes(_lint(project)) == ["GL900", "GL101"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"stamp": 1}', b"[" * 100_000,
        b'{"stamp": "STAMP", "entries": []}',
        b'{"stamp": "STAMP", "entries": {"train.py": 1, "plain.py": [1, 2]}}',
        b'{"stamp": "STAMP", "entries": {"train.py": [MTIME, SIZE, "FINGERPRINT", null, true, [[["GL101"]], 0, []]]}}',
    ],
)  # fmt: skip
def test_a_corrupted_index_is_recomputed(project: Path, garbage: bytes) -> None:
    _lint(project)
    (index,) = (project / FOLDER).glob("*.json")
    good = json.loads(index.read_text())
    mtime, size, fingerprint, *_ = good["entries"]["train.py"]
    for name, value in [("STAMP", good["stamp"]), ("MTIME", mtime), ("SIZE", size), ("FINGERPRINT", fingerprint)]:
        garbage = garbage.replace(name.encode(), str(value).encode())
    index.write_bytes(garbage)
    assert _codes(_lint(project)) == ["GL101"]
    assert json.loads(index.read_text())["entries"].keys() == {"train.py", "plain.py"}
    assert _lint(project).cached == 2


def test_crashes_are_not_kept(project: Path) -> None:
    cache = Cache(str(project))
    (file,) = FileFinder(ConfigTree()).find(["train.py"])
    cache.store(file, FileResult("train.py", crashes=(RuleCrash("engine", "oops", ""),)), "digest", parsed=True)
    cache.save()
    assert Cache(str(project)).unchanged(file, parsed=True) is None


def test_two_runs_keep_each_others_results(project: Path) -> None:
    one, other = Cache(str(project)), Cache(str(project))
    first, second = sorted(FileFinder(ConfigTree()).find(["."]))
    one.store(first, FileResult(first.shown), None, parsed=True)
    other.store(second, FileResult(second.shown), None, parsed=True)
    one.save()
    other.save()
    merged = Cache(str(project))
    assert merged.unchanged(first, parsed=True)
    assert merged.unchanged(second, parsed=True)


@pytest.mark.slow
def test_parallel_runs_give_the_same_results(project: Path) -> None:
    for number in range(20):
        (project / f"train_{number}.py").write_text(CLIP_AFTER_STEP)
    command = [sys.executable, "-m", "gradlint", "check", "--output-format", "concise"]
    running = [subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = {process.communicate(timeout=PATIENCE)[0] for process in running}
    assert len(outputs) == 1
    assert {process.returncode for process in running} == {1}
    (index,) = (project / FOLDER).glob("*.json")
    assert len(json.loads(index.read_text())["entries"]) == 22
    assert not list((project / FOLDER).glob("*.tmp"))


def test_deleted_files_are_forgotten_in_time(project: Path) -> None:
    many = [project / f"m_{number}.py" for number in range(150)]
    for path in many:
        path.write_text(NO_GRADIENTS)
    old = [project / f"old_{number}.py" for number in range(200)]
    for path in old:
        path.write_text(NO_GRADIENTS)
    _lint(project)
    for path in old:
        path.unlink()
    for path in many:
        path.write_text(NO_GRADIENTS + "\n")
    _lint(project)
    (index,) = (project / FOLDER).glob("*.json")
    assert len(json.loads(index.read_text())["entries"]) == 152


def test_a_folder_that_cannot_be_written_is_no_trouble(project: Path) -> None:
    (project / FOLDER).write_text("a file where the folder should be")
    assert _codes(_lint(project)) == ["GL101"]


def test_results_survive_the_round_trip() -> None:
    span = Span(Position(1, 2), Position(3, 4))
    finding = Finding(
        "GL101", "clip-after-step", Severity.ERROR, "message", span,
        (Related(span, "here"),), Fix(FixSafety.SAFE, "move it", (Edit(span, "x\n"),)),
    )  # fmt: skip
    guessed = replace(finding, grade=Grade.GUESSED)
    result = FileResult("train.py", (finding, guessed), suppressed=2, notes=("a note",), exhausted=("`f` …",))
    assert decode(json.loads(json.dumps(encode(result))), "train.py") == result
    assert encode(FileResult("train.py")) is None
    assert encode(FileResult("train.py", exhausted=("`f` …",))) is not None
    assert decode(None, "other.py") == FileResult("other.py")
