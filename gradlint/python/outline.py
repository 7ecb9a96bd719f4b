"""What stands at the top of a text, seen in its bytes: definitions, names, imports, and the words of each piece.

Most of what a file imports can matter to nothing. To parse it would take a hundred times as long as to see that.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

from gradlint.knowledge.torch_api import HOOKS
from gradlint.knowledge.words import all_rows
from gradlint.records import dataclass, field

#: a piece with one of these in its words has to do with training, beside the words that knowledge has for that
_TRAINING = ("ptim", "chedule", "ccelerat", "Parallel", "Adam", "RMSprop", "Adagrad", "Adadelta", "Adafactor")
#: with one of these it computes a loss, or predictions that go into one
_LOSSES = (
    "loss",
    "Loss",
    "riteri",
    "oftmax",
    "igmoid",
    "entropy",
    "\nlog\n",
    "\nexp\n",
    "\nsqrt\n",
    "\ndiv\n",
    "\ndiv_\n",
)
#: and with one of these it makes, or is, something that is trained or trained by
_TRAINED = (*_LOSSES, "Module\n", "add_argument", "dataclass", "_norm", "\nnn\n")
#: of all words that knowledge has for events and objects, those that stand anywhere
_COMMON = frozenset({
    "initialize", "log", "log_dict", "norm", "print", "scale", "setup", "step", "update", "RMS", "Ada", "CLIP", "Clip",
    "Norm", "prepare", "accumulate", "schedule",
})  # fmt: skip
#: a string without the letters in front of it, or a comment; it begins with one of three characters, so that all others
#: are passed in no time
_STRINGS = re.compile(
    rb"""["'#](?:(?<=#)[^\n]*"""
    rb"""|(?<=")(?:""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:\"""|\Z)|[^"\\\n]*(?:\\.[^"\\\n]*)*")"""
    rb"""|(?<=')(?:''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\Z)|[^'\\\n]*(?:\\.[^'\\\n]*)*'))""",
    re.S,
)
_PREFIXES = b"rbufRBUF"
_COMMENT = ord("#")
#: everything but ends of lines becomes a blank
_BLANK = bytes(code if code in b"\r\n" else 32 for code in range(256))
#: the end of a line before a statement; a search for what it begins with is quick, one for all starts of lines is not
_HEADS = re.compile(rb"\n(?=[^\W\d]|@)(?!(?:else|elif|except|finally)\b)")
#: so much of a text says whether a statement begins with it
_LONGEST_HEAD = 10
_DEFINES = re.compile(rb"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.M)
_INNER = re.compile(rb"\b(?:def|class)[ \t]+(\w+)")
_ASSIGNS = re.compile(rb"^([^=\n]*[^=\n!<>])=(?!=)", re.M)
_BINDS = re.compile(rb"\b(?:for|as)\b([\w, \t()]+)")
_FIRST = re.compile(rb"(\w+)[.\[]")
_WORDS = re.compile(rb"\w+")
_MEMBERS = re.compile(rb"\b(?:(?:def|class)[\s\\]+(\w+)|self[\s\\]*\.[\s\\]*(\w+))")
_CHAIN = re.compile(rb"\w+(?:\.\w+){0,3}")
_IN_NAME = re.compile(rb"[\w.]")
_IMPORTS = re.compile(
    rb"\b(?:from[ \t]*(\.*)[ \t]*([\w.]*)[ \t]+import\b[ \t]*(\([^)]*\)|(?:[^\n;\\]|\\\r?\n)*)"
    rb"|import[ \t]+((?:[^\n;\\]|\\\r?\n)+))",
    re.M,
)
_IMPORT = b"import "
_FROM = re.compile(rb"from[ \t]+([.\w]+)")
_DOTTED = re.compile(r"[\w.]+")


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import statement gives a name; `*` is the name of all."""

    local: bytes
    #: with a dot for each folder, as it is written
    dotted: str


@dataclass(slots=True, eq=False)
class Piece:
    """A statement at the top of a text."""

    start: int
    end: int
    #: without strings and comments
    code: bytes
    #: a function or a class
    is_definition: bool
    names: frozenset[bytes]
    imports: tuple[Imported, ...]
    _words: frozenset[bytes] | None = None
    _members: frozenset[bytes] | None = None
    _trains: bool | None = None
    _is_trained: bool | None = None
    _is_loss: bool | None = None

    @classmethod
    def whole(cls, source: bytes) -> Piece:
        """All of a text as one piece."""
        code = without_strings(source)
        return cls(0, len(code), code, True, frozenset(), tuple(dict.fromkeys(imported(code))))

    @property
    def words(self) -> frozenset[bytes]:
        if self._words is None:
            self._words = frozenset(_WORDS.findall(self.code))
        return self._words

    @property
    def members(self) -> frozenset[bytes]:
        """The names of all functions and classes in it, and those by which objects keep something."""
        if self._members is None:
            self._members = frozenset(name for pair in _MEMBERS.findall(self.code) for name in pair if name)
        return self._members

    @property
    def trains(self) -> bool:
        """Gradients are made, changed or used by it, or it makes what does so."""
        if self._trains is None:
            self._trains = self._has(_training())
        return self._trains

    @property
    def is_trained(self) -> bool:
        """It is a part of a model or of a loss, or says how these are made."""
        if self._is_trained is None:
            self._is_trained = self._has(map(str.encode, _TRAINED))
        return self._is_trained

    @property
    def is_loss(self) -> bool:
        """It computes a loss, or predictions."""
        if self._is_loss is None:
            self._is_loss = self._has(map(str.encode, _LOSSES))
        return self._is_loss

    def _has(self, parts: Iterable[bytes]) -> bool:
        words = b"\n".join((b"", *self.words, b""))
        return any(part in words for part in parts)

    def looked_up_in(self, local: bytes) -> list[str]:
        """What is looked up in a module of this name: `utils.clip`, `pkg.utils.clip`."""
        found: set[bytes] = set()
        name = local + b"."
        place = self.code.find(name)
        while place >= 0:  # a regular expression that looks back is tried at every place
            end = place + len(name)
            chain = _CHAIN.match(self.code, end)
            if chain is not None and not _IN_NAME.match(self.code, max(0, place - 1), place):
                found.add(chain[0])
            place = self.code.find(name, end)
        return sorted(chain.decode(errors="replace") for chain in found)


@dataclass(slots=True, eq=False)
class Outline:
    """The pieces of a text, and which of them give a name its meaning."""

    pieces: list[Piece]
    defined: dict[bytes, list[int]] = field(default_factory=dict)
    names: dict[bytes, list[int]] = field(default_factory=dict)
    #: what its import statements outside of definitions give names
    imports: dict[bytes, list[str]] = field(default_factory=dict)
    #: the pieces that those stand in
    importing: dict[bytes, list[int]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, source: bytes) -> Outline:
        code = without_strings(source)
        found = cls(list(_pieces(code)))
        for number, piece in enumerate(found.pieces):
            table = found.defined if piece.is_definition else found.names
            for name in piece.names:
                table.setdefault(name, []).append(number)
            for one in piece.imports if not piece.is_definition else ():
                if one.local == b"*":
                    found.stars.append(one.dotted)
                else:
                    found.imports.setdefault(one.local, []).append(one.dotted)
                    found.importing.setdefault(one.local, []).append(number)
        return found

    def binds(self, name: bytes) -> bool:
        return name in self.defined or name in self.imports or name in self.names

    def without(self, kept: frozenset[int], source: bytes) -> bytes:
        """The text with nothing but some pieces, in their places."""
        parts, end = [], 0
        for number in sorted(kept):
            piece = self.pieces[number]
            parts += [source[end : piece.start].translate(_BLANK), source[piece.start : piece.end]]
            end = piece.end
        return b"".join(parts)


def without_strings(source: bytes) -> bytes:
    """The code alone; what strings and comments are written with becomes blanks."""
    parts: list[bytes] = []
    done = 0
    for found in _STRINGS.finditer(source):
        start, end = quote, _ = found.span()
        while start > done and quote - start < 2 and source[start - 1] in _PREFIXES and source[quote] != _COMMENT:
            start -= 1
        parts += (source[done:start], source[start:end].translate(_BLANK))
        done = end
    return b"".join((*parts, source[done:]))


def imported(code: bytes) -> Iterator[Imported]:
    """What the import statements of a text without strings give names."""
    for found in _import_statements(code):
        dots, base, names, plain = found.groups()
        if plain is None:
            above = (dots + base).decode(errors="replace")
            joint = "" if not above or above.endswith(".") else "."
            for name in names.strip(b"()").replace(b"\\", b" ").split(b","):
                words = name.split()
                if words and words[0] == b"*":
                    yield Imported(b"*", above)
                elif words and above:
                    yield Imported(words[-1], f"{above}{joint}{words[0].decode(errors='replace')}")
            continue
        for name in plain.replace(b"\\", b" ").split(b","):
            words = name.split()
            if len(words) == 3:
                yield Imported(words[2], words[0].decode(errors="replace"))
            elif len(words) == 1 and _DOTTED.fullmatch(words[0].decode(errors="replace")):
                # `import a.b` gives `a` a meaning, and `a.b.c` one through it
                yield Imported(words[0].partition(b".")[0], words[0].decode(errors="replace"))


def _import_statements(code: bytes) -> Iterator[re.Match[bytes]]:
    """As they follow each other; where the word is not, nothing is looked for."""
    place, done = code.find(b"import"), 0
    while place >= 0:
        found = _IMPORTS.search(code, max(done, code.rfind(b"\n", 0, place) + 1))
        if found is None:
            return
        yield found
        done = found.end()
        place = code.find(b"import", done)


def words_in(source: bytes) -> frozenset[bytes]:
    """All words of a text, and a star if it imports all names of a module."""
    return frozenset((*_WORDS.findall(source), *((b"*",) if b"import *" in source else ())))


def import_lines(source: bytes) -> Iterator[bytes]:
    """The lines that import something, each without what is in front of it."""
    place = source.find(_IMPORT)
    while place >= 0:
        start, end = source.rfind(b"\n", 0, place) + 1, source.find(b"\n", place)
        line = source[start : end if end >= 0 else len(source)].strip()
        if line.startswith((b"from", _IMPORT)):
            yield line
        place = source.find(_IMPORT, place + len(_IMPORT))


def modules_in(line: bytes) -> Iterator[str]:
    """The modules that such a line names, or may name."""
    code = line.partition(b"#")[0]
    base = _FROM.match(code)
    if base is not None:
        yield base[1].decode(errors="replace")
    # a class is none
    yield from (one.dotted for one in imported(code) if one.local != b"*" and one.dotted.rpartition(".")[2].islower())


def _pieces(code: bytes) -> Iterator[Piece]:
    first_line = [0] if _HEADS.match(b"\n" + code[:_LONGEST_HEAD]) else []
    starts = [*first_line, *(found.end() for found in _HEADS.finditer(code))]
    ends = [*starts[1:], len(code)][: len(starts)]
    begun = -1
    for start, end in zip(starts, ends, strict=True):
        first = start if begun < 0 else begun
        if code.startswith(b"@", start) and end < len(code):
            begun = first  # what it decorates comes next
            continue
        begun = -1
        yield _piece(code[first:end], first, end)


def _piece(code: bytes, start: int, end: int) -> Piece:
    defines = _DEFINES.search(code)
    imports = tuple(imported(code)) if b"import" in code else ()
    if defines is not None:
        return Piece(start, end, code, True, frozenset({defines[1]}), imports)
    assigned = (found[1].partition(b":")[0] for found in _ASSIGNS.finditer(code))
    names = {name for target in assigned for name in _WORDS.findall(target)}
    if b"\n" in code.rstrip():
        names.update(found[1] for found in _INNER.finditer(code))
        names.update(name for found in _BINDS.finditer(code) for name in _WORDS.findall(found[1]))
    first = _FIRST.match(code)
    if first is not None:
        names.add(first[1])  # `parser.add_argument(…)`: without it the parser is another one
    return Piece(start, end, code, False, frozenset(names), imports)


@functools.cache
def _training() -> tuple[bytes, ...]:
    """Parts of words; the shortest stand for all that they are in."""
    words = {word for row in all_rows() for word in row.words} | HOOKS
    known = {*_TRAINING, "\nstep\n", *(words - _COMMON)}
    return tuple(sorted(word.encode() for word in known if not any(x in word for x in known - {word})))
