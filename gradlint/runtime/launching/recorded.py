"""Between the launching and the recorder: starts it, and says how the process came to its end."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING

from gradlint.runtime.launching.ending import note_trouble
from gradlint.runtime.launching.orders import TROUBLE, Orders

if TYPE_CHECKING:
    from types import ModuleType

    from gradlint.runtime.recorder.session import Recorder


class Session:
    """The recorder of this process, from its start to its end."""

    def __init__(self, recorder: ModuleType, started: Recorder) -> None:
        self._recorder = recorder
        self._started = started
        self._closed = False
        self._how, self._code = "finished", 0
        self._error: BaseException | None = None

    @property
    def has_enough(self) -> bool:
        """The recorder has seen as many steps as were wanted: whatever leaves the script now, we have begun it."""
        return self._started.stopped

    def ending(self, how: str, code: int = 0, error: BaseException | None = None) -> None:
        """What will be said at the end, after threads that still run and what the script does at exit."""
        self._how, self._code, self._error = how, code, error

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._recorder.finish(self._how, code=self._code, error=self._error)


def begin(told: Orders) -> Session:
    """Imports torch, and the recorder with it."""
    from gradlint.runtime import recorder

    wish = recorder.Wish(
        folder=told.folder, script=told.script, steps=told.steps, seed=told.seed, device=told.device, own=told.own
    )
    started = recorder.start(wish)
    from gradlint.runtime import redirect  # imports torch, which is there by now
    from gradlint.runtime.redirect.accelerator import Pretence

    if redirect.needed(told.device):
        imports = started.parts.imports
        redirect.install(
            started.note,
            lambda name, patch: imports.when(name, lambda _, module: patch(module)),
            Pretence(told.pretended, started.places.is_own_file),
        )
    return Session(recorder, started)


def start(told: Orders) -> Session:
    """As `begin`; what goes wrong is told to the one who started us, and ends this process."""
    try:
        return begin(told)
    except Exception:
        note_trouble(told.folder, traceback.format_exc())
        sys.exit(TROUBLE)
