"""`--add-ignore`: the comments silence what was found, say why, and change nothing else."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.sources import CLIP_AFTER_STEP


def _codes(gradlint: Command) -> list[str]:
    return gradlint("check", "--no-cache", "--output-format", "json").codes()


def test_with_a_reason(gradlint: Command, project: Path) -> None:
    train = project / "train.py"
    train.write_bytes(CLIP_AFTER_STEP.replace("\n", "\r\n").encode())
    outcome = gradlint("check", "--add-ignore=only\nlogged", ".")
    assert (outcome.code, outcome.out) == (0, "Silenced 1 finding in 1 file\n")
    text = train.read_bytes().decode()
    assert "  # gradlint: ignore[GL101] only logged\r\n" in text
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(CLIP_AFTER_STEP))
    assert _codes(gradlint) == []
    assert gradlint("check", "--add-ignore", "train.py").out == "Nothing to silence\n"


def test_codes_of_one_line_share_a_comment(gradlint: Command, project: Path) -> None:
    (project / "a.py").write_text(CLIP_AFTER_STEP.replace("1.0)", "1e-9)  # small"))
    found = gradlint("check", "--output-format", "json").json()
    assert [row["code"] for row in found] == ["GL101", "GL105"]
    assert len({row["location"]["row"] for row in found}) == 1
    assert gradlint("check", "--add-ignore").code == 0
    assert "1e-9)  # small  # gradlint: ignore[GL101, GL105]\n" in (project / "a.py").read_text()
    assert _codes(gradlint) == []


def test_only_what_would_be_told(gradlint: Command, project: Path) -> None:
    (project / "a.py").write_text(CLIP_AFTER_STEP)
    gradlint("check", "--write-baseline", "known.json")
    assert gradlint("check", "--baseline", "known.json", "--add-ignore").out == "Nothing to silence\n"
    assert gradlint("check", "--select", "GL2", "--add-ignore").out == "Nothing to silence\n"
    assert (project / "a.py").read_text() == CLIP_AFTER_STEP


def test_notebooks_and_markdown(gradlint: Command, project: Path) -> None:
    lines = CLIP_AFTER_STEP.splitlines(keepends=True)
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["words"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": lines},
    ]
    (project / "nb.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    (project / "page.md").write_text(f"# On coding: a page\n\n- so:\n\n  ```python\n  {'  '.join(lines)}  ```\n")
    outcome = gradlint("check", "--include-markdown", "--add-ignore")
    assert (outcome.code, outcome.out) == (0, "Silenced 2 findings in 2 files\n")
    assert gradlint("check", "--include-markdown", "--output-format", "json").codes() == []
    assert len(json.loads((project / "nb.ipynb").read_text())["cells"]) == 2


def test_what_no_comment_can_silence_is_told(gradlint: Command, project: Path) -> None:
    (project / "broken.py").write_text("import torch\nloss.backward(\n")
    outcome = gradlint("check", "--add-ignore")
    assert (outcome.code, outcome.out) == (1, "Nothing to silence\n")


def test_a_file_that_cannot_be_written(gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "a.py").write_text(CLIP_AFTER_STEP)
    (project / "a.py").chmod(0o444)
    outcome = gradlint("check", "--add-ignore")
    assert outcome.code == 2
    assert "a.py: not written: it is read-only" in outcome.err
    assert (project / "a.py").read_text() == CLIP_AFTER_STEP
