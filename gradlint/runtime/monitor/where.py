"""The line of the user's code that is running: above torch, frameworks and gradlint."""

from __future__ import annotations

import os
import sys

_OTHERS = frozenset(
    {"torch", "accelerate", "lightning", "lightning_fabric", "pytorch_lightning", "transformers", "deepspeed"}
)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


def user_line() -> str:
    """`train.py:31`; empty where nobody's code is on the stack."""
    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        path = frame.f_code.co_filename
        ours = path.startswith(_PACKAGE)
        if not ours and module.split(".", 1)[0] not in _OTHERS and module not in ("contextlib", "functools"):
            return f"{_shown(path)}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""


def _shown(path: str) -> str:
    here = os.getcwd() + os.sep
    return path[len(here) :] if path.startswith(here) else path
