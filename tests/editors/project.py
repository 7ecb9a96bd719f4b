"""A project with a bad training file, an editor's set-up from docs/editors.md, and what the command line says of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "editors.md"
#: what would lead an editor to a set-up that is not the one that is tested
_OTHERS = ("XDG_", "NVIM", "EMACS", "HELIX")
#: editors are slow to start on a busy machine; a test that waits this long has failed
PATIENCE = 600

BAD = '''\
"""Größe: the two-byte letters stand before what is found, in case somebody counts bytes."""
import torch
from torch import nn


def train(model: nn.Module, loader) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        "ß→😀"; optimizer.step()
        "ß→😀"; torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def pretrain(model: nn.Module, loader) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in loader:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad
'''


@dataclass(frozen=True)
class Found:
    """One finding as an editor shows it: rows and columns from 1, in characters."""

    code: str
    row: int
    column: int
    message: str


def snippet(name: str) -> str:
    """The code of the page below `<!-- snippet: NAME -->`: what people copy is what is tested."""
    found = re.search(rf"<!-- snippet: {re.escape(name)} -->\n```\w+\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    assert found is not None, f"docs/editors.md has no snippet {name}"
    return found[1]


def editor(program: str) -> str:
    """The program, or a skip that says what is missing."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed here")
    return found


class Project:
    """A folder of its own, and a home of its own: the set-up of whoever runs the tests must not matter."""

    def __init__(self, folder: Path) -> None:
        pytest.importorskip("pygls", reason="the extra `lsp` is not installed here")
        self.home = folder / "home"
        self.folder = folder / "project"
        self.file = self.folder / "train.py"
        self.home.mkdir()
        self.folder.mkdir()
        (self.folder / "pyproject.toml").write_text('[tool.gradlint]\nignore = ["GL901"]\n', "utf-8")
        self.file.write_text(BAD, "utf-8")
        scripts = sysconfig.get_path("scripts")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)},
            "HOME": str(self.home),
            "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
            "LC_ALL": "C.UTF-8",
        }
        if shutil.which("gradlint", path=scripts) is None:
            pytest.skip("gradlint is not installed in the environment that runs the tests")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )

    def findings(self) -> list[Found]:
        """What `gradlint check` finds."""
        done = self.run("gradlint", "check", "--no-cache", "--output-format", "json", str(self.file))
        return [
            Found(found["code"], found["location"]["row"], found["location"]["column"], found["message"])
            for found in json.loads(done.stdout)
        ]

    def fixed(self, *options: str) -> str:
        """What `gradlint check --fix` makes of the file, which stays as it is."""
        done = subprocess.run(
            ["gradlint", "check", "--fix", "--quiet", *options, "--stdin-filename", str(self.file), "-"],
            cwd=self.folder,
            env=self.environment,
            input=self.file.read_bytes(),
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.stdout.decode("utf-8")
