"""The recorder of a process: one, started before the script and finished after it, forks included."""

from __future__ import annotations

import atexit
import os
import random
import sys
from multiprocessing import util as multiprocessing_util
from types import TracebackType

import torch

from gradlint.runtime.launch.orders import Orders
from gradlint.runtime.lines import Writer
from gradlint.runtime.recorder.patches import Current
from gradlint.runtime.recorder.session import Recorder
from gradlint.runtime.recording import Ended, Place, Raised, Recording


class _Running:
    """What this process records."""

    recorder: Recorder | None = None
    writer: Writer | None = None
    finished = False
    hooked = False


def start(orders: Orders) -> Recorder:
    """Installs the recorder of this process; the second time it is the same one."""
    if _Running.recorder is not None:
        return _Running.recorder
    _seed(orders.seed)
    about = Recording(pid=os.getpid(), device=orders.device, torch=torch.__version__)
    writer = Writer(orders.folder, about)
    recorder = Recorder(orders, writer)

    def news() -> None:
        about.notes, about.rank, about.world = list(recorder.notes), recorder.rank, recorder.world
        writer.say_again()

    recorder.on_news = news
    recorder.on_leave = _leave
    recorder.install()
    if not _Running.hooked:  # our functions stand between the user's: what just fitted on the stack has to fit still
        sys.setrecursionlimit(3 * sys.getrecursionlimit())
    news()
    writer.begin()
    _Running.recorder, _Running.writer, _Running.finished = recorder, writer, False
    _hook_ends()
    return recorder


def _seed(seed: int) -> None:
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def finish(how: str, code: int = 0, error: BaseException | None = None) -> None:
    """The last lines of this process: the exception that left the script, if any, and how it ended. The first call
    counts."""
    recorder, writer = _Running.recorder, _Running.writer
    if recorder is None or writer is None or _Running.finished:
        return
    _Running.finished = True
    stopped, recorder.stopped = recorder.stopped, False  # from here on we speak, and nobody is to be stopped
    with recorder.guard("the end"):
        recorder.settle()
        if error is not None and not isinstance(error, SystemExit):
            recorder.emit(
                Raised,
                places=_places(recorder, error.__traceback__),
                type=type(error).__name__,
                message=str(error)[:2000],
            )
        recorder.survey.tell()
        recorder.emit(Ended, places=(), how="enough" if stopped and how == "finished" else how, code=code)
    recorder.stopped = stopped
    writer.close()
    if Current.recorder is recorder:
        recorder.uninstall()
    _Running.recorder = None


def _places(recorder: Recorder, trace: TracebackType | None) -> tuple[Place, ...]:
    frames: list[Place] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if recorder.places.is_own(code):
            frames.append(Place(code.co_filename, trace.tb_lineno or 0, code.co_name))
        trace = trace.tb_next
    return tuple(reversed(frames))[:12]


def _hook_ends() -> None:
    """Processes that end without the bootstrap: spawned and forked ones, and scripts that leave by themselves."""
    if _Running.hooked:
        return
    _Running.hooked = True
    atexit.register(_at_exit)
    # a process of multiprocessing leaves without atexit, and forgets all finalizers before it runs its work
    _finalize(None)
    multiprocessing_util.register_after_fork(_Running, _finalize)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_in_child)


def _finalize(_: object) -> None:
    multiprocessing_util.Finalize(None, _at_exit, exitpriority=100)


def _at_exit() -> None:
    writer = _Running.writer
    if writer is not None and writer.begun:
        finish("finished")


def _in_child() -> None:
    """A forked child has a file of its own, once something happens in it."""
    if _Running.writer is not None and _Running.recorder is not None:
        _Running.writer.forget_parent()
        _Running.recorder.forget_parent()
        _Running.finished = False


def _leave() -> None:
    finish("enough")
    os._exit(0)
