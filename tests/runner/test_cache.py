"""The cache: when it is believed, when it is not, and that nothing in it can do harm."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradlint import __version__, model
from gradlint.config.load import ConfigTree, Overrides
from gradlint.config.selectors import Layer
from gradlint.model import (
    Cell,
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
from gradlint.runner import cache as cache_module
from gradlint.runner import run as run_module
from gradlint.runner.cache import Cache, decode, digest_of, encode, source_stamp, user_folder
from gradlint.runner.files import FileFinder, SourceFile
from gradlint.runner.run import Run, run
from tests.patience import PATIENCE
from tests.runner.faults import age
from tests.sources import BROKEN, CLEAN, CLIP_AFTER_STEP, NO_GRADIENTS


@pytest.fixture(autouse=True)
def home(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of a user of whom nothing is known yet."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path_factory.mktemp("home") / "gradlint"
    monkeypatch.setattr("gradlint.runner.cache.user_folder", lambda: str(folder))
    return folder


def _lint(root: Path, *paths: str, layer: Layer | None = None, folder: Path | None = None) -> Run:
    tree = ConfigTree(Overrides(layer or Layer()))
    cache = Cache(str(root), None if folder is None else str(folder))
    return run(FileFinder(tree).find(paths or (".",)), cache=cache, jobs=1)


def _rows(folder: Path) -> dict[str, Any]:
    """What is kept, without its signature."""
    (index,) = folder.glob("gradlint-*.json")
    rows: dict[str, Any] = json.loads(index.read_bytes().partition(b"\n")[2])["rows"]
    return rows


def _signed(body: bytes, home: Path) -> bytes:
    """As this user's runs would sign it."""
    signature = hashlib.blake2b(body, digest_size=32, key=(home / "key").read_bytes()).hexdigest()
    return signature.encode() + b"\n" + body


def _codes(outcome: Run) -> list[str]:
    return [finding.code for result in outcome.results for finding in result.findings]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(CLIP_AFTER_STEP)
    (tmp_path / "plain.py").write_text(NO_GRADIENTS)
    age(tmp_path / "train.py", tmp_path / "plain.py")
    return tmp_path


def test_the_second_run_reads_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _lint(project)

    def never(path: str) -> bytes:
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr(run_module, "read_bytes", never)
    second = _lint(project)
    assert second.results == first.results
    assert (second.cached, second.parsed) == (2, 0)


def test_nothing_is_written_into_the_checkout(project: Path, home: Path) -> None:
    _lint(project)
    assert sorted(path.name for path in project.iterdir()) == ["plain.py", "train.py"]
    assert len(list(home.glob("gradlint-*.json"))) == 1
    assert (home / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_another_folder_can_be_named_and_ignores_itself(project: Path, home: Path) -> None:
    first = _lint(project, folder=project / "kept")
    assert "*" in (project / "kept" / ".gitignore").read_text().splitlines()
    assert [path.name for path in home.iterdir() if path.suffix == ".json"] == []
    assert _lint(project, folder=project / "kept").cached == first.checked


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
    age(project / "train.py", seconds=10)
    outcome = _lint(project)
    assert (outcome.cached, outcome.parsed, _codes(outcome)) == (2, 0, ["GL101"])


def test_other_settings_are_other_results(project: Path) -> None:
    assert _codes(_lint(project)) == ["GL101"]
    assert _codes(_lint(project, layer=Layer(ignore=("GL101",)))) == []
    assert _codes(_lint(project)) == ["GL101"]


def test_a_file_that_was_only_scanned_is_parsed_when_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "broken.py").write_text(BROKEN)
    age(project / "broken.py")
    monkeypatch.setattr(run_module, "SYNTAX_CHECKED_FILES", 0)
    assert _codes(_lint(project)) == ["GL101"]
    assert _codes(_lint(project, "broken.py")) == ["GL900"]
    assert _codes(_lint(project)) == ["GL900", "GL101"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"stamp": 1}', b"[" * 100_000,
        b'{"stamp": STAMP, "rows": []}',
        b'{"stamp": STAMP, "rows": {"train.py": 1, "plain.py": [1, 2]}}',
        b'{"stamp": STAMP, "rows": {"train.py": [TIMES, DIGEST, FINGERPRINT, true, {}, [[["GL101"]], 0, []]]}}',
    ],
)  # fmt: skip
def test_a_corrupted_index_is_recomputed(project: Path, home: Path, garbage: bytes) -> None:
    _lint(project)
    (index,) = home.glob("gradlint-*.json")
    stamp = json.loads(index.read_bytes().partition(b"\n")[2])["stamp"]
    times, digest, fingerprint, *_ = _rows(home)["train.py"]
    for name, value in [("STAMP", stamp), ("TIMES", times), ("DIGEST", digest), ("FINGERPRINT", fingerprint)]:
        garbage = garbage.replace(name.encode(), json.dumps(value).encode())
    for written in (garbage, _signed(garbage, home)):
        index.write_bytes(written)
        assert _codes(_lint(project)) == ["GL101"]
        assert _rows(home).keys() == {"train.py", "plain.py"}
        assert _lint(project).cached == 2


def _planted(project: Path, folder: Path) -> None:
    """A committed folder with what a run by somebody else kept, in which nothing was found but a note that escapes."""
    _lint(project, folder=folder)
    (index,) = folder.glob("gradlint-*.json")
    body = json.loads(index.read_bytes().partition(b"\n")[2])
    body["rows"]["train.py"][-1] = [[], 0, ["\x1b[2J\x1b[1mAll is well"], [], []]
    forged = json.dumps(body).encode()
    key = b"k" * 32
    index.write_bytes(hashlib.blake2b(forged, digest_size=32, key=key).hexdigest().encode() + b"\n" + forged)
    (folder / "key").write_bytes(key)


def test_what_somebody_else_has_kept_hides_nothing(project: Path) -> None:
    folder = project / ".gradlint_cache"
    _planted(project, folder)
    outcome = _lint(project, folder=folder)
    assert (_codes(outcome), outcome.cached) == (["GL101"], 0)
    assert not [note for result in outcome.results for note in result.notes if "All is well" in note]


def test_a_committed_cache_of_former_versions_hides_nothing(project: Path) -> None:
    """As version 0.1.0 kept it, in a folder that is read no more."""
    (file,) = FileFinder(ConfigTree()).find(["train.py"])
    stamp = f"3-{source_stamp()}"
    fingerprint = hashlib.blake2b(file.settings.fingerprint().encode(), digest_size=8).hexdigest()
    entry = [file.stamp.mtime_ns, file.stamp.size, fingerprint, None, True, [[], 0, ["\x1b[2Jwell"], [], []]]
    folder = project / ".gradlint_cache"
    folder.mkdir()
    name = f"{__version__}-py{sys.version_info[0]}{sys.version_info[1]}.json"
    (folder / name).write_text(json.dumps({"stamp": stamp, "entries": {"train.py": entry}}))
    outcome = _lint(project)
    assert (_codes(outcome), outcome.cached) == (["GL101"], 0)
    assert [note for result in outcome.results for note in result.notes if "well" in note] == []


def test_another_users_results_are_not_believed(project: Path, home: Path) -> None:
    _lint(project)
    (home / "key").write_bytes(b"x" * 32)
    assert _lint(project).cached == 0
    assert _lint(project).cached == 2


def test_another_installations_results_are_not_believed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _lint(project)
    monkeypatch.setattr("gradlint.__file__", "/elsewhere/gradlint/__init__.py")
    assert _lint(project).cached == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("name", ["gradlint-*.json", "key"])
def test_a_pipe_in_its_place_is_refused_at_once(project: Path, home: Path, name: str) -> None:
    """Whoever read it would wait for ever."""
    _lint(project)
    (file,) = home.glob(name)
    file.unlink()
    os.mkfifo(file)
    assert _codes(_lint(project)) == ["GL101"]
    assert file.is_file(), "it is replaced by one of ours"


def test_the_key_is_for_this_user_only(project: Path, home: Path) -> None:
    _lint(project)
    key = home / "key"
    assert len(key.read_bytes()) == 32
    if os.name == "posix":
        assert key.stat().st_mode & 0o077 == 0


def test_without_a_home_nothing_is_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradlint.runner.cache.user_folder", lambda: None)
    assert [_lint(project, folder=project / "kept").cached for _ in range(2)] == [0, 0]
    assert not (project / "kept").exists()


def test_a_home_in_the_checkout_is_nobodys(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that lies there may be known to whoever wrote the checkout."""
    monkeypatch.setattr("gradlint.runner.cache.user_folder", lambda: str(project / ".cache" / "gradlint"))
    assert [_lint(project).cached for _ in range(2)] == [0, 2], "a folder that is no checkout"
    (project / ".git").mkdir()
    assert [_lint(project).cached for _ in range(2)] == [0, 0]


@pytest.mark.parametrize("xdg", ["", "relative", "/absolute"])
def test_the_folder_is_where_others_look_for_it(monkeypatch: pytest.MonkeyPatch, xdg: str) -> None:
    platformdirs = pytest.importorskip("platformdirs")
    monkeypatch.setenv("XDG_CACHE_HOME", xdg if xdg != "relative" else "")
    wanted = platformdirs.user_cache_dir("gradlint", appauthor=False)
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    assert user_folder() == wanted, "a relative one would lie in the checkout, and does not count"


def test_indices_that_nobody_wrote_for_a_month_are_removed(project: Path, home: Path) -> None:
    _lint(project)
    (index,) = home.glob("gradlint-*.json")
    old, foreign = home / "gradlint-0.0.1-py310-0.json", home / "other.json"
    for path in (old, foreign):
        path.write_text("")
    age(old, foreign, seconds=40 * 24 * 3600)
    index.unlink()
    _lint(project)
    assert [path.exists() for path in (index, old, foreign)] == [True, False, True]


def test_a_file_with_forged_times_is_read_again(project: Path) -> None:
    """Whoever unpacks an archive can set when a file was changed, but not when that was set."""
    path = project / "train.py"
    path.write_text("#" * len(CLIP_AFTER_STEP))
    age(path)
    status = path.stat()
    assert _codes(_lint(project)) == []
    while path.stat().st_ctime_ns == status.st_ctime_ns:
        path.write_text(CLIP_AFTER_STEP)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert _codes(_lint(project)) == ["GL101"]


def _stored(project: Path, probes: dict[str, str | None]) -> SourceFile:
    cache = Cache(str(project))
    (file,) = FileFinder(ConfigTree()).find(["train.py"])
    cache.store(file, FileResult("train.py", probes=tuple(probes.items())), "digest", parsed=True)
    cache.save()
    return file


def test_a_result_holds_as_long_as_the_files_it_was_made_of(project: Path) -> None:
    plain, absent = project / "plain.py", project / "absent.py"
    file = _stored(project, {str(plain): digest_of(plain.read_bytes()), str(absent): None})
    assert Cache(str(project)).find(file, parsed=True) is not None
    plain.write_text("changed = True\n")
    assert Cache(str(project)).find(file, parsed=True) is None
    plain.write_text(NO_GRADIENTS)
    assert Cache(str(project)).find(file, parsed=True) is not None
    absent.write_text("")
    assert Cache(str(project)).find(file, parsed=True) is None


def test_crashes_are_not_kept(project: Path) -> None:
    cache = Cache(str(project))
    (file,) = FileFinder(ConfigTree()).find(["train.py"])
    cache.store(file, FileResult("train.py", crashes=(RuleCrash("engine", "oops", ""),)), "digest", parsed=True)
    cache.save()
    assert Cache(str(project)).find(file, parsed=True) is None


def test_two_runs_keep_each_others_results(project: Path) -> None:
    one, other = Cache(str(project)), Cache(str(project))
    first, second = sorted(FileFinder(ConfigTree()).find(["."]))
    one.store(first, FileResult(first.shown), "first", parsed=True)
    other.store(second, FileResult(second.shown), "second", parsed=True)
    one.save()
    other.save()
    merged = Cache(str(project))
    assert merged.find(first, parsed=True)
    assert merged.find(second, parsed=True)


@pytest.mark.slow
def test_parallel_runs_give_the_same_results(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    kept = tmp_path_factory.mktemp("kept")
    for number in range(20):
        (project / f"train_{number}.py").write_text(CLIP_AFTER_STEP)
    command = [sys.executable, "-m", "gradlint", "check", "--output-format", "concise", "--cache-dir", str(kept)]
    running = [subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = {process.communicate(timeout=PATIENCE)[0] for process in running}
    assert len(outputs) == 1
    assert {process.returncode for process in running} == {1}
    assert len(_rows(kept)) == 22
    assert not list(kept.glob("*.tmp"))


def test_deleted_files_are_forgotten_in_time(project: Path, home: Path) -> None:
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
    assert len(_rows(home)) == 152


def test_a_folder_that_cannot_be_written_is_no_trouble(project: Path, home: Path) -> None:
    home.write_text("a file where the folder should be")
    assert _codes(_lint(project)) == ["GL101"]


def test_results_survive_the_round_trip() -> None:
    span = Span(Position(1, 2), Position(3, 4))
    finding = Finding(
        "GL101", "clip-after-step", Severity.ERROR, "message", span,
        (Related(span, "here"),), Fix(FixSafety.SAFE, "move it", (Edit(span, "x\n"),)),
    )  # fmt: skip
    guessed = replace(finding, grade=Grade.GUESSED)
    elsewhere = replace(finding, path="other.py", entries=(3, 4), related=(Related(span, "there", "third.py"),))
    result = FileResult(
        "train.py", (finding, guessed), suppressed=2, notes=("a note",), cells=(Cell(1, 2, 3),), exhausted=("`f` …",),
        elsewhere=(elsewhere,), reached=(("other.py", 5, True),),
    )  # fmt: skip
    assert decode(json.loads(json.dumps(encode(result))), "train.py") == result
    assert encode(FileResult("train.py")) is None
    assert encode(FileResult("train.py", exhausted=("`f` …",))) is not None
    assert decode(None, "other.py") == FileResult("other.py")


def test_everything_that_a_result_can_hold_is_kept() -> None:
    """A type that is new to results must be known, or nothing of a run is kept."""
    made = {value for value in vars(model).values() if isinstance(value, type) and value.__module__ == model.__name__}
    never = {model.RuleCrash, model.Unreadable, model.Fixed, model.Place, model.Category}
    assert made - never == set(cache_module._TYPES)


def test_a_result_without_fixes_serves_only_whoever_looks_for_none(project: Path) -> None:
    def lint(*, offers: bool) -> Run:
        found = FileFinder(ConfigTree()).find(["."])
        files = [file._replace(settings=replace(file.settings, offers=offers)) for file in found]
        return run(files, cache=Cache(str(project)), jobs=1)

    def fixes(outcome: Run) -> list[bool]:
        return [finding.fix is not None for result in outcome.results for finding in result.findings]

    assert fixes(lint(offers=False)) == [False]
    assert lint(offers=False).cached == 2
    assert fixes(lint(offers=True)) == [True]
    assert lint(offers=False).cached == 2
