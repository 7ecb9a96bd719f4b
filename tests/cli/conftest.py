"""Runs the command in this process, in an empty folder, with what is given as its standard input."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gradlint.cli import run
from tests.cli.repositories import Changed, begin, commit, git
from tests.sources import CLIP_AFTER_STEP


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def codes(self) -> list[str]:
        return [finding["code"] for finding in self.json()]


Command = Callable[..., Outcome]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return tmp_path


@pytest.fixture
def gradlint(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def command(*arguments: str, stdin: str | bytes = "") -> Outcome:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
        capsys.readouterr()
        code = run(list(arguments))
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return command


@pytest.fixture
def own_git(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nobody's own settings."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def repo(project: Path, own_git: None) -> Path:
    """Two files with an old finding each, on main; a branch with nothing yet."""
    begin(project)
    (project / "old.py").write_text(CLIP_AFTER_STEP)
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    (project / ".gitignore").write_text(".gradlint_cache\n")
    commit(project)
    git("switch", "-q", "-c", "feature", at=project)
    return project


@pytest.fixture
def changed(gradlint: Command) -> Changed:
    """The findings since main, as file and row."""

    def command(*arguments: str) -> list[tuple[str, int]]:
        outcome = gradlint("check", "--diff-base", "main", "--no-cache", "--output-format", "json", *arguments)
        assert outcome.code in (0, 1), outcome.err
        here = str(Path.cwd())
        return [
            (os.path.relpath(f["filename"], here).replace(os.sep, "/"), f["location"]["row"]) for f in outcome.json()
        ]

    return command
