"""Results that several tests judge and that cost much: made once, also where the tests run in several processes."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """The same one for all processes of this run of the tests."""
    base = factory.getbasetemp()
    return base.parent if base.name.startswith("popen-") else base


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], T]) -> T:
    """What `make` gives, which may leave files in the folder it gets; the others wait, and read what the first kept."""
    home = shared_folder(factory) / f"shared-{name}"
    kept = home / "result.pickle"
    home.mkdir(exist_ok=True)
    with _alone(home / "lock"):
        if kept.exists():
            found: T = pickle.loads(kept.read_bytes())
            return found
        made = make(home)
        kept.write_bytes(pickle.dumps(made))
        return made


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time; the system lets go of the lock if the process dies."""
    with path.open("a+b") as file:
        try:
            import fcntl
        except ImportError:  # Windows
            import msvcrt

            while True:
                with contextlib.suppress(OSError):  # it gives up after ten seconds
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
                    break
        else:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
