"""Records what torch warns of; and keeps warnings at the user's lines, where our functions stand in between."""

from __future__ import annotations

import os
import re
import sys
import warnings
from types import FrameType
from typing import TYPE_CHECKING, Any

from gradlint.runtime.recorder.patching import Current
from gradlint.runtime.recording import Warned

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep

#: what is worth telling of all that torch warns of
_TOPIC = re.compile(
    r"optimizer|scheduler|\bclip|\bamp\b|autocast|GradScaler|gradient|\.grad\b|zero_grad", re.IGNORECASE
)


class Warnings:
    """Stands in for `warnings.warn`."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._told: set[tuple[str, object]] = set()

    def install(self) -> None:
        original = warnings.warn

        def warn(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **more: Any) -> None:
            caller = sys._getframe(1)
            recorder = Current.recorder
            if recorder is not None and not recorder.silent:
                with recorder.guard("a warning"):
                    recorder.parts.warnings.told(message, category, caller)
            original(message, category, _level(caller, stacklevel) + 1, source, **more)

        self.recorder.patches.put(warnings, "warn", warn)

    def told(self, message: Any, category: Any, caller: FrameType) -> None:
        text = str(message)
        if not _from_torch(caller, text) or not _TOPIC.search(text):
            return
        kind = type(message) if isinstance(message, Warning) else category or UserWarning
        places = self.recorder.here(caller)
        key = (text, (places[0].file, places[0].line) if places else None)
        if key not in self._told:
            self._told.add(key)
            self.recorder.emit(Warned, places=places, category=kind.__name__, message=text[:300])


def _from_torch(frame: FrameType, text: str) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    # a deprecated function of torch warns from inside the decorator
    return name == "torch" or name.startswith("torch.") or (name == "typing_extensions" and "torch" in text)


def _level(caller: FrameType, level: int) -> int:
    """The level that reaches the same frame over those of ours in between."""
    if caller.f_code.co_filename.startswith(_HERE):
        return level
    at: FrameType | None = caller
    real = 0
    while at is not None and level > 0:
        real += 1
        level -= not at.f_code.co_filename.startswith(_HERE)
        at = at.f_back
    return real + level
