"""Runs `gradlint verify` on the scripts beside this file, each in a folder of its own, and keeps what it said.

A rule that needs none has its proof, which is asked in the same way.

A script says what is expected of it: `# confirmed: GL101` on the line of a mistake, with `no-fix` behind it where none
is offered; `# seen: GL111` where only the run shows it. `# options:` and `# arguments:` stand at its head, for the
command and for the script; `# needs:` names a package that may be absent.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE
from tests.runtime.forked import children_forked, forked
from tests.runtime.launched import contents

SCRIPTS = Path(__file__).with_name("scripts")

#: texts of a script, and what stands there instead
Changes = Sequence[tuple[str, str]]

_EXPECTED = re.compile(r"# (confirmed|seen): (.*)")


@dataclass(frozen=True, order=True)
class Expected:
    """A finding that must be confirmed."""

    file: str
    line: int
    code: str
    #: found by the linter, or only in the run
    static: bool = True
    fixable: bool = True


@dataclass(frozen=True)
class Script:
    """A script, or the `train.py` of a small project."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(SCRIPTS).with_suffix("").as_posix()

    @property
    def project(self) -> Path | None:
        """The folder that belongs to it."""
        return SCRIPTS / self.path.relative_to(SCRIPTS).parts[0] if self.path.parent != SCRIPTS else None

    @property
    def right(self) -> bool:
        return self.name.startswith("right_")

    def head(self, word: str) -> list[str]:
        found = re.search(rf"^# {word}: (.*)$", self.path.read_text(encoding="utf-8"), re.MULTILINE)
        return found[1].split() if found else []

    @property
    def missing(self) -> list[str]:
        """Packages that it needs and that are not here."""
        return [name for name in self.head("needs") if importlib.util.find_spec(name) is None]

    def expected(self) -> list[Expected]:
        files = sorted(self.project.rglob("*.py")) if self.project else [self.path]
        return sorted(found for file in files for found in _expected(file))

    def copy_to(self, folder: Path) -> Path:
        """Where nothing of this project is near: no configuration, no other script."""
        if self.project is None:
            folder.mkdir(parents=True)
            return Path(shutil.copy(self.path, folder))
        shutil.copytree(self.project, folder, ignore=shutil.ignore_patterns("__pycache__"))
        return folder / self.path.relative_to(self.project)


def _expected(file: Path) -> Iterator[Expected]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if found := _EXPECTED.search(line):
            for part in found[2].split(","):
                code, *rest = part.split()
                yield Expected(file.name, number, code, found[1] == "confirmed", "no-fix" not in rest)


def scripts() -> list[Script]:
    entries = [*SCRIPTS.glob("*.py"), *SCRIPTS.glob("*/**/train.py")]
    return [Script(path) for path in sorted(entries)]


@dataclass(frozen=True)
class Verified:
    """What came of it."""

    code: int
    out: str
    err: str
    #: the files in the script's folder, before and after
    before: dict[str, bytes]
    after: dict[str, bytes]

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    def confirmed(self, key: str = "findings") -> dict[tuple[str, int, str], str]:
        """What the run confirmed, and what became of it in the fixed copy."""
        return {
            (Path(f["filename"]).name, f["line"], f["code"]): f["after_fix"]
            for f in self.data[key]
            if f["verdict"] == "confirmed"
        }

    def finding(self, code: str) -> dict[str, Any]:
        (found,) = [f for f in (*self.data["findings"], *self.data["runtime_only"]) if f["code"] == code]
        return dict(found)


def in_this_process(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`gradlint verify` in this process, and its script in one that has imported torch already."""
    from gradlint.cli import run

    out, err = io.StringIO(), io.StringIO()
    here = Path.cwd()
    os.chdir(cwd)
    try:
        with forked(), children_forked(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(["verify", *map(str, arguments)])
    finally:
        os.chdir(here)
    return subprocess.CompletedProcess(["gradlint"], code, out.getvalue(), err.getvalue())


def verify(script: Script, folder: Path, changed: Changes = ()) -> Verified:
    """Runs it; `changed`: other words for some of its text."""
    place = folder / script.name.replace("/", "-")
    path = script.copy_to(place)
    for old, new in changed:
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {script.name}"
        path.write_text(text.replace(old, new), encoding="utf-8")
    return verify_in(place, path, *script.head("options"), "--", *script.head("arguments"))


def verify_in(place: Path, path: Path, *options: str) -> Verified:
    """Runs a file of this folder on the CPU, from the folder above."""
    before = contents(place)
    done = in_this_process(
        path, "--device", "cpu", "--output-format", "json", f"--timeout={PATIENCE}", *options, cwd=place.parent
    )
    return Verified(done.returncode, done.stdout, done.stderr, before, contents(place))
