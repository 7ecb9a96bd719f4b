"""How a run shows a rule's mistake, code by code: each check says in numbers what was seen."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TypeAlias

from gradlint.runtime.scene import Scene, Shown, Spot

Check: TypeAlias = Callable[[Scene, Spot], Shown]

_FAMILIES = ("clipping", "mixed_precision", "accumulation", "loop", "distributed")
_CHECKS: dict[str, Check] = {}


def shows(*codes: str) -> Callable[[Check], Check]:
    """Registers the check of a rule."""

    def register(check: Check) -> Check:
        for code in codes:
            if code in _CHECKS:
                raise ValueError(f"{code} has two checks")
            _CHECKS[code] = check
        return check

    return register


@functools.cache
def checks() -> dict[str, Check]:
    """The check of every rule that a run can show."""
    for family in _FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
    return dict(sorted(_CHECKS.items()))
