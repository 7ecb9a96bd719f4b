"""The hooks, run by the real pre-commit on a real repository, from a copy of this tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.repositories import begin, commit, git
from tests.patience import PATIENCE
from tests.sources import CLEAN, CLIP_AFTER_STEP

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]


def _run(command: list[str], at: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    told = {**os.environ, **environment}
    return subprocess.run(command, cwd=at, env=told, capture_output=True, text=True, check=False, timeout=PATIENCE)


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This tree as a repository of hooks: what it takes to install gradlint, committed."""
    copy = tmp_path_factory.mktemp("hooks") / "gradlint"
    begin(copy)
    for name in (".pre-commit-hooks.yaml", "pyproject.toml", "setup.py", "torch_gradlint.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("gradlint", "rules"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for proof in ROOT.glob("fixtures/*/proof*.py"):
        (copy / proof.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(proof, copy / proof.relative_to(ROOT))
    commit(copy)
    return copy


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pre-commit-home")


@pytest.fixture
def repo(tmp_path: Path, hooks: Path) -> Path:
    """A repository whose configuration names both hooks at the commit of the copy."""
    begin(tmp_path)
    head = git("rev-parse", "HEAD", at=hooks)
    (tmp_path / ".pre-commit-config.yaml").write_text(
        f"repos:\n  - repo: {hooks.as_posix()}\n    rev: {head}\n"
        "    hooks:\n      - id: gradlint\n      - id: gradlint-fix\n"
    )
    return tmp_path


def _pre_commit(home: Path, repo: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("pre_commit")
    git("add", "-A", at=repo)
    done = _run(
        [sys.executable, "-m", "pre_commit", *arguments, "--all-files", "--verbose"], repo,
        PRE_COMMIT_HOME=str(home), PRE_COMMIT_COLOR="never", PIP_NO_COMPILE="1", PIP_DISABLE_PIP_VERSION_CHECK="1",
    )  # fmt: skip
    words = ("No matching distribution", "Could not find a version", "ConnectionError", "Max retries")
    for line in done.stdout.splitlines() if done.returncode == 3 else ():
        if any(word in line for word in words):
            pytest.skip(f"the package index cannot be reached: {line.strip()}")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done


def test_as_configured(home: Path, repo: Path) -> None:
    """All in one environment, as making one takes half a minute."""
    _a_bad_file_fails_and_is_fixed_and_then_passes(home, repo)
    _notebooks_are_hooked_as_well_and_what_is_excluded_stays_excluded(home, repo)


def _a_bad_file_fails_and_is_fixed_and_then_passes(home: Path, repo: Path) -> None:
    (repo / "train.py").write_text(CLIP_AFTER_STEP)
    (repo / "notes.txt").write_text("optimizer.step(\n")
    done = _pre_commit(home, repo, "run")
    assert done.returncode == 1
    checked, fixed = done.stdout.split("gradlint (fix)")
    assert "- exit code: 1" in checked
    assert "train.py:10:9" in checked
    assert "Found 1 error (1 file checked)" in checked
    assert "- files were modified by this hook" in fixed
    assert "1 fixed, 0 remaining" in fixed
    assert (repo / "train.py").read_text() == CLEAN
    done = _pre_commit(home, repo, "run")
    assert done.returncode == 0
    assert done.stdout.count("All checks passed! (1 file checked)") == 2


def _bad_file_fails_and_clean_one_passes(home: Path, repo: Path) -> None:
    (repo / "train.py").write_text(CLIP_AFTER_STEP)
    done = _pre_commit(home, repo, "run", "gradlint")
    assert done.returncode == 1
    assert "train.py:10:9" in done.stdout
    (repo / "train.py").write_text(CLEAN)
    done = _pre_commit(home, repo, "run", "gradlint")
    assert done.returncode == 0, done.stdout
    assert "All checks passed! (1 file checked)" in done.stdout


def _notebooks_are_hooked_as_well_and_what_is_excluded_stays_excluded(home: Path, repo: Path) -> None:
    source = CLIP_AFTER_STEP.replace("\n", "\\n")
    cell = f'{{"cell_type": "code", "execution_count": null, "metadata": {{}}, "outputs": [], "source": "{source}"}}'
    (repo / "old").mkdir()
    notebook = repo / "old" / "nb.ipynb"
    notebook.write_text(f'{{"cells": [{cell}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 4}}\n')
    (repo / "old" / "train.py").write_text(CLIP_AFTER_STEP)
    done = _pre_commit(home, repo, "run", "gradlint")
    assert done.returncode == 1
    assert "old/nb.ipynb:cell 1:10:9" in done.stdout
    assert "old/train.py:10:9" in done.stdout
    (repo / "gradlint.toml").write_text('extend-exclude = ["old"]\n')
    assert _pre_commit(home, repo, "run", "gradlint").returncode == 0


def test_the_manifest_is_valid(tmp_path: Path) -> None:
    pytest.importorskip("pre_commit")
    done = _run(
        [sys.executable, "-m", "pre_commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")], tmp_path
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", ["README.md", "docs/ci.md"])
def test_without_a_tag(page: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration as the page has it; gradlint is where the command is started from."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(repos:.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if "repo: local" in block]
    scripts = Path(sys.executable).parent
    if shutil.which("torch-gradlint", path=str(scripts)) is None:
        pytest.skip("gradlint is not installed beside this Python")
    monkeypatch.setenv("PATH", f"{scripts}{os.pathsep}{os.environ['PATH']}")
    begin(tmp_path)
    (tmp_path / ".pre-commit-config.yaml").write_text(block)
    _bad_file_fails_and_clean_one_passes(home, tmp_path)
