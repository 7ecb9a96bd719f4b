"""The VS Code extension: it builds, its own tests pass against this gradlint, and two builds have the same bytes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
import zipfile
from pathlib import Path

import pytest

from gradlint.config.selectors import Preset
from gradlint.lsp.workspace import KEYS, Run
from gradlint.registry import HOME
from tests.editors.project import ROOT, editor
from tests.patience import PATIENCE

FOLDER = ROOT / "editors" / "vscode"
PACKAGE = json.loads((FOLDER / "package.json").read_text("utf-8"))
SETTINGS = PACKAGE["contributes"]["configuration"]["properties"]


def test_settings_are_those_of_the_server() -> None:
    source = (FOLDER / "src" / "settings.ts").read_text("utf-8")
    told = source[source.index("export function serverOptions") :]
    sent = set(re.findall(r"settings\.(\w+)", told[: told.index("\n}")]))
    assert sent <= set(KEYS)
    assert SETTINGS["gradlint.run"]["enum"] == [run.value for run in Run]
    assert SETTINGS["gradlint.preset"]["enum"] == ["", *(preset.value for preset in Preset)]


def test_it_points_to_this_project() -> None:
    assert PACKAGE["homepage"] == HOME
    assert (FOLDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_lock_file_pins_hashes_and_names_no_registry() -> None:
    lock = json.loads((FOLDER / "package-lock.json").read_text("utf-8"))
    assert lock["version"] == PACKAGE["version"]
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert packages
    for name, entry in packages.items():
        assert entry["integrity"].startswith("sha512-"), name
        assert "resolved" not in entry, name


@pytest.mark.slow
def test_it_builds_to_the_same_bytes_wherever_it_is(tmp_path: Path) -> None:
    npm = editor("npm")
    if not (FOLDER / "node_modules").is_dir():
        pytest.skip("run `npm ci` in editors/vscode first")
    made: list[bytes] = []
    for name in ("one", "another place"):
        copy = tmp_path / name
        shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("node_modules", "dist", "out", "*.vsix"))
        (copy / "node_modules").symlink_to(FOLDER / "node_modules", target_is_directory=True)
        script = "package" if not made else "package:twice"
        done = _npm(npm, copy, "run", script)
        assert done.returncode == 0, done.stdout + done.stderr
        [archive] = copy.glob("*.vsix")
        made.append(archive.read_bytes())
    assert made[0] == made[1]
    with zipfile.ZipFile(archive) as opened:
        assert opened.testzip() is None
        assert {"extension/package.json", "extension/dist/extension.js"} <= set(opened.namelist())
        assert str(FOLDER).encode() not in made[0]


@pytest.mark.slow
def test_its_own_tests_pass() -> None:
    npm = editor("npm")
    if not (FOLDER / "node_modules").is_dir():
        pytest.skip("run `npm ci` in editors/vscode first")
    done = _npm(npm, FOLDER, "test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# skipped 0" in done.stdout


def _npm(npm: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("gradlint", path=sysconfig.get_path("scripts"))
    return subprocess.run(
        [npm, *arguments],
        cwd=folder,
        env={**os.environ, "GRADLINT": program or ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
