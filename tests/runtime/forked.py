"""`launch` and `prove` with scripts that begin where torch is imported already: seconds less for each of them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from gradlint.runtime.launch import run
from gradlint.runtime.prove import proving
from tests.runtime.zygote import SPAWN_WITH, zygote


@contextlib.contextmanager
def forked() -> Iterator[None]:
    """Inside, scripts are forked; where there is no fork, they are started as ever."""
    if not hasattr(os, "fork"):
        yield
        return
    real = run._command

    def command(job: run.Job, folder: Path) -> list[str]:
        bootstrap = str(run._BOOTSTRAP)
        return zygote().command(bootstrap) if job.nproc == 1 else zygote().ranks(job.nproc, bootstrap)

    run._command = command
    try:
        yield
    finally:
        run._command = real


@contextlib.contextmanager
def workers_forked() -> Iterator[None]:
    """Inside, those of `gradlint prove` are."""
    if not hasattr(os, "fork"):
        yield
        return
    with mock.patch.object(proving, "sys", SimpleNamespace(executable=zygote().executable(), path=sys.path)):
        yield


@contextlib.contextmanager
def children_forked() -> Iterator[None]:
    """Inside, what scripts spawn with `multiprocessing` is forked as well, and begins as Python does for it.

    What such a child is to its parent (its number, its place among the processes) needs a real one.
    """
    if not hasattr(os, "fork"):
        yield
        return
    with mock.patch.dict(os.environ, {SPAWN_WITH: zygote().executable()}):
        yield


@pytest.fixture(autouse=True)
def forked_scripts(request: pytest.FixtureRequest) -> Iterator[None]:
    """For modules that import it: all of their tests, but those that are marked as `whole`."""
    with contextlib.nullcontext() if request.node.get_closest_marker("whole") else forked():
        yield


@pytest.fixture
def forked_children() -> Iterator[None]:
    with children_forked():
        yield
