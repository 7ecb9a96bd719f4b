"""Replaces a user's file by new text, whole or not at all.

The new text is written beside the file, made safe on the disk, and takes the file's name in one step: no reader, crash
or full disk ever meets half a file. Symbolic links are followed: the file they lead to is replaced, and they stay.
Other hard links to a file keep the old text: they may belong to others (package managers link from their caches), and
no system can replace a file under all its names at once.
"""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

from gradlint.model import Finding, Fixed
from gradlint.runner.files import SourceFile, read_bytes

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
_ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


class WriteError(Exception):
    """Why a file was left as it was, in words for the user."""


def write_whole(path: str, content: bytes, *, mode: int = 0o666) -> None:
    """Put a file of our own there: readers see the old one or the new one, never half of it."""
    temporary = f"{path}.{os.getpid()}.{time.monotonic_ns()}.tmp"
    try:
        with open(os.open(temporary, _NEW, mode), "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


def replace_file(path: str, old: bytes, new: bytes) -> None:
    """Put `new` in the place of `old`; WriteError, and nothing changed, if that fails or the file is not `old` now."""
    try:
        target = os.path.realpath(path)
        status = os.stat(path)
        _refuse_unwritable(target, status)
        with _undisturbed():
            _put(target, status, old, new)
    except FileNotFoundError:
        raise WriteError("it has vanished meanwhile") from None
    except OSError as error:
        raise WriteError(error.strerror or str(error)) from None


def _refuse_unwritable(target: str, status: os.stat_result) -> None:
    """A file without write permission is protected on purpose, though its folder would let us replace it."""
    if not stat.S_ISREG(status.st_mode):
        raise WriteError("it is not a regular file")
    if not status.st_mode & 0o222 or not os.access(target, os.W_OK):
        raise WriteError("it is read-only")
    if not os.access(os.path.dirname(target), os.W_OK):
        raise WriteError("its folder is read-only")


def _put(target: str, status: os.stat_result, old: bytes, new: bytes) -> None:
    folder = os.path.dirname(target)
    # named before it is made: from its first moment on, whatever happens, we know what to remove
    temporary = os.path.join(folder, f".gradlint-{os.urandom(8).hex()}.tmp")
    try:
        _write(temporary, status, target, new)
        if read_bytes(target) != old:
            raise WriteError("it was changed by someone else meanwhile; run gradlint again")
        os.replace(temporary, target)
    finally:
        try:
            os.unlink(temporary)
        except OSError:
            pass  # it has become the file, or it never was
    _sync_folder(folder)


def _write(temporary: str, status: os.stat_result, target: str, new: bytes) -> None:
    """The new text on the disk, with the rights of the file that it is to replace."""
    descriptor = os.open(temporary, _NEW, 0o600)
    try:
        left = memoryview(new)
        while left:
            left = left[os.write(descriptor, left) :]
        _copy_rights(descriptor, status, target)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_rights(descriptor: int, status: os.stat_result, target: str) -> None:
    """Mode always; owner, group, access lists and other attributes as far as this user may give them."""
    if not hasattr(os, "fchown"):
        return  # Windows: the folder's rights hold, and a read-only file was refused
    mode = stat.S_IMODE(status.st_mode)
    try:
        os.fchown(descriptor, status.st_uid, status.st_gid)
    except OSError:
        mode &= 0o777  # a set-user bit must not come to mean another user
    os.fchmod(descriptor, mode)
    for attribute in _attributes(target):
        try:
            os.setxattr(descriptor, attribute, os.getxattr(target, attribute))
        except OSError:
            pass  # one that only the system may set


def _attributes(target: str) -> list[str]:
    try:
        return os.listxattr(target) if hasattr(os, "listxattr") else []
    except OSError:
        return []  # not known to this file system


def _sync_folder(folder: str) -> None:
    """So that the new name survives a power cut; not all systems can, and the text itself is safe already."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        pass


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C and its like wait the few milliseconds until the file is whole and nothing is left beside it."""
    came: list[int] = []

    def later(number: int, frame: FrameType | None) -> None:
        came.append(number)

    usual = {}
    try:
        for number in (getattr(signal, name) for name in _ENDING if hasattr(signal, name)):
            if signal.getsignal(number) is not None:  # one set outside Python could not be put back
                usual[number] = signal.signal(number, later)
    except ValueError:
        pass  # not in the main thread, where signals never come
    try:
        yield
    finally:
        for number, handler in reversed(usual.items()):
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


class FixPlan(NamedTuple):
    """Which fixes a run applies, and whether it writes files or only says what it would write."""

    unsafe: bool = False
    write: bool = True


class FixedFile(NamedTuple):
    """A file that was fixed, or would be."""

    path: str
    before: bytes
    after: bytes
    mended: tuple[Finding, ...]


class Failure(NamedTuple):
    """A file that should have been fixed and was left as it was."""

    path: str
    reason: str


class Fixes:
    """Keeps the account of one run; every file on the disk is fixed under one of its names at a time."""

    def __init__(self, plan: FixPlan) -> None:
        self.plan = plan
        self.files: list[FixedFile] = []
        self.failures: list[Failure] = []
        self._unwritten: dict[str, bytes] = {}
        self._paths: dict[str, str] = {}

    def apart(self, files: list[SourceFile]) -> tuple[list[SourceFile], list[SourceFile]]:
        """Each file of the disk once, under its own name rather than a link's; then all other names, for later."""
        first: dict[str, SourceFile] = {}
        for file in sorted(files, key=lambda file: (self._real(file) != file.path, file.path)):
            first.setdefault(self._real(file), file)
        now = [file for file in files if first[self._real(file)] is file]
        return now, [file for file in files if first[self._real(file)] is not file]

    def _real(self, file: SourceFile) -> str:
        """The file itself, whatever links led to it."""
        if file.path not in self._paths:
            self._paths[file.path] = os.path.realpath(file.path)
        return self._paths[file.path]

    def content(self, file: SourceFile) -> bytes | None:
        """What the file would hold by now, had it been written; else None."""
        return self._unwritten.get(self._real(file))

    def take(self, file: SourceFile, before: bytes, fixed: Fixed) -> bool:
        """Write or keep the new text; whether the file is that text now."""
        if self.plan.write:
            try:
                replace_file(file.path, before, fixed.source)
            except WriteError as error:
                self.failures.append(Failure(file.shown, str(error)))
                return False
        else:
            self._unwritten[self._real(file)] = fixed.source
        self.files.append(FixedFile(file.shown, before, fixed.source, fixed.mended))
        return self.plan.write
