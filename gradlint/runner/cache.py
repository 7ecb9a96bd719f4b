"""Remembers results between runs: one index for each project, read once, written whole, believed only if it is ours.

A result that somebody else wrote could hide findings, so no index is read that came with a checkout: by default it lies
in the user's own cache folder, and wherever it lies, it is signed with a key that lies there.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import stat
import sys
import time
from enum import Enum
from typing import Any, NamedTuple

import gradlint
from gradlint import __version__
from gradlint.config.reading import folders_up
from gradlint.config.settings import Settings
from gradlint.engine import root_for
from gradlint.model import Cell, Edit, FileResult, Finding, Fix, FixSafety, Grade, Position, Related, Severity, Span
from gradlint.python.roots import MOST_BYTES, digest_of_folder, text_over
from gradlint.records import replace
from gradlint.runner.files import SourceFile, Stamp, read_bytes
from gradlint.runner.write import write_whole

_FORMAT = 7
_KEY_SIZE = 32
_LARGEST = 1 << 28
# A file written this shortly before it was read may be written again within the same tick of the clock.
_RACY_NS = 2_000_000_000
_UNUSED_SECONDS = 30 * 24 * 3600
_BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)

Plain = Any  # what `json` reads and writes
#: what results are made of; an index is written with one format only, so their order may change
_TYPES = (FileResult, Finding, Related, Fix, Edit, Span, Position, Cell, Severity, Grade, FixSafety)
_TUPLE = -1


def digest_of(source: bytes) -> str:
    """What names a content."""
    return hashlib.blake2b(source, digest_size=16).hexdigest()


class Kept(NamedTuple):
    """What was found in a file, and the digest of the content that it was found in."""

    digest: str
    result: FileResult


class Cache:
    """The results of earlier runs over the project at `root`, by this installation, for this user."""

    digest_of = staticmethod(digest_of)

    def __init__(self, root: str, folder: str | None = None) -> None:
        self._root = os.path.join(root, "")
        home = user_folder()
        #: None where nothing can be kept
        self.folder = os.path.abspath(folder) if folder else home
        # a home in the very checkout, as some CI systems have it: its key may have come with it
        if home is None or (home.startswith(self._root) and os.path.exists(os.path.join(root, ".git"))):
            self._key = b""
        else:
            self._key = _key(home)
        installation = f"{os.path.dirname(os.path.abspath(gradlint.__file__))}\0{self._root}"
        python = f"py{sys.version_info[0]}{sys.version_info[1]}"
        name = f"gradlint-{__version__}-{python}-{digest_of(os.fsencode(installation))[:16]}.json"
        self.file = os.path.join(self.folder or "", name)
        self._stamp = f"{_FORMAT}-{__version__}-{python}-{source_stamp()}-{installation}"
        self._rows = self._load()
        self._changed: dict[str, Any] = {}
        self._seen: set[str] = set()
        self._now: dict[str, str | None] = {}

    @property
    def usable(self) -> bool:
        """Whether results can be kept: there is a key, and the folder can be written, or made."""
        if not self._key or self.folder is None:
            return False
        there = next(filter(os.path.exists, folders_up(self.folder)), "")
        return os.access(there, os.W_OK)

    def find(self, file: SourceFile, *, parsed: bool) -> Kept | None:
        """What was found in the file last time; `parsed` asks for a result that includes a syntax check.

        A result with fixes serves whoever looks for none, too.
        """
        name = self._name(file.path)
        self._seen.add(name)
        try:
            _, digest, fingerprint, was_parsed, offered, probes, plain = self._rows[name]
            if fingerprint != _fingerprint_of(file) or (parsed and not was_parsed):
                return None
            if file.settings.offers and not offered:
                return None
            if any(self._digest_now(path) != probed for path, probed in probes.items()):
                return None
            return Kept(str(digest), decode(plain, file.shown))
        except _BROKEN:
            return None

    def untouched(self, file: SourceFile) -> bool:
        """Whether the file looks as it did then; if not, its content may still be the same."""
        return self._untouched(self._name(file.path), file.stamp) is not None

    def store(self, file: SourceFile, result: FileResult, digest: str, *, parsed: bool) -> None:
        if result.crashes or result.unreadable:
            return  # both may be cured by a change that no key of the cache can see
        made_of = {self._name(path): probed for path, probed in result.probes}
        entry = [_fingerprint_of(file), parsed, file.settings.offers, made_of, encode(result)]
        self._changed[self._name(file.path)] = [_settled(file.stamp), digest, *entry]

    def touch(self, file: SourceFile) -> None:
        """The content is the same, whatever the file's time says."""
        name = self._name(file.path)
        self._changed[name] = [_settled(file.stamp), *self._rows[name][1:]]

    def save(self) -> None:
        """Write the index whole; what a run at the same time has written since stays."""
        if not self._changed or not self._key or self.folder is None:
            return
        rows = self._without_vanished({**self._load(), **self._changed})
        body = json.dumps({"stamp": self._stamp, "rows": rows}, separators=(",", ":")).encode()
        try:
            if not os.path.exists(self.file):
                _prepare(self.folder)
            write_whole(self.file, b"%s\n%s" % (self._signature(body), body))
        except OSError:
            pass  # a disk that is full or read-only: the next run starts anew

    def _signature(self, body: bytes) -> bytes:
        return hashlib.blake2b(body, digest_size=32, key=self._key).hexdigest().encode()

    def _load(self) -> dict[str, Any]:
        if not self._key:
            return {}
        try:
            signature, _, body = _regular(self.file, _LARGEST).partition(b"\n")
            if signature == self._signature(body):
                index = json.loads(body)
                if index["stamp"] == self._stamp:
                    return dict(index["rows"])
        except (OSError, *_BROKEN):
            pass
        return {}

    def _name(self, path: str) -> str:
        return path[len(self._root) :] if path.startswith(self._root) else path

    def _untouched(self, name: str, stamp: Stamp) -> str | None:
        try:
            then, digest, *_ = self._rows[name]
        except _BROKEN:
            return None
        return str(digest) if then == list(stamp) else None

    def _digest_now(self, name: str) -> str | None:
        """The digest of what a result was made of, as it is now; each is asked once in a run."""
        if name not in self._now:
            path = os.path.join(self._root, name)
            if path.endswith(os.sep):
                self._now[name] = digest_of_folder(path)
                return self._now[name]
            text = text_over(path)
            try:
                known = self._untouched(name, Stamp.of(os.stat(path))) if text is None else None
                self._now[name] = known or digest_of(_regular(path, MOST_BYTES) if text is None else text)
            except OSError:
                self._now[name] = None
        return self._now[name]

    def _without_vanished(self, rows: dict[str, Any]) -> dict[str, Any]:
        """Forget deleted files once they may be half of the index; asking for each would cost every small run."""
        known = len(self._seen | self._changed.keys())
        if known < 100 or len(rows) < 2 * known:
            return rows
        return {name: row for name, row in rows.items() if os.path.exists(os.path.join(self._root, name))}


def user_folder() -> str | None:
    """The user's folder for what can be made anew, where `platformdirs` has it; importing that takes as long as a tenth
    of a small run. None for a user without a home."""
    if sys.platform == "win32":
        above, name = os.environ.get("LOCALAPPDATA", ""), os.path.join("gradlint", "Cache")
    elif sys.platform == "darwin":
        above, name = os.path.expanduser("~/Library/Caches"), "gradlint"
    else:
        above, name = os.environ.get("XDG_CACHE_HOME", ""), "gradlint"
        if not os.path.isabs(above):  # a relative one would lie in the checkout
            above = os.path.expanduser("~/.cache")
    return os.path.join(above, name) if os.path.isabs(above) else None


def _fingerprint_of(file: SourceFile) -> str:
    """Of the settings; and of the folder that names are looked for from, where no setting tells it."""
    found = _fingerprint(file.settings)
    if not file.settings.project or file.settings.root:
        return found
    return f"{found}-{digest_of(os.fsencode(root_for(file.path, file.settings)))[:8]}"


@functools.cache
def _fingerprint(settings: Settings) -> str:
    return digest_of(settings.fingerprint().encode("utf-8", "surrogatepass"))[:16]


def _settled(stamp: Stamp) -> list[int]:
    """What the stamp is compared with next time: nothing, if the file was written just now."""
    return [] if time.time_ns() - stamp.mtime_ns < _RACY_NS else list(stamp)


def _regular(path: str, most: int) -> bytes:
    """A whole file; OSError for a pipe or a device, which might never end, and for what is far too large."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        raise OSError(f"{path}: not a file of ours")
    return read_bytes(path)


def _key(home: str) -> bytes:
    """What this user's results are signed with, made when it is first needed; empty where it cannot be kept."""
    path = os.path.join(home, "key")
    for _ in range(2):  # the second time it is read again: somebody else may have made it at the same time
        try:
            key = _regular(path, _KEY_SIZE)
            if len(key) == _KEY_SIZE:
                return key
        except OSError:
            pass
        try:
            _prepare(home)
            write_whole(path, os.urandom(_KEY_SIZE), mode=0o600)
        except OSError:
            return b""
    return b""


def _prepare(folder: str) -> None:
    """Make the folder if it is not there; else remove indices that nobody has written for long."""
    if not os.path.isdir(folder):
        os.makedirs(folder, mode=0o700)
        write_whole(os.path.join(folder, ".gitignore"), b"# made by gradlint\n*\n")
        tag = b"Signature: 8a477f597d28d172789f06886806bc55\n# This folder was made by gradlint and may be deleted.\n"
        write_whole(os.path.join(folder, "CACHEDIR.TAG"), tag)
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            ours = entry.name.startswith("gradlint-") and entry.name.endswith(".json")
            if ours and time.time() - entry.stat().st_mtime > _UNUSED_SECONDS:
                os.unlink(entry.path)


def source_stamp() -> str:
    """In a checkout the rules change without the version: their times and sizes then name the version."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rules = os.path.join(os.path.dirname(package), "rules")
    if not os.path.exists(os.path.join(rules, "__init__.py")):
        return "released"
    seen: list[tuple[str, int, int]] = []
    pending = [package, rules]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        pending.append(entry.path)
                elif entry.name.endswith(".py"):
                    status = entry.stat()
                    seen.append((entry.path, status.st_mtime_ns, status.st_size))
    return digest_of(repr(sorted(seen)).encode())[:16]


def encode(result: FileResult) -> Plain:
    """As plain JSON values; None for a clean file, the common case, so that an index of thousands stays small."""
    bare = replace(result, path="", probes=())
    return None if bare == FileResult("") else _plain(bare)


def decode(plain: Plain, path: str) -> FileResult:
    """Raises ValueError, TypeError or IndexError on anything that `encode` did not write."""
    result = FileResult("") if plain is None else _made(plain)
    if not isinstance(result, FileResult):
        raise TypeError("no result")
    return replace(result, path=path)


def _plain(value: Any) -> Plain:
    """The place of its type among `_TYPES`, then what it is made of."""
    if isinstance(value, tuple):
        return [_TUPLE, *map(_plain, value)]
    if type(value) not in _TYPES:
        return value
    fields = [value.value] if isinstance(value, Enum) else [getattr(value, name) for name in value.__match_args__]
    return [_TYPES.index(type(value)), *map(_plain, fields)]


def _made(plain: Plain) -> Any:
    if not isinstance(plain, list):
        return plain
    kind, *fields = plain
    values = tuple(_made(field) for field in fields)
    return values if kind == _TUPLE else _TYPES[kind](*values)
