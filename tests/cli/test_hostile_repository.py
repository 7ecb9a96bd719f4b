"""`--diff-base` in a repository that nobody knows: nothing of it is run, and nothing is fetched for it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.repositories import TAIL, Changed, git, refused
from tests.sources import CLEAN, CLIP_AFTER_STEP

pytestmark = [pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"), pytest.mark.slow]


@pytest.fixture
def trap(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A command for a repository to run, and the mark that it would leave."""
    mark = tmp_path_factory.mktemp("trap") / "mark"
    command = mark.with_name("command")
    command.write_text(f'#!/bin/sh\ntouch "{mark}"\ncat\n')
    command.chmod(0o755)
    return str(command), mark


@pytest.mark.skipif(os.name != "posix", reason="the trap is a shell script")
@pytest.mark.parametrize(
    "key",
    ["filter.trap.clean", "filter.trap.process", "filter.a=b.clean", "filter.a=b.process", "diff.external",
     "diff.trap.command", "diff.trap.textconv", "core.fsmonitor", "core.pager"],
)  # fmt: skip
def test_a_repository_runs_nothing(repo: Path, changed: Changed, trap: tuple[str, Path], key: str) -> None:
    command, mark = trap
    git("config", key, command, at=repo)
    name = key.split(".")[1]
    git("config", f"filter.{name}.required", "true", at=repo)
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text(f"*.py filter={name} diff=trap\n")
    (repo / "train.py").write_text(CLIP_AFTER_STEP + TAIL)
    assert changed() == [("train.py", 19)]
    assert not mark.exists()


@pytest.mark.skipif(os.name != "posix", reason="the trap is a shell script")
@pytest.mark.parametrize("setting", [None, ("core.hooksPath", "hooks")])
def test_a_repository_runs_no_hook(
    repo: Path, changed: Changed, trap: tuple[str, Path], setting: tuple[str, str] | None
) -> None:
    command, mark = trap
    hooks = repo / (".git/hooks" if setting is None else "hooks")
    hooks.mkdir(exist_ok=True)
    shutil.copy(command, hooks / "post-index-change")
    if setting is not None:
        git("config", *setting, at=repo)
    mark.unlink(missing_ok=True)
    (repo / "train.py").write_text(CLIP_AFTER_STEP + TAIL)
    os.utime(repo / "old.py", (1_700_000_000, 1_700_000_000))  # the index is no longer fresh
    assert changed() == [("train.py", 19)]
    assert not mark.exists()


@pytest.mark.skipif(os.name != "posix", reason="the trap is a shell script")
@pytest.mark.parametrize("url", ["ext::{command}", "ssh://host/repo", "/nowhere"])
def test_what_a_repository_lacks_is_not_fetched(
    gradlint: Command, repo: Path, trap: tuple[str, Path], url: str
) -> None:  # fmt: skip
    command, mark = trap
    blob = git("rev-parse", "main:train.py", at=repo)
    (repo / "train.py").write_text(CLIP_AFTER_STEP + TAIL)
    (repo / "old.py").write_text(CLEAN)
    for key, value in (
        ("core.repositoryformatversion", "1"), ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", url.format(command=command)), ("remote.origin.uploadpack", command),
        ("core.sshCommand", command), ("protocol.allow", "always"),
    ):  # fmt: skip
        git("config", key, value, at=repo)
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    outcome = gradlint("check", "--diff-base", "main", "--no-cache")
    assert outcome.code == 1, outcome.err
    assert "is a partial clone" in outcome.err
    assert not mark.exists()


@pytest.mark.skipif(os.name != "posix", reason="the git of this test is a shell script")
def test_a_git_that_never_answers(
    gradlint: Command, repo: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("bin")
    (folder / "git").write_text("#!/bin/sh\nexec sleep 100000\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr("gradlint.runner.changes.PATIENCE", 0.01)
    refused(gradlint("check", "--diff-base", "main", "--no-cache"), "no answer to `git")
