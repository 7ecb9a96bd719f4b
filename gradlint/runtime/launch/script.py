"""The process that runs the script: what `python script.py` does, with the recorder in place before the first line.

The Python processes that a script starts are recorded too, and run the same fixed sources.
"""

from __future__ import annotations

import atexit
import builtins
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING

from gradlint.runtime.launch import orders
from gradlint.runtime.launch.ending import Ending, elsewhere, note_trouble, tell, trimmed
from gradlint.runtime.launch.orders import TROUBLE, Imports, Orders, Overlay, same

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder


_RUNTIME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: holds our `sitecustomize`
_SITE = os.path.join(_RUNTIME, "site")
_BOOTSTRAP = os.path.join(_RUNTIME, "bootstrap.py")


def prepare() -> None:
    """Python processes that this one starts will call `watch` before anything else."""
    given = os.environ.get("PYTHONPATH")
    folders = [_SITE, *(given.split(os.pathsep) if given else ())]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(folders))


def watch() -> None:
    """In a child: the recorder will start as soon as torch has been imported, if it ever is."""
    path = os.environ.get(orders.VARIABLE, "")
    if not os.path.exists(path) or (sys.argv and same(sys.argv[0]) == same(_BOOTSTRAP)):
        return
    told = orders.read(path)
    _restart_with_the_copy(told)
    Overlay(told.overlay).install()
    imports = Imports()
    imports.when("torch", lambda module: _begin(told, imports))
    sys.meta_path.insert(0, imports)


def as_plain_script(told: Orders, command: Sequence[str]) -> Orders:
    """The orders for another script, as `python script.py …` would run it."""
    script = os.path.abspath(command[0])
    real = script if os.name == "nt" else os.path.realpath(script)
    return replace(told, script=script, arguments=tuple(command[1:]), module="", home=os.path.dirname(real), paths=())


def _restart_with_the_copy(told: Orders) -> None:
    """`python train.py` reads its script in a way that no Python code can change: begin again with the bootstrap."""
    if os.name != "posix" or not sys.argv or sys.argv[0] in {"", "-", "-c", "-m"}:
        return
    if same(sys.argv[0]) not in {same(original) for original in told.overlay}:
        return
    options = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv)]
    os.execv(sys.executable, [sys.executable, *options, _BOOTSTRAP, *sys.argv])


def _begin(told: Orders, imports: Imports) -> None:
    """torch is there, in a child, which must never fail because of us."""
    if imports not in sys.meta_path:
        return
    sys.meta_path.remove(imports)
    try:
        session = begin(told)
    except Exception:
        note_trouble(told.folder, traceback.format_exc())
        return
    atexit.register(session.close)
    hook = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not session.has_enough:
            session.ended = "raised", 1, error
        hook(kind, error, trace)

    sys.excepthook = excepthook


# -- the recorder ------------------------------------------------------------------------------------------------------


@dataclass
class Session:
    """The recorder of this process, from its start to its end."""

    recorder: Recorder
    #: its end; only the first call counts
    finish: Callable[..., None]
    #: how the script ended, its exit code, and what it raised
    ended: tuple[str, int, BaseException | None] = ("finished", 0, None)

    @property
    def has_enough(self) -> bool:
        """The recorder has seen as many steps as were wanted: whatever leaves the script now, we have begun it."""
        return self.recorder.stopped

    def close(self) -> None:
        """After threads that still run, and what the script does at exit."""
        self.finish(*self.ended)


def begin(told: Orders) -> Session:
    """Imports torch, and the recorder with it."""
    from gradlint.runtime import redirect
    from gradlint.runtime.recorder import process

    recorder = process.start(told)
    if redirect.needed(told.device):
        pretence = redirect.Pretence(told.pretended, recorder.places.is_own_file)
        redirect.install(recorder.note, recorder.imports.when, pretence)
    return Session(recorder, process.finish)


# -- the script --------------------------------------------------------------------------------------------------------


#: seconds that a script has, once it was stopped, for its threads, its children and what it does at exit
GRACE = 10.0


def run(instead: Sequence[str]) -> None:
    """Runs the script that was ordered, or another one with its arguments, to its end."""
    told = orders.read(os.environ[orders.VARIABLE])
    if instead:
        told = as_plain_script(told, instead)
    overlay = Overlay(told.overlay)
    overlay.install()
    prepare()
    try:
        session = begin(told)
    except Exception:  # what goes wrong is told to the one who started us
        note_trouble(told.folder, traceback.format_exc())
        sys.exit(TROUBLE)
    atexit.register(session.close)  # the first to be registered is the last to be called
    try:
        _execute(told, overlay)
    except BaseException as error:
        if session.has_enough:
            session.ended = "enough", 0, None
            _leave_soon(session)
            sys.exit(0)
        if isinstance(error, SystemExit):
            session.ended = "exit", _exit_code(error.code), None
            raise
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
        session.ended = "raised", code, error
        _report(error, told)
        sys.exit(code)


def _execute(told: Orders, overlay: Overlay) -> None:
    sys.argv[:] = [told.script, *told.arguments]
    if not getattr(sys.flags, "safe_path", False) or told.module:
        sys.path.insert(0, told.home)
    sys.path.extend(folder for folder in told.paths if folder not in sys.path)
    spec = _spec(told)
    overlay.show(told.script)
    code: CodeType = compile(overlay.read(told.script), told.script, "exec", dont_inherit=True)
    main = _main(told, spec)
    if told.script.endswith(".ipynb"):  # IPython's own names, which have nobody to show anything to
        main.__dict__.update(get_ipython=lambda: None, display=lambda *objects, **options: None)
    exec(code, main.__dict__)


def _spec(told: Orders) -> importlib.machinery.ModuleSpec | None:
    """That of a script which is a module of its package; the package is imported, as `python -m` does."""
    if not told.module:
        return None
    if "." in told.module:
        importlib.import_module(told.module.rpartition(".")[0])
    loader = importlib.machinery.SourceFileLoader(told.module, told.script)
    return importlib.util.spec_from_file_location(told.module, told.script, loader=loader)


def _main(told: Orders, spec: importlib.machinery.ModuleSpec | None) -> ModuleType:
    """A fresh `__main__`. Processes that it spawns look at `__spec__` and `__file__` to find it again."""
    main = ModuleType("__main__")
    main.__file__ = told.script
    main.__spec__ = spec
    main.__package__ = spec.parent if spec else None
    main.__loader__ = spec.loader if spec else importlib.machinery.SourceFileLoader("__main__", told.script)
    main.__dict__.update(__builtins__=builtins, __cached__=None)
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    return main


def _report(error: BaseException, told: Orders) -> None:
    """On stderr as Python would, or as the script wants it; and for the one who started us."""
    text = tell(error)
    home = os.path.dirname(told.script)
    Ending(time.time(), text, elsewhere(error, home)).write(told.folder)
    if sys.excepthook is sys.__excepthook__:
        sys.stderr.write(text)
    else:
        error = error.with_traceback(trimmed(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
    sys.stderr.flush()


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    return code if isinstance(code, int) else 1


def _leave_soon(session: Session) -> None:
    """The loop was broken off, so that threads and children may wait for ever for what will not come."""

    def leave() -> None:
        session.close()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)

    timer = threading.Timer(GRACE, leave)
    timer.daemon = True
    timer.start()
