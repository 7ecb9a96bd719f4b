"""Putting our functions in the place of torch's, and taking every one of them out again."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradlint.runtime.recorder import compiler

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder

#: what is called in place of a function: the recorder, the function itself, and its arguments
Handler = Callable[["Recorder", Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

_ABSENT = object()


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
        if compiler.is_compiling():
            return original(*args, **kwargs)
        recorder = Current.recorder
        if recorder is None or recorder.silent:
            return original(*args, **kwargs)
        return handler(recorder, original, args, kwargs)

    wrapper.gradlint_original = original  # type: ignore[attr-defined]
    return wrapper


def _interpreted(original: Callable[..., Any], handler: Handler) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        recorder = Current.recorder
        if recorder is None or recorder.silent:
            return original(*args, **kwargs)
        callback = compiler.pause()
        try:
            return handler(recorder, original, args, kwargs)
        finally:
            compiler.resume(callback)

    wrapper.gradlint_original = original  # type: ignore[attr-defined]
    compiler.never_compile(wrapper)
    return wrapper


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
        """Watch a function of a module, and wherever a loaded module has bound it under a name of its own.

        It takes effect with `bind`: one walk through all modules for all such functions.
        """
        original = vars(owner).get(name)
        if original is not None and not is_watched(original) and id(original) not in self._everywhere:
            self._everywhere[id(original)] = (original, watched(original, handler, compiled=compiled))

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
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if isinstance(names, dict):
            found = [name for name, value in list(names.items()) if id(value) in new]
            for name in found:
                names[name] = new[id(names[name])]
