"""Emacs with eglot and the set-up of docs/editors.md: what Flymake shows, and what the fixes make of the buffer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.editors.project import Project, editor, snippet

DRIVER = Path(__file__).with_name("drive_emacs.el")


@pytest.mark.slow
def test_emacs_shows_findings_and_fixes_them(tmp_path: Path) -> None:
    emacs = editor("emacs")
    project = Project(tmp_path)
    if project.run(emacs, "-Q", "--batch", "--eval", "(require 'eglot)").returncode:
        pytest.skip("this Emacs has no eglot, which is part of it from 29 on")
    expected, clip_fixed, fixed = project.findings(), project.fixed("--select", "GL101"), project.fixed()
    init = project.home / "init.el"
    init.write_text(f"{snippet('emacs')}\n{snippet('emacs-fix-on-save')}", "utf-8")
    project.environment |= {"TRAIN": str(project.file), "REPORT": str(project.home / "report.json")}

    done = project.run(emacs, "-Q", "--batch", "-l", str(init), "-l", str(DRIVER))

    report = json.loads((project.home / "report.json").read_text("utf-8"))
    assert "problem" not in report, (report, done.stderr)
    shown = [(entry["row"], entry["column"]) for entry in report["found"]]
    assert sorted(shown) == [(found.row, found.column) for found in expected]
    for entry, found in zip(sorted(report["found"], key=lambda one: one["row"]), expected, strict=True):
        assert found.code in entry["text"]
        assert found.message in entry["text"]
    assert report["quick_fix"] == clip_fixed
    assert report["fix_all"] == fixed
    assert report["saved"] == fixed
