"""Remembers results between runs: one index, read once, written whole, and never trusted blindly.

An entry is used when the file's time and size are unchanged, or else when its content is. The index is JSON:
it may have come with a checkout from anywhere, and reading JSON runs nothing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from gradlint import __version__
from gradlint.model import FileResult
from gradlint.runner.codec import decode, encode
from gradlint.runner.files import SourceFile

FOLDER = ".gradlint_cache"
_FORMAT = 3
# A file written this shortly before it was read may be written again within the same tick of the clock.
_RACY_NS = 2_000_000_000
_BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)


class Cache:
    """The results of earlier runs, for one version of gradlint and of Python."""

    def __init__(self, root: str) -> None:
        self._root = os.path.join(root, "")
        self._folder = os.path.join(root, FOLDER)
        self._file = os.path.join(self._folder, f"{__version__}-py{sys.version_info[0]}{sys.version_info[1]}.json")
        self._stamp = f"{_FORMAT}-{source_stamp()}"
        self._entries = self._load()
        self._changed: dict[str, Any] = {}
        self._seen: set[str] = set()

    def unchanged(self, file: SourceFile, *, parsed: bool) -> FileResult | None:
        """The result if the file looks untouched; `parsed` asks for one that includes a syntax check."""
        key = self._key(file)
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._seen.add(key)
        try:
            mtime, size, fingerprint, _, was_parsed, plain = entry
            if mtime != file.mtime_ns or size != file.size or (parsed and not was_parsed):
                return None
            if fingerprint != file.settings.fingerprint():
                return None
            result = decode(plain, file.shown)
        except _BROKEN:
            return None
        return result

    def same_content(self, file: SourceFile, digest: str) -> FileResult | None:
        """The result of a parsed file with this very content, whatever its time stamp."""
        entry = self._entries.get(self._key(file))
        if entry is None:
            return None
        try:
            _, _, fingerprint, known, was_parsed, plain = entry
            if not was_parsed or known != digest or fingerprint != file.settings.fingerprint():
                return None
            result = decode(plain, file.shown)
        except _BROKEN:
            return None
        self.store(file, result, digest, parsed=True)
        return result

    def store(self, file: SourceFile, result: FileResult, digest: str | None, *, parsed: bool) -> None:
        if result.crashes or result.unreadable:
            return  # both may be cured by a change that no key of the cache can see
        racy = time.time_ns() - file.mtime_ns < _RACY_NS
        mtime = 0 if racy else file.mtime_ns
        self._changed[self._key(file)] = [
            mtime, file.size, file.settings.fingerprint(), digest, parsed, encode(result)
        ]  # fmt: skip

    def save(self) -> None:
        """Write the index whole; what a run at the same time has written since stays."""
        if not self._changed:
            return
        entries = {**self._load(), **self._changed}
        entries = self._without_vanished(entries)
        body = json.dumps({"stamp": self._stamp, "entries": entries}, separators=(",", ":"))
        try:
            self._prepare_folder()
            write_whole(self._file, body.encode("utf-8", "surrogatepass"))
        except OSError:
            pass  # a read-only checkout is linted without a cache

    def _key(self, file: SourceFile) -> str:
        path = file.path
        return path[len(self._root) :] if path.startswith(self._root) else path

    def _load(self) -> dict[str, Any]:
        try:
            with open(self._file, "rb") as file:
                index = json.loads(file.read().decode("utf-8", "surrogatepass"))
            if index["stamp"] == self._stamp and isinstance(index["entries"], dict):
                return dict(index["entries"])
        except (OSError, *_BROKEN):
            pass
        return {}

    def _without_vanished(self, entries: dict[str, Any]) -> dict[str, Any]:
        """Forget deleted files once they may be half of the index; asking for each would cost every small run."""
        known = len(self._seen | self._changed.keys())
        if known < 100 or len(entries) < 2 * known:
            return entries
        return {key: entry for key, entry in entries.items() if os.path.exists(os.path.join(self._root, key))}

    def _prepare_folder(self) -> None:
        if os.path.isdir(self._folder):
            return
        os.makedirs(self._folder, exist_ok=True)
        write_whole(os.path.join(self._folder, ".gitignore"), b"# made by gradlint\n*\n")
        tag = b"Signature: 8a477f597d28d172789f06886806bc55\n# This folder was made by gradlint and may be deleted.\n"
        write_whole(os.path.join(self._folder, "CACHEDIR.TAG"), tag)


def digest_of(source: bytes) -> str:
    import hashlib

    return hashlib.blake2b(source, digest_size=16).hexdigest()


def write_whole(path: str, content: bytes) -> None:
    """Readers see the old file or the new one, never half of it."""
    temporary = f"{path}.{os.getpid()}.{time.monotonic_ns()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


def source_stamp() -> str:
    """In a checkout the rules change without the version: their times and sizes then name the version."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rules = os.path.join(os.path.dirname(package), "rules")
    if not os.path.exists(os.path.join(rules, "__init__.py")):
        return "released"
    import hashlib

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
    return hashlib.blake2b(repr(sorted(seen)).encode(), digest_size=8).hexdigest()
