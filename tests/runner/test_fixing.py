"""Runs that fix: what is written, what the cache may say, and files with several names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gradlint.config import Settings
from gradlint.config.load import ConfigTree
from gradlint.model import Fixed
from gradlint.runner import run as run_module
from gradlint.runner import write
from gradlint.runner.cache import Cache
from gradlint.runner.files import FileFinder
from gradlint.runner.run import Run, run
from gradlint.runner.write import FixPlan
from tests import engine_double
from tests.engine_double import ALL_SAFE, NOTHING, SOURCE, double
from tests.runner.faults import age, inject
from tests.runner.test_processes import Deadly

__all__ = ["double"]

FIX, UNSAFE, DIFF = FixPlan(), FixPlan(unsafe=True), FixPlan(write=False)
FIXED = SOURCE.replace(b"SAFE", b"MENDED")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def train(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(SOURCE)
    age(path)
    return path


def _run(*paths: str, fix: FixPlan | None = None, cached: bool = False, jobs: int = 1) -> Run:
    cache = Cache(os.getcwd(), os.environ["GRADLINT_CACHE_DIR"]) if cached else None
    return run(FileFinder(ConfigTree()).find(paths or (".",)), cache=cache, jobs=jobs, fix=fix)


def _codes(outcome: Run) -> list[str]:
    return [f"{result.path}:{finding.code}" for result in outcome.results for finding in result.findings]


def test_safe_fixes_are_written_and_the_rest_is_left(train: Path) -> None:
    outcome = _run(fix=FIX)
    assert train.read_bytes() == FIXED
    assert _codes(outcome) == ["train.py:GL101", "train.py:GL208"]
    (file,) = outcome.fixed
    assert (file.path, file.before, file.after) == ("train.py", SOURCE, FIXED)
    assert [finding.code for finding in file.mended] == ["GL405"]


def test_unsafe_fixes_when_asked_for(train: Path) -> None:
    assert _codes(_run(fix=UNSAFE)) == ["train.py:GL208"]
    assert train.read_bytes() == FIXED.replace(b"RISKY", b"MENDED")


def test_a_diff_writes_nothing(train: Path) -> None:
    before = train.stat()
    (file,) = _run(fix=DIFF).fixed
    assert (file.before, file.after) == (SOURCE, FIXED)
    assert train.read_bytes() == SOURCE
    assert train.stat().st_mtime_ns == before.st_mtime_ns


def test_a_file_with_nothing_to_fix_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_bytes(b"# gradlint: a double\nz = STUCK\n")

    def never(*_: object) -> None:
        raise AssertionError("a file was written")

    monkeypatch.setattr(write, "replace_file", never)
    outcome = _run(fix=FIX)
    assert (_codes(outcome), outcome.fixed) == (["train.py:GL208"], [])


def test_a_cached_finding_is_fixed_all_the_same(train: Path) -> None:
    assert len(_codes(_run(cached=True))) == 3
    assert _codes(_run(fix=FIX, cached=True)) == ["train.py:GL101", "train.py:GL208"]
    assert train.read_bytes() == FIXED


def test_the_cache_knows_that_there_is_nothing_to_fix(train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train.write_bytes(FIXED)
    age(train)
    first = _run(cached=True)

    def never(path: str) -> bytes:
        raise AssertionError(f"{path} was read")

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "read_bytes", never)
        second = _run(fix=FIX, cached=True)
    assert second.results == first.results
    assert second.cached == 1
    assert _codes(_run(fix=UNSAFE, cached=True)) == ["train.py:GL208"]


@pytest.mark.parametrize("plan", [FIX, UNSAFE])
def test_what_is_remembered_of_a_fixed_file_is_about_its_new_text(train: Path, plan: FixPlan) -> None:
    _run(cached=True)
    fixed = _run(fix=plan, cached=True)
    assert fixed.cached == 0
    again = _run(cached=True)
    assert again.cached == 1
    assert again.results == fixed.results
    train.write_bytes(SOURCE)  # as an editor's undo would
    assert len(_codes(_run(cached=True))) == 3


def test_a_diff_does_not_make_the_cache_believe_in_it(train: Path) -> None:
    _run(fix=DIFF, cached=True)
    assert len(_codes(_run(cached=True))) == 3
    assert len(_run(fix=DIFF, cached=True).fixed) == 1
    assert len(_codes(_run(cached=True))) == 3


def test_a_failed_write_does_not_make_the_cache_believe_in_it(train: Path) -> None:
    train.chmod(0o444)
    outcome = _run(fix=FIX, cached=True)
    assert [(failure.path, failure.reason) for failure in outcome.failures] == [("train.py", "it is read-only")]
    assert outcome.fixed == []
    assert len(_codes(outcome)) == 3, "what is told is about the file as it is"
    assert len(_codes(_run(cached=True))) == 3
    train.chmod(0o644)
    assert len(_codes(_run(fix=FIX, cached=True))) == 2


def test_one_file_that_cannot_be_written_leaves_the_others(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_bytes(ALL_SAFE)
    (tmp_path / "b.py").chmod(0o444)
    outcome = _run(fix=FIX)
    assert [file.path for file in outcome.fixed] == ["a.py", "c.py"]
    assert [failure.path for failure in outcome.failures] == ["b.py"]
    assert (tmp_path / "b.py").read_bytes() == ALL_SAFE
    assert b"SAFE" not in (tmp_path / "a.py").read_bytes() + (tmp_path / "c.py").read_bytes()


def test_a_file_that_is_saved_while_it_is_fixed_is_left_to_its_editor(
    train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(source: bytes, path: str, settings: Settings, *, unsafe: bool, keep: None = None) -> Fixed:
        fixed = engine_double.fix(source, path, settings, unsafe=unsafe)
        train.write_bytes(b"# gradlint: a double\nx = STUCK\n")
        return fixed

    monkeypatch.setattr("gradlint.engine.fix", slow)
    outcome = _run(fix=FIX, cached=True)
    assert "changed by someone else" in outcome.failures[0].reason
    assert train.read_bytes() == b"# gradlint: a double\nx = STUCK\n"
    assert _codes(outcome) == ["train.py:GL208"]
    assert _codes(_run(cached=True)) == ["train.py:GL208"]


def test_a_file_that_vanishes_while_it_is_fixed(train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(source: bytes, path: str, settings: Settings, *, unsafe: bool, keep: None = None) -> Fixed:
        train.unlink()
        return engine_double.fix(source, path, settings, unsafe=unsafe)

    monkeypatch.setattr("gradlint.engine.fix", slow)
    outcome = _run(fix=FIX)
    assert [failure.reason for failure in outcome.failures] == ["it has vanished meanwhile"]
    assert not train.exists()


@pytest.mark.skipif(os.name != "posix", reason="links")
@pytest.mark.parametrize("plan", [FIX, DIFF])
def test_a_file_with_several_names_is_fixed_once(tmp_path: Path, train: Path, plan: FixPlan) -> None:
    (tmp_path / "again.py").symlink_to("train.py")
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "link.py").symlink_to(train)
    _run(cached=True)
    outcome = _run(".", "zoo/link.py", str(train), fix=plan, cached=True)
    assert outcome.failures == []
    assert [file.path for file in outcome.fixed] == ["train.py"]
    assert outcome.checked == 3
    assert _codes(outcome) == [f"{name}:{code}" for name in ("again.py", "train.py", "zoo/link.py")
                               for code in ("GL101", "GL208")]  # fmt: skip
    assert train.read_bytes() == (FIXED if plan.write else SOURCE)
    assert (tmp_path / "again.py").is_symlink()
    assert len(_codes(_run(cached=True))) == (6 if plan.write else 9)


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_names_with_different_settings_each_get_their_fixes(tmp_path: Path) -> None:
    for name, unfixable in (("one", "GL405"), ("two", "GL101")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "gradlint.toml").write_text(f'unfixable = ["{unfixable}"]\n')
    (tmp_path / "one" / "train.py").write_bytes(SOURCE)
    (tmp_path / "two" / "train.py").symlink_to("../one/train.py")
    outcome = _run(fix=UNSAFE)
    assert [file.path for file in outcome.fixed] == ["one/train.py", "two/train.py"]
    assert (tmp_path / "one" / "train.py").read_bytes().count(b"MENDED") == 2
    assert outcome.failures == []


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_hard_links_become_files_of_their_own(tmp_path: Path, train: Path) -> None:
    os.link(train, tmp_path / "other.py")
    outcome = _run(fix=FIX)
    assert outcome.failures == []
    assert [file.path for file in outcome.fixed] == ["other.py", "train.py"]
    assert train.read_bytes() == (tmp_path / "other.py").read_bytes() == FIXED


def test_the_number_of_processes_changes_nothing(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"train_{number:02}.py").write_bytes(SOURCE if number % 4 else NOTHING)
    outcome = _run(fix=FIX, jobs=3, cached=True)
    assert [file.path for file in outcome.fixed] == [f"train_{number:02}.py" for number in range(40) if number % 4]
    assert all((tmp_path / file.path).read_bytes() == FIXED for file in outcome.fixed)
    assert len(_codes(outcome)) == 60
    assert _run(cached=True).results == outcome.results


@pytest.mark.slow
def test_a_file_that_kills_its_process_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (tmp_path / f"train_{number:02}.py").write_bytes(ALL_SAFE)
    (tmp_path / "train_07.py").write_bytes(ALL_SAFE + b"# DEADLY\n")
    monkeypatch.setattr(run_module, "Task", Deadly)
    outcome = _run(fix=FIX, jobs=2)
    assert [result.path for result in outcome.results if result.crashes] == ["train_07.py"]
    assert (tmp_path / "train_07.py").read_bytes() == ALL_SAFE + b"# DEADLY\n"


def test_an_engine_that_raises_leaves_the_file_as_it_is(train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(*_: object, **__: object) -> Fixed:
        raise RuntimeError("oops")

    monkeypatch.setattr("gradlint.engine.fix", raising)
    outcome = _run(fix=FIX)
    assert outcome.results[0].crashes[0].error == "RuntimeError: oops"
    assert train.read_bytes() == SOURCE


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_an_interrupted_run_leaves_whole_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    names = [f"train_{number}.py" for number in range(5)]
    for name in names:
        (tmp_path / name).write_bytes(ALL_SAFE)
    calls: list[int] = []
    real = getattr(os, step)

    def interrupted(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    with monkeypatch.context() as patch:
        inject(patch, **{step: interrupted})
        with pytest.raises(KeyboardInterrupt):
            _run(fix=FIX)
    assert sorted(os.listdir(tmp_path)) == names
    texts = {(tmp_path / name).read_bytes() for name in names}
    assert texts == {ALL_SAFE, ALL_SAFE.replace(b"SAFE", b"MENDED")}
