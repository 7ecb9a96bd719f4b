"""The part that runs code: records training, judges it with the rules' own machine, proves fixes, watches gradients.

The only part of gradlint that imports torch, and only when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradlint.runtime.monitor.data import Limits
    from gradlint.runtime.monitor.diagnosis import diagnose_gradients, diagnose_nan
    from gradlint.runtime.monitor.monitor import GradientMonitor

__all__ = ["GradientMonitor", "Limits", "diagnose_gradients", "diagnose_nan"]

_HOMES = {
    "GradientMonitor": "gradlint.runtime.monitor.monitor",
    "diagnose_gradients": "gradlint.runtime.monitor.diagnosis",
    "diagnose_nan": "gradlint.runtime.monitor.diagnosis",
    "Limits": "gradlint.runtime.monitor.data",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f'{name} needs PyTorch: pip install "torch-gradlint[runtime]"', name="torch") from error


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
