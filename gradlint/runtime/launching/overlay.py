"""Fixed sources run in place of the originals: same `__file__`, other text. Nothing beside the user's files is touched.

Python reads the source of scripts and modules through `io.open_code`, in `runpy` and in `importlib` alike; that is
where another text can be handed out while every path stays what it was.
"""

from __future__ import annotations

import _io
import io
import linecache
import os
import tokenize
from collections.abc import Mapping
from importlib.util import cache_from_source
from typing import IO


def same(path: str) -> str:
    """One spelling for each file."""
    return os.path.normcase(os.path.realpath(path))


class Overlay:
    """Which text runs in place of which file."""

    def __init__(self, copies: Mapping[str, str]) -> None:
        self._copies = {same(original): copy for original, copy in copies.items()}
        #: bytecode of the originals, which Python would think fresh
        self._stale = {same(cache) for original in copies for cache in _caches(original)}
        # most files that are read have nothing to do with it, and a real path costs several system calls
        self._names = {os.path.basename(path) for path in (*self._copies, *self._stale)}

    def read(self, path: str) -> bytes:
        """The source that runs as this file."""
        with open(self._copies.get(same(path), path), "rb") as file:
            return file.read()

    def install(self) -> None:
        """From here on this process reads the copies. To be called once."""
        if not self._copies:
            return
        plain = io.open_code

        def open_code(path: str) -> IO[bytes]:
            if os.path.normcase(os.path.basename(path)) not in self._names:
                return plain(path)
            wanted = same(path)
            if wanted in self._stale:
                raise FileNotFoundError(path)  # importlib then compiles the source
            if wanted in self._copies:
                self._remember_lines(path, wanted)
            return plain(self._copies.get(wanted, path))

        # importlib takes it from the one, runpy from the other
        setattr(_io, "open_code", open_code)  # noqa: B010 - a plain assignment is not typed
        setattr(io, "open_code", open_code)  # noqa: B010

    def _remember_lines(self, path: str, wanted: str) -> None:
        """Tracebacks show the lines that run, not those on the disk; `linecache` never drops an entry without time."""
        try:
            with tokenize.open(self._copies[wanted]) as file:
                lines = file.readlines()
        except (OSError, SyntaxError, UnicodeError):
            return  # the import is about to say so
        linecache.cache[path] = (sum(map(len, lines)), None, lines, path)

    def show(self, path: str) -> None:
        """Let tracebacks show the lines of this file that run."""
        if (wanted := same(path)) in self._copies:
            self._remember_lines(path, wanted)


def _caches(source: str) -> list[str]:
    try:
        return [cache_from_source(source, optimization=level) for level in ("", "1", "2")]
    except NotImplementedError:  # an interpreter that keeps no bytecode
        return []
