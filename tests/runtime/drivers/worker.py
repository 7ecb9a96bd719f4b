"""Runs loops one after the other under the recorder, each into a folder of its own.

    python -m tests.runtime.drivers.worker JOBS

JOBS is a JSON file: a list of {"loop", "path", "text", "folder"}. The text runs under the path, whatever is in
the file. A process of its own, because the redirection of CUDA to the CPU is for good; with RANK and WORLD_SIZE set
it is one of several, which run the same jobs together.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from gradlint.runtime import redirect
from gradlint.runtime.launch.orders import Orders
from gradlint.runtime.recorder.places import Places
from gradlint.runtime.recorder.process import finish, start
from gradlint.runtime.recorder.session import Enough, Recorder
from gradlint.runtime.recording import BackwardRan, Happening
from tests.runtime.drivers import drivers, ranks

#: backwards after which a loop that no longer steps is stopped, as the time limit of a real run would
MOST_BACKWARDS = 400


@dataclass(frozen=True, slots=True)
class Job:
    """One text of a loop, and where its recording goes."""

    loop: str
    path: str
    text: str
    folder: str


class _LoopOnly(Places):
    """The loop's own file is the user's code, and nothing else: the drivers are not looked at."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._path = path

    def is_own_file(self, name: str) -> bool:
        return name == self._path


class _Sink:
    """Hands happenings on, up to a limit."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self._sink = recorder, recorder.sink
        self._backwards = 0

    def __call__(self, happening: Happening) -> None:
        self._sink(happening)
        self._backwards += isinstance(happening, BackwardRan)
        if self._backwards == MOST_BACKWARDS and isinstance(happening, BackwardRan):
            self._recorder.stop()


def run(job: Job) -> None:
    """Executes the text, calls it through its driver, and leaves the recording in the folder."""
    Path(job.folder).mkdir(parents=True, exist_ok=True)
    recorder = start(Orders(job.folder, job.path))
    recorder.places = _LoopOnly(job.path)
    recorder.sink = _Sink(recorder)

    def load() -> Any:
        names: dict[str, Any] = {"__name__": job.loop, "__file__": job.path}
        exec(compile(job.text, job.path, "exec", dont_inherit=True), names)
        return SimpleNamespace(**{name: value for name, value in names.items() if not name.startswith("__")})

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            drivers()[job.loop](load)
    except Enough:
        finish("finished")
    except Exception as error:
        finish("raised", 1, error)
    else:
        finish("finished")


def main() -> int:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable()
    redirect.install(lambda note: None)
    drivers()  # whatever they import is there before a recorder looks round
    orders = Path(sys.argv[1])
    jobs = [Job(**job) for job in json.loads(orders.read_text(encoding="utf-8"))]
    distributed = any(ranks.needed(job.text) for job in jobs)
    with ranks.together(orders.with_suffix(".meeting")) if distributed else contextlib.nullcontext():
        for job in jobs:
            run(job)
    return 0


if __name__ == "__main__":
    sys.exit(main())
