"""Records a training run: patches torch before the user's code runs, and writes down what happens to gradients.

Importable without torch; `start` and `Recorder` import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradlint.runtime.recorder.wish import Enough, Wish

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder

__all__ = ["Enough", "Recorder", "Wish", "finish", "start"]


def start(wish: Wish) -> Recorder:
    """Install the recorder of this process, writing JSON lines; the second time it is the same one."""
    from gradlint.runtime.recorder import process

    return process.start(wish)


def finish(how: str, code: int = 0, error: BaseException | None = None) -> None:
    """The last lines of this process: the exception that left the script, if any, and how it ended."""
    from gradlint.runtime.recorder import process

    process.finish(how, code, error)


def __getattr__(name: str) -> Any:
    if name == "Recorder":
        from gradlint.runtime.recorder.session import Recorder

        return Recorder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
