"""What a recording is asked for, and how a script is stopped when it has done enough. Plain data, without torch."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass


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
