"""Puts our functions in the place of torch's, also in modules that are loaded later, and takes them all out again."""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from gradlint.runtime.launch import orders
from gradlint.runtime.recording import Warned

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder


def _find(name: str) -> Any:
    try:
        return getattr(importlib.import_module("torch._C._dynamo.eval_frame"), name, None)
    except ImportError:
        return None


_set_callback = _find("set_eval_frame")
#: `torch.compile` takes this for a constant: of our functions it sees nothing but the call of the original
is_compiling: Callable[[], bool] = getattr(torch.compiler, "is_compiling", lambda: False)


def pause() -> Any:
    """No frame is compiled until `resume` is called with what this returns."""
    return _set_callback(None) if _set_callback is not None else None


def resume(callback: Any) -> None:
    if _set_callback is not None:
        _set_callback(callback)


def never_compile(function: Callable[..., Any]) -> None:
    """This function is run as it stands, always, also where a compiled one calls it; what it calls may be compiled."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    skip, strategy = _find("skip_code"), _find("_FrameExecStrategy")  # the first of older versions of torch
    if skip is not None:
        skip(function.__code__)
    elif strategy is not None:
        action = _find("_FrameAction")
        _find("set_code_exec_strategy")(function.__code__, strategy(action.SKIP, action.DEFAULT))


# -- patches -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Request:
    """A call of a function that is watched, before it is carried out."""

    recorder: Recorder
    original: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def carry_out(self) -> Any:
        return self.original(*self.args, **self.kwargs)

    @property
    def owner(self) -> Any:
        """Whose method it is."""
        return self.args[0]

    def argument(self, position: int, name: str) -> Any:
        """None if it was not given."""
        return self.kwargs[name] if name in self.kwargs else self.args[position] if len(self.args) > position else None

    def put(self, position: int, name: str, value: Any) -> None:
        """Something else in the place of an argument."""
        if len(self.args) > position:
            self.args = (*self.args[:position], value, *self.args[position + 1 :])
        else:
            self.kwargs = {**self.kwargs, name: value}


#: what is called in place of a function
Handler = Callable[[Request], Any]
_ABSENT = object()


def in_pieces(request: Request) -> Any:
    """In place of `torch.compile`: what is never compiled may stand amid a function that was to be one whole graph."""
    request.kwargs = {**request.kwargs, "fullgraph": False}
    return request.carry_out()


def afterwards(what: str, act: Callable[[Request], None]) -> Handler:
    """Of a call that nobody is told of: what it has changed is noted."""

    def handler(request: Request) -> Any:
        result = request.carry_out()
        with request.recorder.guard(what):
            act(request)
        return result

    return handler


class Current:
    """The recorder at work in this process, if any.

    Our functions ask for it when they are called, for code may hold on to them longer than a recorder lives: a
    learning-rate scheduler keeps the `step` that it found on its optimizer.
    """

    recorder: Recorder | None = None


def watched(original: Callable[..., Any], handler: Handler, *, compiled: bool = True) -> Callable[..., Any]:
    """`original`, with `handler` in between while a recorder is at work.

    Code that is compiled calls the original, and nothing is seen of it; with `compiled=False` it is never compiled.
    """
    return _traced(original, handler) if compiled else _interpreted(original, handler)


def _traced(original: Callable[..., Any], handler: Handler) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        recorder = Current.recorder
        if recorder is None or recorder.silent:
            return original(*args, **kwargs)
        return handler(Request(recorder, original, args, kwargs))

    wrapper.gradlint_original = original  # type: ignore[attr-defined]
    return wrapper


def _interpreted(original: Callable[..., Any], handler: Handler) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        recorder = Current.recorder
        if recorder is None or recorder.silent:
            return original(*args, **kwargs)
        callback = pause()
        try:
            return handler(Request(recorder, original, args, kwargs))
        finally:
            resume(callback)

    wrapper.gradlint_original = original  # type: ignore[attr-defined]
    never_compile(wrapper)
    return wrapper


def subclasses(kind: Any) -> Iterator[Any]:
    """All that there are, at any depth."""
    for below in kind.__subclasses__():
        yield below
        yield from subclasses(below)


def is_watched(function: Any) -> bool:
    return hasattr(function, "gradlint_original")


class Patches:
    """All that was changed, so that it can be undone."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._everywhere: dict[int, tuple[Any, Any]] = {}

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a class or a module."""
        held = vars(owner).get(name, _ABSENT)

        def undo() -> None:
            if vars(owner).get(name) is not value:
                return  # somebody has wrapped ours, which does nothing from now on
            if held is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, held)

        setattr(owner, name, value)
        self._undo.append(undo)

    def watch(self, owner: Any, name: str, handler: Handler, *, compiled: bool = True) -> None:
        """Watch a function that `owner` itself defines; once is enough."""
        original = vars(owner).get(name)
        if original is None or is_watched(original):
            return
        if isinstance(original, staticmethod | classmethod):
            raise TypeError(f"{name} is no plain function")
        self.put(owner, name, watched(original, handler, compiled=compiled))

    def watch_everywhere(self, owner: Any, name: str, handler: Handler, *, compiled: bool = True) -> None:
        """Watch a function of a module, wherever it is bound."""
        original = vars(owner).get(name)
        if original is not None and not is_watched(original) and id(original) not in self._everywhere:
            self.put_everywhere(original, watched(original, handler, compiled=compiled))

    def put_everywhere(self, original: Any, ours: Any) -> None:
        """In the place of a function in its module, and wherever a loaded module has bound it under a name of its own.

        It takes effect with `bind`: one walk through all modules for all such functions.
        """
        self._everywhere[id(original)] = (original, ours)

    def bind(self) -> None:
        pairs = list(self._everywhere.values())
        self._everywhere.clear()
        rebind(pairs)
        self._undo.append(lambda: rebind([(ours, original) for original, ours in pairs]))

    def also(self, undo: Callable[[], None]) -> None:
        """Something else to be undone."""
        self._undo.append(undo)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


def rebind(pairs: list[tuple[Any, Any]]) -> None:
    """Replace functions in the namespaces of all loaded modules."""
    new = {id(old): replacement for old, replacement in pairs}
    for module in loaded():
        names = getattr(module, "__dict__", None)
        if isinstance(names, dict):
            found = [name for name, value in list(names.items()) if id(value) in new]
            for name in found:
                names[name] = new[id(names[name])]


def loaded() -> list[Any]:
    """All modules."""
    return list(sys.modules.values())


# -- modules that are loaded later -------------------------------------------------------------------------------------


class Imports(orders.Imports):
    """What is patched once the user's code has imported it."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def install(self) -> None:
        sys.meta_path.insert(0, self)
        self.recorder.patches.also(lambda: sys.meta_path.remove(self))

    def when(self, name: str, act: Callable[[Any], None]) -> None:
        def guarded(module: Any) -> None:
            with self.recorder.guard(f"the import of {name}"):
                act(module)

        super().when(name, guarded)

    def watch(self, module: str, owner: str, name: str, handler: Handler) -> None:
        """Watch a method of a class of such a module; some versions may lack the class."""

        def patch(loaded: Any) -> None:
            if (holder := getattr(loaded, owner, None)) is not None:
                self.recorder.patches.watch(holder, name, handler)

        self.when(module, patch)


# -- warnings ----------------------------------------------------------------------------------------------------------


_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
#: what is worth telling of all that torch warns of
_TOPIC = re.compile(
    r"optimizer|scheduler|\bclip|\bamp\b|autocast|GradScaler|gradient|\.grad\b|zero_grad", re.IGNORECASE
)


class Warnings:
    """Stands in for `warnings.warn`."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._told: set[tuple[str, object]] = set()

    def install(self) -> None:
        original = warnings.warn

        def warn(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **more: Any) -> None:
            caller = sys._getframe(1)
            recorder = Current.recorder
            if recorder is not None and not recorder.silent:
                with recorder.guard("a warning"):
                    recorder.warnings.told(message, category, caller)
            original(message, category, _level(caller, stacklevel) + 1, source, **more)

        self.recorder.patches.put(warnings, "warn", warn)

    def told(self, message: Any, category: Any, caller: FrameType) -> None:
        text = str(message)
        if not _from_torch(caller, text) or not _TOPIC.search(text):
            return
        kind = type(message) if isinstance(message, Warning) else category or UserWarning
        places = self.recorder.here(caller)
        key = (text, (places[0].file, places[0].line) if places else None)
        if key not in self._told:
            self._told.add(key)
            self.recorder.emit(Warned, places=places, category=kind.__name__, message=text[:300])


def _from_torch(frame: FrameType, text: str) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    # a deprecated function of torch warns from inside the decorator
    return name == "torch" or name.startswith("torch.") or (name == "typing_extensions" and "torch" in text)


def _level(caller: FrameType, level: int) -> int:
    """The level that reaches the same frame over those of ours in between."""
    if caller.f_code.co_filename.startswith(_HERE):
        return level
    at: FrameType | None = caller
    real = 0
    while at is not None and level > 0:
        real += 1
        level -= not at.f_code.co_filename.startswith(_HERE)
        at = at.f_back
    return real + level
