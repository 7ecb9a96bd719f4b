"""Repositories of the tests: real git, with nobody's own settings."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.patience import PATIENCE
from tests.sources import CLIP_AFTER_STEP

if TYPE_CHECKING:
    from tests.cli.conftest import Outcome

SECOND = CLIP_AFTER_STEP.replace("def train", "def finetune")
TAIL = SECOND[SECOND.index("\n\ndef") :]

#: the findings since main, as file and row
Changed = Callable[..., list[tuple[str, int]]]


def git(*arguments: str, at: Path) -> str:
    settings = ("user.name=A", "user.email=a@example.org", "protocol.file.allow=always", "commit.gpgsign=false")
    options = [word for setting in settings for word in ("-c", setting)]
    done = subprocess.run(
        ["git", *options, *arguments], cwd=at, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def begin(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    git("init", "-q", "-b", "main", at=folder)


def commit(folder: Path, message: str = "a change") -> None:
    git("add", "-A", at=folder)
    git("commit", "-q", "--allow-empty", "-m", message, at=folder)


def refused(outcome: Outcome, words: str) -> None:
    assert outcome.code == 2
    assert words in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err
