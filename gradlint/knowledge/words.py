"""The words of what rows speak of: a file without any of them holds nothing of the kind.

A word is a piece of text, not always a whole name: `grad` stands in `zero_grad` and in `p.grad = None`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from gradlint.events import Mark, Opaque
from gradlint.knowledge.frameworks import FRAMEWORKS
from gradlint.knowledge.rows import About, Does, Makes, Opens, Passes, Row, Switch, Thing, last_word
from gradlint.knowledge.torch_api import ROWS

#: contexts whose calls are events as far as paths are concerned
_EVENTFUL = (Switch.WINDOW, Switch.NO_SYNC, Switch.LOSS)
#: so many shorter words are looked for before a long one
_MOST_STEMS = 2


def all_rows() -> tuple[Row, ...]:
    return (*ROWS, *(row for framework in FRAMEWORKS for row in framework.rows))


#: the shorter words that a word is looked for by
Stems = Mapping[bytes, tuple[bytes, ...]]


class Text:
    """The bytes of a file; each word is looked for once, and not at all if a shorter one in it is missing."""

    def __init__(self, source: bytes, stems: Stems) -> None:
        self.source = source
        self.stems = stems
        self.known: dict[bytes, bool] = {}

    def has(self, word: bytes) -> bool:
        found = self.known.get(word)
        if found is None:
            found = all(map(self.has, self.stems.get(word, ()))) and word in self.source
            if found and word.startswith(b"."):
                found = _attribute(word).search(self.source) is not None
            self.known[word] = found
        return found


@functools.cache
def _attribute(word: bytes) -> re.Pattern[bytes]:
    """An attribute is a whole name: `.grad` does not stand in `self.gradient_checkpointing`."""
    return re.compile(re.escape(word) + rb"(?!\w)")


def stems(words: Collection[bytes]) -> dict[bytes, tuple[bytes, ...]]:
    """For each word the shorter ones in it, those that stand in most of them: they are looked for once for all.

    An attribute, which ends with its name, is in no other; a word that there is in lower and in upper case (`grad`,
    `Grad`) is looked for without its first letter.
    """
    others = [word for word in words if not word.startswith(b".")]
    held = {word: sum(word in other for other in words) for word in others}
    roots = [word for word in others if not any(x in word and x != word for x in others)]
    roots.sort(key=lambda word: (-held[word], len(word), word))
    found: dict[bytes, tuple[bytes, ...]] = {}
    for word in words:
        inside = tuple(x for x in roots if x in word and x != word)[:_MOST_STEMS]
        if not inside and word[:1].swapcase() + word[1:] in others:
            inside = (word[1:],)
        if inside:
            found[word] = inside
    return found


class Need(NamedTuple):
    """What a file must hold: one of the words, one of those beside them, and a line that looks like it."""

    words: frozenset[bytes]
    beside: frozenset[bytes] = frozenset()
    looks: re.Pattern[bytes] | None = None

    def is_in(self, text: Text) -> bool:
        if not any(map(text.has, self.words)) or (self.beside and not any(map(text.has, self.beside))):
            return False
        return self.looks is None or any(map(self.looks.search, self._lines(text)))

    def _lines(self, text: Text) -> Iterator[bytes]:
        """The lines with one of the words."""
        source = text.source
        for word in filter(text.has, self.words):
            place = source.find(word)
            while place >= 0:
                start, end = source.rfind(b"\n", 0, place) + 1, source.find(b"\n", place)
                end = len(source) if end < 0 else end
                yield source[start : end + 1]
                place = source.find(word, end)


def needs(about: About) -> frozenset[Need]:
    """One of these is in each file in which there is such an event, object, context or setting.

    Of an `Edit` that only perhaps happens nothing is promised, but it never comes without another event.
    """
    if about in (Opaque, Mark):
        raise ValueError(f"{about} has no words: what is not known has no name, and every loop is marked")
    alike: dict[tuple[frozenset[str], str], set[str]] = {}
    for row in all_rows():
        if row.about is about:
            alike.setdefault((row.beside, row.looks or _as_called(row)), set()).update(row.words)
    if not alike:
        raise ValueError(f"no row speaks of {about}")
    return frozenset(
        Need(as_bytes(found), as_bytes(beside), re.compile(looks.encode()) if looks else None)
        for (beside, looks), found in alike.items()
    )


def _as_called(row: Row) -> str:
    """A method is looked up in something, a function is called or gets another name; "" if the row says it better."""
    if not isinstance(row, Does | Opens) or row.words != frozenset(map(last_word, row.names)):
        return ""
    if any("*" in name.rpartition(".")[2] for name in row.names):
        return ""
    methods, functions = "|".join(sorted(row.methods)), "|".join(sorted(map(last_word, row.functions)))
    as_method, as_function = rf"[._](?:{methods})\b", rf"\b(?:{functions})(?:\s*\(| as\b)"
    return "|".join(way for way, names in ((as_method, methods), (as_function, functions)) if names)


def as_bytes(found: Iterable[str]) -> frozenset[bytes]:
    return frozenset(word.encode() for word in found)


def _methods() -> frozenset[str]:
    found = {"scale"}  # it makes a loss for the backward
    for row in all_rows():
        if isinstance(row, Does) and (row.event is not None or row.on is Thing.OBJECT):
            found.update(row.methods)
        elif isinstance(row, Opens) and row.context in _EVENTFUL:
            found.update(name.rpartition(".")[2] for name in row.names)
    return frozenset(name for name in found if not name.startswith("__"))


#: methods that do something to gradients, whoever has them
EVENT_METHODS = _methods()


def _names() -> frozenset[str]:
    found = {"nullcontext", "ExitStack"}  # what switches nothing, or whatever it is handed
    for row in all_rows():
        if row.about in (*_EVENTFUL, Switch.AUTOCAST, Thing.WRAPPER, Thing.SCALER) and isinstance(row, Opens | Makes):
            found.update(name.rpartition(".")[2] for name in row.names)
    return frozenset(found)


#: contexts and wrappers that change what happens to gradients
CONTEXTS = _names()


def _preparing() -> frozenset[str]:
    rows = (row for row in all_rows() if isinstance(row, Passes) and row.prepares)
    return frozenset(name for row in rows for name in row.names)


#: methods that hand optimizers to a framework
PREPARES = _preparing()
