"""How long tests wait for what must come."""

from __future__ import annotations

import time
from pathlib import Path

#: Seconds until a test gives up on something that will never come. No test is to fail because the machine is slow or
#: has other things to do, so this is long; nothing waits for it to pass.
PATIENCE = 900.0


class Clock:
    """The module `time` for code with a time limit: the limit is reached when a file is there, however long that takes.

    A limit in seconds would be a bet on how fast the machine is.
    """

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def monotonic(self) -> float:
        return time.monotonic() + (1e9 if self._mark.exists() else 0.0)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
