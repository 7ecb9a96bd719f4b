"""Whatever happens to the files of a project: what is remembered gives what is found anew, whoever asks for what."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from gradlint.config.load import ConfigTree, Overrides
from gradlint.config.selectors import Layer
from gradlint.config.settings import Settings
from gradlint.model import FileResult, Finding
from gradlint.records import replace
from gradlint.runner import run as run_module
from gradlint.runner.cache import Cache, source_stamp
from gradlint.runner.files import FileFinder, SourceFile
from gradlint.runner.importers import Importers
from gradlint.runner.run import run
from tests.searching import examples

ENGINE = """\
from {helpers} import back, tidy
import torch

def train(model, optimizer, loader, n=1, most=None):
    for i, x in enumerate(loader):
        loss = model(x).mean() / n
        {backward}
        if (i + 1) % n == 0:
            optimizer.step()
            {after}
            optimizer.zero_grad()
"""
MAIN = """\
import torch
from {package} import {name} as run

def main(net, loader):
    model = {wrap}(net)
    optimizer = torch.optim.AdamW(model.parameters())
    run(model, optimizer, loader, {n})
"""
BASE = """\
import torch

class Base:
    def fit(self, model, optimizer, loader):
        for x in loader:
            self.loss(model, x).backward()
            optimizer.step()

    def loss(self, model, x):
        optimizer.zero_grad()
        return model(x).mean()
"""
CHILD = """\
from {package} import Base

class Child(Base):
    def loss(self, model, x):
        {clear}
        return model(x).mean()

def tidy(model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""
HELPERS = """\
import torch

def back(loss):
    loss.backward()

def tidy(model):
    torch.nn.utils.{clip}(model.parameters(), {most})
"""

DDP, NONE = "torch.nn.parallel.DistributedDataParallel", "torch.nn.Sequential"
BROKEN = "def broken(:\n"
ENGINES = tuple(
    ENGINE.format(helpers=helpers, backward=backward, after=after)
    for helpers in ("helpers", "pkg")
    for backward in ("back(loss)  # loss.backward()", "loss.backward()", "loss.backward()  # gradlint: ignore[GL501]")
    for after in ("tidy(model)", "pass")
)
MAINS = tuple(
    MAIN.format(package=package, name="train", wrap=wrap, n=n)
    for package in ("engine", "pkg", "pkg.engine", "helpers")
    for wrap in (DDP, NONE)
    for n in (1, 4)
)
TIDY = tuple(HELPERS.format(clip=clip, most=1.0) for clip in ("clip_grad_norm_", "clip_grad_value_"))
CHILDREN = tuple(CHILD.format(package=p, clear=c) for p in ("engine", "pkg") for c in ("optimizer.zero_grad()", "pass"))
#: what each file is likely to hold; when files are renamed, another one does
TEXTS = {
    "engine.py": (*ENGINES, BASE, BROKEN),
    "main.py": (*MAINS, *CHILDREN),
    "helpers.py": (
        *TIDY,
        "from engine import *  # loss.backward(), optimizer.step()\n",
        "from pkg.engine import train\n",
    ),
    "pkg/__init__.py": ("", "from .engine import *\n", "from engine import train\nfrom helpers import *\n", *TIDY),
    "pkg/engine.py": (*ENGINES, BASE, "from engine import Base, train\n"),
}
PATHS = tuple(TEXTS)
edits = st.sampled_from(PATHS).flatmap(lambda path: st.tuples(st.just(path), st.sampled_from(TEXTS[path])))
STEPS = 2_000
LAYER = Layer(select=("GL101", "GL103", "GL304", "GL401", "GL501", "GL9"), fixable=())


def _told(results: list[FileResult]) -> dict[str, FileResult]:
    """All but what is not told, and differs with who asks."""
    return {
        result.path: replace(result, elsewhere=(), reached=(), silenced=(), probes=(), exhausted=())
        for result in results
    }


def _told_of(path: str, told: dict[str, FileResult]) -> dict[str, list[Finding]]:
    """What is found in a file, and what elsewhere has a line of its story there."""
    whole = os.path.abspath(path)
    found = {
        name: [f for f in result.findings if name == path or any(line.path == whole for line in f.related)]
        for name, result in told.items()
    }
    return {name: findings for name, findings in found.items() if findings}


class Edits(RuleBasedStateMachine):
    """A small project on the disk, and all ways to ask about it."""

    #: taken by all of them together
    steps = 0
    #: the same for all of them: what is found in a file names others by their whole paths
    folder = Path()

    def __init__(self) -> None:
        super().__init__()
        self._before = os.getcwd()
        self._root = self.folder / "project"
        (self._root / "pkg").mkdir(parents=True)
        (self._root / "pyproject.toml").write_text("")
        os.chdir(self._root)
        self._clock = time.time() - 10_000
        self._asked = ""

    @initialize()
    def restore(self) -> None:
        for path, texts in TEXTS.items():
            self._write(path, texts[0])

    @rule(change=edits, old=st.booleans())
    def edit(self, change: tuple[str, str], old: bool) -> None:
        path, _ = change
        self._write(*change)
        if old:
            self._clock += 1
            os.utime(path, (self._clock, self._clock))

    @rule(path=st.sampled_from(PATHS))
    def delete(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)
        self._asked = path

    @rule(path=st.sampled_from(PATHS), to=st.sampled_from(PATHS))
    def rename(self, path: str, to: str) -> None:
        if os.path.exists(path):
            os.replace(path, to)
        self._asked = to

    def _write(self, path: str, text: str) -> None:
        (self._root / path).write_text(text)
        self._asked = path

    @invariant()
    def it_is_the_same_from_the_cache_and_for_one_file(self) -> None:
        whole = _told(self._results(["."]))
        Edits.steps += 1
        assert _told(self._results(["."], Cache(str(self._root), str(self.folder)))) == whole
        if os.path.exists(self._asked):
            alone = _told(self._results([self._asked], Cache(str(self._root), str(self.folder))))
            assert _told_of(self._asked, alone) == _told_of(self._asked, whole)

    def teardown(self) -> None:
        """What the tests remember of a state (`_as_ever`) is what other processes find in it anew."""
        try:
            with _anew():
                anew = _told(self._results(["."], jobs=2))
            assert anew == _told(self._results(["."]))
        finally:
            os.chdir(self._before)
            shutil.rmtree(self.folder)

    def _results(self, asked: list[str], cache: Cache | None = None, jobs: int = 1) -> list[FileResult]:
        tree = ConfigTree(Overrides(LAYER))
        files = [_as_project(file) for file in FileFinder(tree).find(asked)]
        folders = [path for path in asked if os.path.isdir(path)]
        return run(files, cache=cache, jobs=jobs, importers=Importers(tree, folders, _in_project)).results


def _in_project(found: Settings) -> Settings:
    return replace(found, project=True)


def _as_project(file: SourceFile) -> SourceFile:
    return file._replace(settings=_in_project(file.settings))


#: what is found in a file, by all that there is to look at: a project comes back to the same states again and again
_found: dict[tuple[str, str, tuple[bytes | None, ...]], FileResult] = {}
_lint = run_module.lint_one


def _as_ever(source: bytes, file: SourceFile) -> FileResult:
    """What is found in a file depends on nothing but what stands on the disk, so whoever looks again finds the same.

    Whether anybody looks, and at which file, is for the cache to say, and that is what is tested.
    """
    there = tuple(Path(path).read_bytes() if os.path.exists(path) else None for path in PATHS)
    key = (os.path.relpath(file.path), file.shown, there)
    if key not in _found:
        _found[key] = _lint(source, file)
    return _found[key]


@contextlib.contextmanager
def _anew() -> Iterator[None]:
    with mock.patch.object(run_module, "lint_one", _lint):
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Edits, "folder", tmp_path.resolve() / "run")
    monkeypatch.setattr("gradlint.runner.cache.user_folder", lambda: str(tmp_path / "home"))
    monkeypatch.setattr("gradlint.runner.cache.source_stamp", functools.cache(source_stamp))
    monkeypatch.setattr(run_module, "_WORTH_FILES", 1)
    monkeypatch.setattr(run_module, "lint_one", _as_ever)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 5000))  # as linting does; hypothesis wonders who it was


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_nothing_is_stale_or_different() -> None:
    run_state_machine_as_test(Edits, settings=settings(examples(STEPS // 44), stateful_step_count=50))
    assert Edits.steps >= STEPS
