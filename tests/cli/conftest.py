"""Runs the command in this process, in an empty folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gradlint.cli import run


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
def gradlint(project: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    def command(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = run(list(arguments))
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return command
