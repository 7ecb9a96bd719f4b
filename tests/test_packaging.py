"""What is released works where nothing else is: wheel and sdist, installed in a clean environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from gradlint.registry import HOME
from tests.patience import PATIENCE
from tests.released import distributions
from tests.sharing import once

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return distributions(tmp_path_factory)


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment with the wheel and its own dependencies only; gives its bin folder."""
    return once(tmp_path_factory, "venv", lambda home: _installed(built, home))


def _installed(built: Path, home: Path) -> Path:
    venv.create(home)
    scripts = home / ("Scripts" if os.name == "nt" else "bin")
    (wheel,) = built.glob("*.whl")
    there = ["--python", str(scripts / "python")]
    command = [sys.executable, "-m", "pip", *there, "install", "--quiet", "--no-compile", str(wheel)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return scripts


def _gradlint(scripts: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(scripts / "gradlint"), *arguments],
        cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip


def test_the_wheel_holds_the_rules_and_no_tests(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    rules = {f"gradlint/rules/{path.name}" for path in (ROOT / "rules").glob("*.py")}
    scripts = [*(ROOT / "fixtures").glob("*/proof*.py"), *(ROOT / "fixtures").glob("*/measure.py")]
    proofs = {f"gradlint/proofs/{path.parent.name}/{path.name}" for path in scripts}
    assert len(proofs) > 40
    assert {name for name in names if name.startswith("gradlint/proofs/")} == proofs
    assert rules | {"gradlint/py.typed", "gradlint/cli/__init__.py", "gradlint/docs/facts.json"} <= names
    assert {name.split("/")[0] for name in names if not name.split("/")[0].endswith(".dist-info")} == {
        "gradlint",
        "torch_gradlint.py",
    }


def test_the_sdist_can_be_tested_and_its_documentation_built(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "setup.py", "mkdocs.yml", "action.yml", ".ci/run"} <= names
    for folder in ("benchmarks", "docs", "examples", "fixtures", "rules", "tests"):
        files = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert {name for name in files if "__pycache__" not in name} <= names
    assert not [name for name in names if name.endswith(".pyc") or "node_modules" in name]


def test_the_description_has_links_that_lead_to_the_repository(built: Path) -> None:
    """The package index has no folder that relative ones could lead to."""
    (wheel,) = built.glob("*.whl")
    (name,) = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA")]
    told = message_from_bytes(zipfile.ZipFile(wheel).read(name))
    addresses = dict(line.split(", ") for line in told.get_all("Project-URL", []))
    assert addresses["Homepage"] == HOME
    assert all(address.startswith(HOME) for address in addresses.values())
    links = re.findall(r"\]\(([^)\s]+)\)", told.get_payload(decode=True).decode())  # type: ignore[union-attr] # one part
    assert len(links) > 20
    for link in (*links, *addresses.values()):
        if link.startswith(HOME):
            _, found, path = link.partition("/main/")
            assert not found or (ROOT / path.partition("#")[0]).exists(), link
        else:
            assert link.startswith(("https://", "#")), link


def test_rules_and_check_work_when_installed(installed: Path, tmp_path: Path) -> None:
    listed = _gradlint(installed, tmp_path, "rules")
    assert listed.returncode == 0, listed.stderr
    assert len(listed.stdout.splitlines()) == len(list((ROOT / "rules").glob("*.py"))) - 1
    example = str(ROOT / "examples" / "train_with_mistakes.py")
    checked = _gradlint(installed, tmp_path, "check", "--isolated", "--no-cache", "--output-format", "concise", example)
    assert checked.returncode == 1, checked.stderr
    assert checked.stderr == ""
    assert len(checked.stdout.splitlines()) > 3


def test_types_are_shipped(installed: Path, tmp_path: Path) -> None:
    script = "import gradlint, pathlib; print((pathlib.Path(gradlint.__file__).parent / 'py.typed').exists())"
    outcome = subprocess.run(
        [str(installed / "python"), "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert outcome.stdout.strip() == "True"


def test_prove_works_with_what_the_wheel_holds(built: Path, tmp_path: Path) -> None:
    """The clean environment has no torch: the wheel's files run in this one, in the place of the checkout."""
    pytest.importorskip("torch")
    (wheel,) = built.glob("*.whl")
    home = tmp_path / "unpacked"
    zipfile.ZipFile(wheel).extractall(home)
    environment = {**os.environ, "PYTHONPATH": str(home)}
    (tmp_path / "random.py").write_text("raise SystemExit('the folder is not for looking up modules')")
    script = (
        "import sys; sys.path.remove(''); import gradlint; from gradlint.cli import main; "
        "print(gradlint.__file__, file=sys.stderr); main()"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", script, "prove", "GL101", "--device", "cpu"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert outcome.stderr.startswith(str(home)), outcome.stderr
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "GL101  clip-after-step: proved" in outcome.stdout
