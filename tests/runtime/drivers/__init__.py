"""Calls the loops of `tests/loops` with tiny models and data, so that right and broken ones can be run and watched.

A driver is handed `load`, which executes the text of the loop and returns its names, and calls what it finds there.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

#: executes the text of a loop, and returns its names as attributes
Load = Callable[[], Any]

_FAMILIES = ("plain", "windows", "mixed", "agents", "helpers", "spread")


Driver = Callable[[Load], None]

_DRIVERS: dict[str, Driver] = {}


def drives(driver: Driver) -> Driver:
    """Registers the driver of the loop that has the function's name."""
    _DRIVERS[driver.__name__] = driver
    return driver


@functools.cache
def drivers() -> dict[str, Driver]:
    """All of them, by the name of the loop. Imports torch."""
    for family in _FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
    return dict(sorted(_DRIVERS.items()))
