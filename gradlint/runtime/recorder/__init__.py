"""Records a training run: patches torch before the user's code runs, and writes down what happens to gradients.

Importable without torch; `start` and `Recorder` import it.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder

__all__ = ["Enough", "Recorder", "Wish", "finish", "start"]


@dataclass(frozen=True)
class Wish:
    """One run: where its events go, whose code counts as the user's, how long it lasts."""

    #: where the events-<pid>.jsonl go
    folder: str
    #: absolute path of the user's script: always user code
    script: str
    #: optimizer steps; then `Enough` is raised
    steps: int = 8
    #: for random, numpy and torch; None leaves them alone
    seed: int | None = 0
    #: "cpu", "cuda" or "mps"
    device: str = "cpu"
    #: further folders whose files are user code
    own: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Wish:
        data = json.loads(text)
        return cls(**{**data, "own": tuple(data.get("own", ()))})


class Enough(SystemExit):
    """The wanted steps are done: the script is over, and that is no failure."""

    def __init__(self) -> None:
        super().__init__(0)


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
