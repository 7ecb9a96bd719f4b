"""The folders of a project: where they begin, and the way to their files. Nothing outside of them is read."""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

#: no module is larger
MOST_BYTES = 400_000
#: a file written this shortly ago may be written again within the same tick of the clock
_RACY_NS = 2_000_000_000

#: texts that count instead of what is on the disk, by path, and how often they have changed
_texts: dict[str, bytes] = {}
_changes = 0


@contextmanager
def overlaid(texts: Mapping[str, bytes]) -> Iterator[None]:
    """Other texts than those on the disk count meanwhile: what an editor has open, or what came through stdin."""
    before = dict(_texts)
    _count_change()
    _texts.update(texts)
    try:
        yield
    finally:
        _count_change()
        _texts.clear()
        _texts.update(before)


def lay_over(path: str, text: bytes | None) -> None:
    """From now on this text counts for a file; None: its own does again."""
    _count_change()
    if text is None:
        _texts.pop(path, None)
    else:
        _texts[path] = text


def _count_change() -> None:
    global _changes
    _changes += 1


#: while the disk is taken for unchanged: what is known of it, and how often other texts had been laid over it then
_known: dict[tuple[str, ...], object] | None = None
_since = 0


@contextmanager
def steady() -> Iterator[None]:
    """Nobody writes files meanwhile: what was seen of them counts for all analyses."""
    global _known
    before, _known = _known, {}
    try:
        yield
    finally:
        _known = before


def stay_steady() -> None:
    """The same for a process that ends before somebody writes."""
    global _known
    _known = {} if _known is None else _known


def shared() -> dict[tuple[str, ...], object] | None:
    """Where to keep what was seen below some folders; None if somebody may write."""
    global _since
    if _known is not None and _since != _changes:
        _since = _changes
        _known.clear()
    return _known


def text_over(path: str) -> bytes | None:
    """The text that counts instead of a file's own; None if its own does."""
    return _texts.get(path)


class Roots:
    """Folders whose files may be read, and the way to them: nothing outside of them is, by whatever link.

    A folder is listed once, and what a file held when it was first asked for counts as long as this is used.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self.folders = tuple(dict.fromkeys(os.path.abspath(folder) for folder in folders))
        self._below = tuple(os.path.join(folder, "") for folder in self.folders)
        self._real = tuple(os.path.join(os.path.realpath(folder), "") for folder in self.folders)
        self._real_folders: dict[str, str] = {}
        self._listed: dict[str, frozenset[str]] = {}
        self._digests: dict[str, str | None] = {}
        self._probes: dict[str, str] = {}
        self._modules: dict[str, tuple[str | None, tuple[str, ...]]] = {}
        self._answers: dict[str, str | None] = {}

    def has(self, path: str) -> bool:
        """Whether there is such a module."""
        if path in self._digests:
            return self._digests[path] is not None
        if not _texts or text_over(path) is None:
            folder, _, name = path.rpartition(os.sep)
            if name not in self._names_in(folder):
                self._digests[path] = None
                return False
        return self.digest(path) is not None

    def module(self, stem: str) -> tuple[str | None, tuple[str, ...]]:
        """The file of a module, or that of a package, and what was asked to know it."""
        if stem not in self._modules:
            self._modules[stem] = self._module(stem)
        return self._modules[stem]

    def _module(self, stem: str) -> tuple[str | None, tuple[str, ...]]:
        probes: list[str] = []
        for path in (f"{stem}.py", f"{stem}{os.sep}__init__.py"):
            probes.append(self.probe(path))
            if self.has(path):
                return path, tuple(probes)
        return None, tuple(probes)

    def may_have(self, folder: str, names: frozenset[str]) -> bool:
        """Whether something of one of these names stands in a folder."""
        return not names.isdisjoint(self._names_in(folder)) or bool(_texts)

    def probe(self, path: str) -> str:
        """What has to be asked again to know whether a file still is as it was: the file, or, if it is not there, the
        folder where it would be, which ends with a separator."""
        if path not in self._probes:
            self._probes[path] = self._probe(path)
        return self._probes[path]

    def _probe(self, path: str) -> str:
        folder, name = os.path.split(path)
        if text_over(path) is not None or name in self._names_in(folder):
            return path
        while not self._names_in(folder) and self.is_inside(folder):
            above, name = os.path.split(folder)
            if name in self._names_in(above):
                return path  # it is there, and nothing in it counts
            folder = above
        return f"{folder}{os.sep}" if self._names_in(folder) else path

    def is_inside(self, folder: str) -> bool:
        """Below one of the roots, and not a root itself."""
        return folder.startswith(self._below)

    def probe_of_folder(self, folder: str) -> str:
        """What has to be asked again to know that nothing has come into a folder."""
        return f"{folder}{os.sep}" if self._names_in(folder) else folder

    def answer(self, probe: str) -> str | None:
        """What names the content of a file, or the names in a folder; None for what is not there."""
        if probe not in self._answers:
            if probe.endswith(os.sep):
                self._answers[probe] = _digest_of_names(self._names_in(os.path.dirname(probe)))
            else:
                self._answers[probe] = self.digest(probe) if self.has(probe) else None
        return self._answers[probe]

    def digest(self, path: str) -> str | None:
        """What names the content of a file; None for what is not there, is outside, or is too large to be a module."""
        if path not in self._digests:
            self.read(path)
        return self._digests[path]

    def read(self, path: str) -> bytes | None:
        """What is in a file; None for the same."""
        if path in self._digests and self._digests[path] is None:
            return None
        data = self._found(path)
        known = self._digests.setdefault(path, digest_of(data))
        # whoever writes a file in the midst of it is heard the next time
        return data if data is not None and known == digest_of(data) else None

    def _names_in(self, folder: str) -> frozenset[str]:
        """Most of the files that are asked for are not there, and are asked for again and again."""
        if folder not in self._listed:
            self._listed[folder] = self._listing(folder)
        return self._listed[folder]

    def _listing(self, folder: str) -> frozenset[str]:
        above, name = os.path.split(folder)
        if self.is_inside(folder) and name not in self._names_in(above):
            return frozenset()
        try:
            real = os.path.join(self._really_folder(folder), "")
            return frozenset(os.listdir(folder)) if real.startswith(self._real) else frozenset()
        except (OSError, ValueError):
            return frozenset()

    def _really_folder(self, folder: str) -> str:
        if folder not in self._real_folders:
            self._real_folders[folder] = os.path.realpath(folder)
        return self._real_folders[folder]

    def _really(self, path: str) -> str:
        """The same file without links; most of the files that are asked for share their folders."""
        folder, name = os.path.split(path)
        whole = os.path.join(self._really_folder(folder), name)
        return os.path.realpath(path) if os.path.islink(whole) else whole

    def _found(self, path: str) -> bytes | None:
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


def digest_of_folder(folder: str) -> str | None:
    """What names the modules and folders in a folder, as `Roots.answer` says it."""
    try:
        return _digest_of_names(frozenset(os.listdir(folder)))
    except (OSError, ValueError):
        return None


def _digest_of_names(names: frozenset[str]) -> str | None:
    """Of what could be a module or a package, by its name: others come and go."""
    likely = sorted(name for name in names if name.endswith(".py") or name.isidentifier())
    return digest_of("\0".join(likely).encode("utf-8", "surrogateescape")) if names else None


@functools.lru_cache(maxsize=512)
def digest_of(data: bytes | None) -> str | None:
    """What names a content; None of nothing."""
    return None if data is None else hashlib.blake2b(data, digest_size=16).hexdigest()


@functools.lru_cache(maxsize=256)
def _content(path: str, changed: int, size: int) -> bytes:
    """What is in a file; many files ask for the same one."""
    with open(path, "rb") as file:
        return file.read()


@functools.lru_cache(maxsize=4096)
def root_of(folder: str, here: str) -> str:
    """The folder of the project that a folder belongs to: the nearest with a mark of one, else that `here` if it is
    below, as for a tree that was copied without its `.git`; else the folder itself."""
    current = folder
    while True:
        if any(os.path.exists(os.path.join(current, mark)) for mark in (".git", "pyproject.toml", "setup.py")):
            return current
        above = os.path.dirname(current)
        if above == current:
            break
        current = above
    inside = os.path.join(folder, "").startswith(os.path.join(here, ""))
    return here if inside else folder
