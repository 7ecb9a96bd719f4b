"""The folders of a project: where they begin, and the way to their files. Nothing outside of them is read."""

from __future__ import annotations

import functools
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

#: no module is larger; all that one analysis reads of other files together is not, either
MOST_BYTES = 400_000
#: a file written this shortly ago may be written again within the same tick of the clock
_RACY_NS = 2_000_000_000

#: texts that count instead of what is on the disk, by path
_texts: dict[str, bytes] = {}


@contextmanager
def overlaid(texts: Mapping[str, bytes]) -> Iterator[None]:
    """Other texts than those on the disk count meanwhile: what an editor has open, or what came through stdin."""
    before = dict(_texts)
    _texts.update(texts)
    try:
        yield
    finally:
        _texts.clear()
        _texts.update(before)


def lay_over(path: str, text: bytes | None) -> None:
    """From now on this text counts for a file; None: its own does again."""
    if text is None:
        _texts.pop(path, None)
    else:
        _texts[path] = text


def text_over(path: str) -> bytes | None:
    """The text that counts instead of a file's own; None if its own does."""
    return _texts.get(path)


class Roots:
    """Folders whose files may be read, and the way to them: nothing outside of them is, by whatever link."""

    def __init__(self, folders: Sequence[str]) -> None:
        self.folders = tuple(dict.fromkeys(os.path.abspath(folder) for folder in folders))
        self._real = tuple(os.path.join(os.path.realpath(folder), "") for folder in self.folders)
        self._real_folders: dict[str, str] = {}

    def _really(self, path: str) -> str:
        """The same file without links; most of the files that are asked for share their folders."""
        folder, name = os.path.split(path)
        if folder not in self._real_folders:
            self._real_folders[folder] = os.path.realpath(folder)
        whole = os.path.join(self._real_folders[folder], name)
        return os.path.realpath(path) if os.path.islink(whole) else whole

    def read(self, path: str) -> bytes | None:
        """What is in a file; None for what is not there, is outside, or is too large to be a module."""
        text = text_over(path)
        if text is not None:
            return text if len(text) <= MOST_BYTES else None
        try:
            found = os.stat(path)
            if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
                return None
            real = self._really(path)
            if not real.startswith(self._real):
                return None
            racy = time.time_ns() - found.st_mtime_ns < _RACY_NS
            content = _content.__wrapped__ if racy else _content
            return content(real, found.st_mtime_ns, found.st_size)
        except (OSError, ValueError):
            return None


@functools.lru_cache(maxsize=256)
def _content(path: str, changed: int, size: int) -> bytes:
    """What is in a file; many files ask for the same one."""
    with open(path, "rb") as file:
        return file.read()


@functools.lru_cache(maxsize=4096)
def root_of(folder: str) -> str:
    """The folder of the project that a folder belongs to: the nearest with a mark of one, else the folder itself."""
    current = folder
    while True:
        if any(os.path.exists(os.path.join(current, mark)) for mark in (".git", "pyproject.toml", "setup.py")):
            return current
        above = os.path.dirname(current)
        if above == current:
            return folder
        current = above
