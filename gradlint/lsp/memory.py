"""Remembers what was said of a program: an editor asks again with every key."""

from __future__ import annotations

import hashlib
import pickle
from typing import TYPE_CHECKING

from gradlint.engine import lint

if TYPE_CHECKING:
    from gradlint.config import Settings
    from gradlint.inquiry import Inquiry, Reading
    from gradlint.model import FileResult
    from gradlint.python.source import Source

#: programs that are remembered: as many as somebody works on at a time
_MOST = 4


class Memory:
    """What the rules said of a program last time: many a key changes a comment, or code that has no gradients."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, Reading]] = {}

    def lint(self, source: bytes, path: str, settings: Settings) -> FileResult:
        """As `engine.lint`; the rules, with what they are told, are asked only of another program than last time."""
        return lint(source, path, settings, read=lambda inquiry, text: self._read(inquiry, text, path, settings))

    def _read(self, inquiry: Inquiry, source: Source, path: str, settings: Settings) -> Reading:
        reading = inquiry.lowered(source)
        # taken before they read the program, for that leaves marks on it
        said = settings.options, settings.target_torch, sorted(settings.enabled_for(path)), reading.lowering.body
        key = hashlib.blake2b(pickle.dumps(said, pickle.HIGHEST_PROTOCOL)).digest()
        known, before = self._known.pop(path, (b"", reading))
        if known == key:
            reading.take_over(before)
        else:
            inquiry.asked(reading)
        if not inquiry.crashes:
            self._known[path] = key, reading
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return reading
