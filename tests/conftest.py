"""Tests run on all processors."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
import threading

import pytest

from tests import searching
from tests.sampling import is_quick, leave_out_slow, take_every_file


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-expected", action="store_true", help="write every fixtures/*/expected.txt anew")
    parser.addoption("--every-file", action="store_true", help="all files where the usual run takes a sample of them")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--every-file"):
        take_every_file()
    if is_quick(config):
        leave_out_slow()
        if not config.getoption("--hypothesis-profile"):
            searching.try_few()
    if config.getoption("--update-expected") and not hasattr(config, "workerinput"):
        from tests.rules.recorded import write_all

        write_all()


def pytest_collection_finish() -> None:
    """Garbage is looked for as in `gradlint check`, and not among the tests themselves."""
    from gradlint.runner.run import relax_collector

    relax_collector()
    gc.collect()
    gc.freeze()


def pytest_xdist_auto_num_workers() -> int:
    return min(8, os.cpu_count() or 1)


def _keep_bytecode() -> None:
    """Hundreds of tests start Python: without bytecode beside the modules each would compile everything anew."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def _hear_control_c() -> None:
    """A shell that starts a command in the background has it ignore Ctrl-C, and so would all that the tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _keep_cache_apart() -> None:
    """What tests find is not kept for this user's own runs."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        folder = tempfile.mkdtemp(prefix="gradlint-cache-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["GRADLINT_CACHE_DIR"] = folder


# what is imported and collected is no garbage
gc.set_threshold(1_000_000, 20, 50)
_keep_bytecode()
_hear_control_c()
_keep_cache_apart()
searching.register()
# tests run side by side: more threads for each of their small scripts only get into each other's way
os.environ.setdefault("OMP_NUM_THREADS", "1")
