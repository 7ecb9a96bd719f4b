"""Neovim, headless, with the set-up of docs/editors.md: what it shows, and what its fixes make of the buffer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.editors.project import Found, Project, editor, snippet

DRIVER = Path(__file__).with_name("drive_neovim.lua")


@pytest.mark.slow
def test_neovim_shows_findings_and_fixes_them(tmp_path: Path) -> None:
    nvim = editor("nvim")
    project = Project(tmp_path)
    version = re.search(r"NVIM v(\d+)\.(\d+)", project.run(nvim, "--version").stdout)
    assert version is not None
    new = (int(version[1]), int(version[2])) >= (0, 11)
    names = ["neovim" if new else "neovim-before-0.11", "neovim-fix-all", "neovim-fix-on-save"]
    expected, clip_fixed, fixed = project.findings(), project.fixed("--select", "GL101"), project.fixed()

    report = _drive(nvim, project, "\n".join(map(snippet, names)))

    assert {entry["source"] for entry in report["found"]} == {"gradlint"}
    assert _found(report["found"]) == expected
    assert [(found.code, found.row) for found in expected] == [("GL101", 13), ("GL401", 20), ("GL405", 22)]
    assert report["quick_fix"] == clip_fixed
    assert [found.code for found in _found(report["found_after"])] == ["GL401", "GL405"]
    assert report["fix_all"] == fixed
    assert report["saved"] == fixed
    assert "gradlint" not in report["messages"]  # the server has nothing to complain of in this set-up


def _drive(nvim: str, project: Project, setup: str) -> dict[str, Any]:
    init = project.home / "init.lua"
    init.write_text(setup, "utf-8")
    project.environment["REPORT"] = str(project.home / "report.json")
    done = project.run(
        nvim, "--headless", "-u", str(init), "-i", "NONE", "-n", str(project.file), "-c", f"luafile {DRIVER}"
    )
    report: dict[str, Any] = json.loads((project.home / "report.json").read_text("utf-8"))
    assert "problem" not in report, (report, done.stderr)
    return report


def _found(entries: list[dict[str, Any]]) -> list[Found]:
    found = [Found(entry["code"], entry["row"], entry["column"], entry["message"]) for entry in entries]
    return sorted(found, key=lambda one: (one.row, one.column, one.code))
