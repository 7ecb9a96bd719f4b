"""Runs a script in a process of its own, under the recorder: as its author would, with an end to it.

The script runs in the caller's working directory, as `python script.py` does. If it fails because it does not find a
file there which stands beside the script, it is run once more in the script's own folder, and a note says so.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import IO, Any

from gradlint.config.reading import ConfigError, unknown
from gradlint.model import counted
from gradlint.runtime.launch import ending, orders
from gradlint.runtime.launch.orders import Conditions, Entry, Orders, Overlay
from gradlint.runtime.lines import load
from gradlint.runtime.recording import Recording

WANTED = ("auto", "cpu", "cuda", "mps")
# Python puts the working directory first for `-c`, where any file may be called like a module of torch's
_QUESTION = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import json, torch
cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
print(json.dumps({"cuda": cards, "mps": int(torch.backends.mps.is_available())}))
"""


def resolve(wanted: str) -> str:
    """`auto` takes what is there; asking for what is not there is a mistake."""
    if wanted not in WANTED:
        raise unknown("device", wanted, WANTED)
    if wanted == "cpu":
        return wanted
    there = available()
    if wanted == "auto":
        return next(iter(there), "cpu")
    if wanted not in there:
        raise ConfigError(f"--device {wanted}: torch sees no {wanted} device on this machine; use `--device auto`")
    return wanted


def too_few(device: str, ranks: int) -> str:
    """A word about ranks that have no device of their own, and run on the CPU therefore; "" if all have one."""
    if device == "cpu" or ranks <= (cards := available()[device]):
        return ""
    return f"{ranks} ranks, and {counted(cards, f'{device} device')}: they run on the CPU"


@functools.cache
def available() -> dict[str, int]:
    """The accelerators that torch sees, and how many. Asked in another process: torch takes seconds and memory."""
    answer = subprocess.run(
        [sys.executable, "-c", _QUESTION], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    lines = answer.stdout.splitlines()
    if answer.returncode != 0 or not lines:
        reason = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ConfigError(f"torch cannot be imported: {reason}")
    seen: dict[str, int] = json.loads(lines[-1])
    return {name: cards for name, cards in seen.items() if cards}


# -- a process and all that it starts ----------------------------------------------------------------------------------


#: seconds to end by themselves after SIGTERM
PATIENCE = 3.0
_PAUSE = 0.02


class ProcessTree:
    """`mark` is an entry of the environment (`NAME=value`) that no other process has.

    A process group is not enough: torchrun puts each worker into a session of its own, and so do daemons.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: Path | None, output: IO[bytes], mark: str
    ) -> None:
        self._mark = os.fsencode(mark)
        #: the marked ones that were seen; one that dies loses its environment before it is dead
        self._seen: set[_Process] = set()
        flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        self.process = subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=os.name == "posix",
            creationflags=flags,
        )

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None if it is still running after so long."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """Ask all of them to stop; after a while, insist. Also right when the first has ended and left others."""
        if os.name != "posix":
            self._end_on_windows()
            return
        members = self._members()
        if not members and self.process.poll() is not None:
            time.sleep(_PAUSE)  # one that is about to begin has no environment yet
            if not (members := self._members()):
                return
        self._signal(members, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.process.poll() is not None and not self._members():
                return
            time.sleep(_PAUSE)
        self.kill()

    def kill(self) -> None:
        """End all of them now."""
        if os.name != "posix":
            self._end_on_windows()
            return
        for _ in range(50):  # one may have started another in between
            members = self._members()
            if not members and self.process.poll() is not None:
                return
            self._signal(members, signal.SIGKILL)
            self.wait(_PAUSE)
            time.sleep(_PAUSE)

    def _signal(self, members: set[int], number: signal.Signals) -> None:
        first = [self.process.pid] if self.process.poll() is None else []
        for pid in {*members, *first}:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                pass  # gone in the meantime, or made itself another user's

    def _members(self) -> set[int]:
        """All but the first process and those that are dead and only wait to be collected."""
        rows = _process_table()
        self._seen = {row for row in rows if row in self._seen or _is_marked(row, self._mark)}
        marked = {row.pid for row in self._seen}
        return (marked | self._related(rows)) - {self.process.pid, os.getpid()}

    def _related(self, rows: Sequence[_Process]) -> set[int]:
        """The group of the first process; while that is there to be their parent, its descendants and theirs too."""
        first = self.process.pid
        if self.process.poll() is not None:
            return {row.pid for row in rows if row.group == first}
        members = {first}
        while True:
            more = {row.pid for row in rows if row.parent in members or row.group in members}
            if more <= members:
                return members
            members |= more

    def _end_on_windows(self) -> None:
        if self.process.poll() is None:
            command = ["taskkill", "/F", "/T", "/PID", str(self.process.pid)]
            subprocess.run(command, capture_output=True, check=False)
            self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class _Process:
    """A living process. Known by its number and when it began: numbers are given again, and parents change."""

    pid: int
    began: str
    parent: int = field(compare=False)
    group: int = field(compare=False)


def _process_table() -> list[_Process]:
    if sys.platform == "linux":
        return [row for name in os.listdir("/proc") if name.isdigit() and (row := _row(int(name)))]
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat=,lstart="], capture_output=True, text=True, check=False
    )
    rows = [line.split(None, 4) for line in listing.stdout.splitlines()]
    return [_Process(int(r[0]), r[4], int(r[1]), int(r[2])) for r in rows if len(r) == 5 and not r[3].startswith("Z")]


def _row(pid: int) -> _Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, parent, group, *rest = text.rpartition(")")[2].split()  # the name, in parentheses, may hold anything
    return None if state in "ZX" else _Process(pid, rest[16], int(parent), int(group))


def _is_marked(process: _Process, mark: bytes) -> bool:
    """Its environment holds the mark."""
    try:
        with open(f"/proc/{process.pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False  # gone, another user's, or a system that does not say


# -- the run -----------------------------------------------------------------------------------------------------------


_BOOTSTRAP = Path(__file__).parents[1] / "bootstrap.py"
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
class Job(Conditions):
    """What to run, and how."""

    script: Path
    #: seconds
    limit: float = 300.0
    #: more than one: through torchrun
    nproc: int = 1
    #: where it runs; None: here
    cwd: Path | None = None
    #: how it is started, if that is known: as `python -m package.train`, from the folder that holds the package
    entry: Entry | None = None


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


def _attempt(job: Job, on_output: Callable[[str], None] | None) -> tuple[Outcome, ending.Ending | None]:
    folder = Path(tempfile.mkdtemp(prefix="gradlint-run-"))
    try:
        return _run_in(folder, job, on_output)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_in(folder: Path, job: Job, on_output: Callable[[str], None] | None) -> tuple[Outcome, ending.Ending | None]:
    told = _orders(folder, job)
    path = str(told.write())
    printed = folder / "output.txt"
    began = time.monotonic()
    with printed.open("wb") as output:
        tree = ProcessTree(_command(job, folder), _environment(job, path), job.cwd, output, f"{orders.VARIABLE}={path}")
        code = _watch(tree, began + job.limit, ending.Follower(printed, on_output), ending.Patience(folder, _REST))
    seconds = time.monotonic() - began
    failures = ending.endings(folder)
    recordings = load(folder)
    text = ending.without_torchrun(ending.end_of(printed)) if job.nproc > 1 else ending.end_of(printed)
    if code and (ending.forget_lost_ranks(recordings) or ending.were_stopped(recordings)):
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
    place = job.entry or orders.examine(script, Overlay(overlay).read(str(script)))
    conditions: dict[str, Any] = {each.name: getattr(job, each.name) for each in fields(Conditions)}
    conditions["overlay"] = overlay
    return Orders(str(folder), str(script), place.module, place.home, place.paths, **conditions)


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


def _watch(tree: ProcessTree, deadline: float, follower: ending.Follower, patience: ending.Patience) -> int | None:
    """The exit code, or None if the time was over. What was left behind is ended in any case."""
    with _leaving_when_told():
        try:
            code = None
            while code is None and (left := deadline - time.monotonic()) > 0:
                code = tree.wait(min(_LOOK_EVERY, left))
                follower.look()
                if code is None and patience.is_over():
                    code = 0
            tree.end()
            follower.look(last=True)
        except BaseException:  # also Ctrl-C: the others are in a group of their own, and have not heard of it
            tree.kill()
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


def _traceback(failures: list[ending.Ending], code: int | None, output: str) -> str:
    """That of the process that failed first; else, of a process that could not tell us, the last one it printed."""
    if failures:
        return failures[0].traceback
    if not code:
        return ""
    _, head, tail = output.rpartition("Traceback (most recent call last):\n")
    return ending.without_our_frames(head + tail) if head else ""


def _troubles(folder: Path, code: int | None) -> list[str]:
    found = ending.troubles(folder)
    if found and code == orders.TROUBLE:
        raise LaunchError(next(iter(found.values())))
    last = [text.strip().splitlines()[-1] for text in found.values()]
    return [f"a process that the script started was not recorded: {line}" for line in last]
