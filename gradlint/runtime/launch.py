"""Runs a script in a process of its own, under the recorder: as its author would, with an end to it.

The script runs in the caller's working directory, as `python script.py` does. If it fails because it does not find a
file there which stands beside the script, it is run once more in the script's own folder, and a note says so.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gradlint.runtime import jsonl
from gradlint.runtime.launching import entry, orders
from gradlint.runtime.launching.ending import Ending, Patience, endings, forget_lost_ranks, troubles, were_stopped
from gradlint.runtime.launching.entry import Module
from gradlint.runtime.launching.family import Family
from gradlint.runtime.launching.orders import Orders
from gradlint.runtime.launching.output import Follower, end_of, without_torchrun
from gradlint.runtime.launching.overlay import Overlay
from gradlint.runtime.launching.tracebacks import without_our_frames
from gradlint.runtime.recording import Recording

_BOOTSTRAP = Path(__file__).with_name("bootstrap.py")
_LOOK_EVERY = 0.1
#: seconds for the rest of a script whose processes have all done their steps
_REST = 10.0


class LaunchError(Exception):
    """The recorder itself did not start, and the script has not run: torch cannot be imported, or we made a mistake."""

    def __init__(self, details: str) -> None:
        super().__init__(f"the script was not run, for recording it failed: {details.strip().splitlines()[-1]}")
        #: the whole traceback
        self.details = details


@dataclass(frozen=True)
class Job:
    """What to run, and how."""

    script: Path
    arguments: tuple[str, ...] = ()
    #: optimizer steps after which it is stopped
    steps: int = 8
    #: seconds
    limit: float = 300.0
    seed: int = 0
    #: "cpu", "cuda" or "mps"; see `devices.resolve`
    device: str = "cpu"
    #: more than one: through torchrun
    nproc: int = 1
    #: a file of the user -> the file whose text runs in its place
    overlay: Mapping[str, str] = field(default_factory=dict)
    #: where it runs; None: here
    cwd: Path | None = None
    #: further folders whose files are the user's own code, though they look installed
    own: tuple[str, ...] = ()
    #: the dotted name of a script that is run as `python -m package.train`, from the folder that holds the package
    module: Module | None = None
    #: GPUs that the script is told of on the CPU
    pretended: int = 0


@dataclass
class Outcome:
    """What became of it."""

    recordings: list[Recording]
    #: None if it was ended at the time limit
    code: int | None
    timed_out: bool
    #: the last lines that the script printed
    output: str
    #: the script's own; "" if it did not fail
    traceback: str
    seconds: float
    #: where it ran: hand it on to the run of the fixed copy
    cwd: Path | None = None
    #: things worth telling
    notes: list[str] = field(default_factory=list)


def torch_is_installed() -> bool:
    spec = importlib.util.find_spec("torch")
    return spec is not None and spec.origin is not None  # a folder that happens to be called so has none


def run(job: Job, *, on_output: Callable[[str], None] | None = None) -> Outcome:
    """Runs it to its end, to the wanted steps, or to the time limit; nothing of it is left afterwards."""
    outcome, failure = _attempt(job, on_output)
    folder = job.script.absolute().parent
    if failure is None or not failure.elsewhere or job.cwd is not None or folder == Path.cwd():
        return outcome
    outcome, _ = _attempt(replace(job, cwd=folder), on_output)
    outcome.notes.insert(0, f"run in {folder}: `{failure.elsewhere}` is there and not in the working directory")
    return outcome


def _attempt(job: Job, on_output: Callable[[str], None] | None) -> tuple[Outcome, Ending | None]:
    folder = Path(tempfile.mkdtemp(prefix="gradlint-run-"))
    try:
        return _run_in(folder, job, on_output)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_in(folder: Path, job: Job, on_output: Callable[[str], None] | None) -> tuple[Outcome, Ending | None]:
    told = _orders(folder, job)
    path = str(told.write())
    printed = folder / "output.txt"
    began = time.monotonic()
    with printed.open("wb") as output:
        family = Family(_command(job, folder), _environment(job, path), job.cwd, output, f"{orders.VARIABLE}={path}")
        code = _watch(family, began + job.limit, Follower(printed, on_output), Patience(folder, _REST))
    seconds = time.monotonic() - began
    failures = endings(folder)
    recordings = jsonl.load(folder)
    text = without_torchrun(end_of(printed)) if job.nproc > 1 else end_of(printed)
    if code and (forget_lost_ranks(recordings) or were_stopped(recordings)):
        code, failures = 0, []
    outcome = Outcome(
        recordings=recordings,
        code=code,
        timed_out=code is None,
        output=text,
        traceback=_traceback(failures, code, text),
        seconds=seconds,
        cwd=job.cwd,
        notes=_troubles(folder, code),
    )
    return outcome, failures[0] if failures else None


def _orders(folder: Path, job: Job) -> Orders:
    script = job.script.absolute()
    overlay = {os.path.abspath(original): os.path.abspath(copy) for original, copy in job.overlay.items()}
    if job.module is not None:
        place = entry.Entry(job.module.home, job.module.name)
    else:
        place = entry.examine(script, Overlay(overlay).read(str(script)))
    return Orders(
        folder=str(folder),
        script=str(script),
        arguments=job.arguments,
        steps=job.steps,
        seed=job.seed,
        device=job.device,
        overlay=overlay,
        own=job.own,
        module=place.module,
        home=place.home,
        paths=place.paths,
        pretended=job.pretended,
    )


def _command(job: Job, folder: Path) -> list[str]:
    if job.nproc == 1:
        return [sys.executable, str(_BOOTSTRAP)]
    # `-m` puts the working directory first, where any file may be called like a module of torch's
    safely = ["-P"] if sys.version_info >= (3, 11) else []
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(job.nproc)]
    logs = ["--log-dir", str(folder / "torchrun")]  # else it leaves a folder of its own behind
    return [sys.executable, *safely, *torchrun, *logs, str(_BOOTSTRAP)]


def _environment(job: Job, path: str) -> dict[str, str]:
    told = {
        orders.VARIABLE: path,
        orders.PYTHON_VARIABLE: orders.this_python(),
        "PYTHONDONTWRITEBYTECODE": "1",  # nothing is left beside the user's files
        "PYTHONUNBUFFERED": "1",  # what was printed is there even if it has to be killed
    }
    usual = {
        "PYTHONIOENCODING": "utf-8:backslashreplace",
        "PYTHONHASHSEED": str(job.seed % 2**32),  # the order of sets is part of what has to be the same twice
    }
    if job.device == "cpu":
        told["CUDA_VISIBLE_DEVICES"] = "-1" if os.name == "nt" else ""  # Windows has no empty variables
    elif job.device == "mps":
        usual["PYTORCH_ENABLE_MPS_FALLBACK"] = "1"
    if job.nproc > 1:
        usual["OMP_NUM_THREADS"] = "1"
    return {**usual, **os.environ, **told}


def _watch(family: Family, deadline: float, follower: Follower, patience: Patience) -> int | None:
    """The exit code, or None if the time was over. What was left behind is ended in any case."""
    with _leaving_when_told():
        try:
            code = None
            while code is None and (left := deadline - time.monotonic()) > 0:
                code = family.wait(min(_LOOK_EVERY, left))
                follower.look()
                if code is None and patience.is_over():
                    code = 0
            family.end()
            follower.look(last=True)
        except BaseException:  # also Ctrl-C: the others are in a group of their own, and have not heard of it
            family.kill()
            raise
    return code


@contextlib.contextmanager
def _leaving_when_told() -> Iterator[None]:
    """Who ends this process, or closes its terminal, means the script too; without a word Python would just be gone."""
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [getattr(signal, name) for name in names if signal.getsignal(getattr(signal, name)) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # only the main thread may

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    for number in numbers:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _traceback(failures: list[Ending], code: int | None, output: str) -> str:
    """That of the process that failed first; else, of a process that could not tell us, the last one it printed."""
    if failures:
        return failures[0].traceback
    if not code:
        return ""
    _, head, tail = output.rpartition("Traceback (most recent call last):\n")
    return without_our_frames(head + tail) if head else ""


def _troubles(folder: Path, code: int | None) -> list[str]:
    found = troubles(folder)
    if found and code == orders.TROUBLE:
        raise LaunchError(next(iter(found.values())))
    last = [text.strip().splitlines()[-1] for text in found.values()]
    return [f"a process that the script started was not recorded: {line}" for line in last]
