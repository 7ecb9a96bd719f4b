"""Whose code is it, and which line: the frames of the user's code that led to something."""

from __future__ import annotations

import dis
import functools
import os
import site
import sys
import sysconfig
from types import CodeType, FrameType

from gradlint.runtime.launch.orders import same
from gradlint.runtime.recording import Place

#: frames of the user's code that are kept of each stack
DEPTH = 12

#: instructions that do nothing of interest here
_SILENT = frozenset({"CACHE", "NOT_TAKEN", "PUSH_NULL", "EXTENDED_ARG"})

#: packages that work on gradients in the user's name, and are watched as such
_FRAMEWORKS = frozenset(
    {"accelerate", "lightning", "lightning_fabric", "pytorch_lightning", "deepspeed", "transformers"}
)

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class _Call:
    """Marks one call of a function, for as long as its frame lives.

    It is kept in the frame's `f_trace`, which nothing looks at unless a debugger runs; then it is called, and does
    nothing. A number by the frame's address would not do: the next call of a function often gets the same one.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        return None


class Places:
    """Tells the user's frames from those of torch, the standard library, installed packages and gradlint."""

    def __init__(self, script: str = "", own: tuple[str, ...] = ()) -> None:
        self._script = _real(script) if script else ""
        self._own = tuple(_real(folder) for folder in own)
        self._foreign = _foreign_folders()
        self._known: dict[str, bool] = {}
        self._packages: dict[str, bool] = {}
        torch = sys.modules.get("torch")
        self._torch = _real(os.path.dirname(torch.__file__)) if torch is not None and torch.__file__ else os.devnull
        self._calls = 0

    def is_own(self, code: CodeType) -> bool:
        """Is it the user's?"""
        return self.is_own_file(code.co_filename)

    def is_ours(self, name: str) -> bool:
        """Is it gradlint's?"""
        return not self.is_own_file(name) and _within(_real(name), _real(_PACKAGE))

    def is_own_file(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._judge(name)
        return known

    def _judge(self, name: str) -> bool:
        if name.startswith("<"):
            return name.startswith("<ipython") or name == "<stdin>"
        path = _real(name)
        if path == self._script or any(_within(path, folder) for folder in self._own):
            return True
        if _within(path, _real(_PACKAGE)) or any(_within(path, folder) for folder in self._foreign):
            return False
        parts = path.replace("\\", "/").split("/")
        return "site-packages" not in parts and "dist-packages" not in parts

    def on_behalf(self, frame: FrameType) -> FrameType | None:
        """The user's frame that this one works for: itself, or the caller of an installed package's function."""
        at: FrameType | None = frame
        while at is not None and not self.is_own(at.f_code):
            name = str(at.f_globals.get("__name__", "")).partition(".")[0]
            if name in _FRAMEWORKS or not self._is_package(at.f_code.co_filename):
                return None
            at = at.f_back
        return at

    def _is_package(self, name: str) -> bool:
        """A file of an installed package that is not torch, nor the standard library's, nor ours."""
        known = self._packages.get(name)
        if known is None:
            path = _real(name)
            parts = path.replace("\\", "/").split("/")
            installed = "site-packages" in parts or "dist-packages" in parts
            known = self._packages[name] = installed and not _within(path, self._torch) and not self.is_ours(name)
        return known

    def here(self, frame: FrameType | None = None) -> tuple[Place, ...]:
        """The user's frames, the innermost first."""
        found: list[Place] = []
        at = frame if frame is not None else sys._getframe(1)
        while at is not None and len(found) < DEPTH:
            if self.is_own(at.f_code):
                code = at.f_code
                name = getattr(code, "co_qualname", code.co_name)
                found.append(Place(code.co_filename, at.f_lineno or 0, name, self._number(at)))
            at = at.f_back  # type: ignore[assignment]
        return tuple(found)

    def _number(self, frame: FrameType) -> int:
        mark = frame.f_trace
        if isinstance(mark, _Call):
            return mark.number
        if mark is not None:
            return id(frame)  # a debugger or a coverage tool has the place: two calls may then share a number
        self._calls += 1
        frame.f_trace = _Call(self._calls)
        return self._calls


_real = functools.lru_cache(maxsize=4096)(same)


def _within(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def _foreign_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib") if name in paths}
    folders.add(os.path.dirname(os.__file__))
    folders.update(getattr(site, "getsitepackages", list)())
    folders.add(site.getusersitepackages() or "")
    torch = sys.modules.get("torch")
    if torch is not None and torch.__file__:
        folders.add(os.path.dirname(torch.__file__))
    return tuple(_real(folder) for folder in folders if folder)


@functools.lru_cache(maxsize=4096)
def what_follows(code: CodeType, instruction: int) -> tuple[str, ...]:
    """What the code does with the attribute it has just loaded: names of attributes, then perhaps "is None"."""
    names: list[str] = []
    # `instruction` may point into the cache behind the one it means
    rest = [step for step in dis.get_instructions(code) if step.offset > instruction and step.opname not in _SILENT]
    for step, after in zip(rest, [*rest[1:], None], strict=True):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            names.append(str(step.argval))
            continue
        compares = after is not None and after.opname == "IS_OP"
        asks = "IF_NONE" in step.opname or "IF_NOT_NONE" in step.opname
        if asks or (compares and step.opname == "LOAD_CONST" and step.argval is None):
            names.append("is None")
        break
    return tuple(names)
