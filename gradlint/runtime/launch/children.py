"""The Python processes that a script starts: they are recorded too, and run the same fixed sources."""

from __future__ import annotations

import atexit
import dataclasses
import importlib.abc
import importlib.machinery
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType

from gradlint.runtime.launch import orders
from gradlint.runtime.launch.ending import note_trouble
from gradlint.runtime.launch.orders import Orders, Overlay, same

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
    sys.meta_path.insert(0, _TorchWatch(told))


def as_plain_script(told: Orders, command: Sequence[str]) -> Orders:
    """The orders for another script, as `python script.py …` would run it."""
    script = os.path.abspath(command[0])
    real = script if os.name == "nt" else os.path.realpath(script)
    return dataclasses.replace(
        told, script=script, arguments=tuple(command[1:]), module="", home=os.path.dirname(real), paths=()
    )


def _restart_with_the_copy(told: Orders) -> None:
    """`python train.py` reads its script in a way that no Python code can change: begin again with the bootstrap."""
    if os.name != "posix" or not sys.argv or sys.argv[0] in {"", "-", "-c", "-m"}:
        return
    if same(sys.argv[0]) not in {same(original) for original in told.overlay}:
        return
    options = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv)]
    os.execv(sys.executable, [sys.executable, *options, _BOOTSTRAP, *sys.argv])


class _TorchWatch(importlib.abc.MetaPathFinder):
    """Finds torch with the help of the others, and begins to record when its import is done."""

    def __init__(self, told: Orders) -> None:
        self._told = told

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)) is not None:
                if spec.loader is not None:
                    self._follow(spec.loader)
                return spec
        return None

    def _follow(self, loader: importlib.abc.Loader) -> None:
        """A spec may be asked for without an import, so that only the end of the import says that torch is there."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                _begin(self._told)

        setattr(loader, "exec_module", exec_module)  # noqa: B010 - a plain assignment is not typed


def _begin(told: Orders) -> None:
    """A child must never fail because of us."""
    try:
        from gradlint.runtime.launch import inside

        session = inside.begin(told)
    except Exception:
        note_trouble(told.folder, traceback.format_exc())
        return
    atexit.register(session.close)

    def failed(error: BaseException) -> None:
        if not session.has_enough:
            session.ending("raised", 1, error)

    sys.excepthook = _noting(sys.excepthook, failed)


def _noting(
    hook: Callable[[type[BaseException], BaseException, TracebackType | None], object],
    note: Callable[[BaseException], object],
) -> Callable[[type[BaseException], BaseException, TracebackType | None], object]:
    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> object:
        note(error)
        return hook(kind, error, trace)

    return excepthook
