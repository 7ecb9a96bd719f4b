"""Helix in a terminal, with the set-up of docs/editors.md: what it draws, and what its fixes write to the file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.editors.project import BAD, PATIENCE, Project, editor, snippet

pytest.importorskip("fcntl", reason="needs a pseudo-terminal, which Windows has not")

from tests.editors.terminal import Terminal

UP = "\x1b[A"


def helix() -> str:
    """Debian and Arch have it under its long name."""
    return shutil.which("helix") or editor("hx")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    (project.home / ".config" / "helix").mkdir(parents=True)
    return project


def set_up(project: Project, text: str) -> None:
    (project.home / ".config" / "helix" / "languages.toml").write_text(text, "utf-8")


@pytest.mark.slow
def test_helix_shows_findings_and_fixes_them(project: Project) -> None:
    program = helix()
    set_up(project, snippet("helix"))
    [clip, *_] = project.findings()
    fixed = project.fixed()
    place = f"{project.file}:{clip.row}:{clip.column}"
    with Terminal([program, place], project.folder, project.environment, PATIENCE) as terminal:
        terminal.await_text(clip.message)
        terminal.press(" a")
        terminal.await_text("Move the clip in front of the step")
        terminal.await_text("Ignore GL101 (clip-after-step) on this line")
        terminal.await_text("Fix all gradlint findings")
        terminal.press(f"{UP}\r")  # the last one
        terminal.await_text("optimizer.zero_grad()")
        terminal.press(":write\r")
        terminal.await_that(lambda: written(project), "the file to be written")
        terminal.await_text("written")
        terminal.leave(":quit-all!\r")
    assert project.file.read_text("utf-8") == fixed


def written(project: Project) -> bool:
    """Helix moves the old file away before it writes the new one."""
    try:
        return project.file.read_text("utf-8") not in ("", BAD)
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_helix_fixes_on_save(project: Project) -> None:
    program = helix()
    server, _, _ = snippet("helix").partition("[[language]]")
    set_up(project, server + snippet("helix-fix-on-save"))
    fixed = project.fixed()
    with Terminal([program, str(project.file)], project.folder, project.environment, PATIENCE) as terminal:
        terminal.await_text("def pretrain")
        terminal.press(":write\r")
        terminal.await_that(lambda: written(project), "the file to be written")
        terminal.await_text("written")
        terminal.leave(":quit-all!\r")
    assert project.file.read_text("utf-8") == fixed
