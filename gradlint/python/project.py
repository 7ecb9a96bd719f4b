"""The files round a file: which definition a dotted name means in them. They are read when asked for, never imported.

Every file that was asked for is remembered, those that are not there as well: a result holds as long as each of them
answers the same.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, TypeVar, cast

from gradlint.python import source as reading
from gradlint.python import syntax as s
from gradlint.python.classes import Classes
from gradlint.python.lower import Lowering
from gradlint.python.named import Asked
from gradlint.python.roots import Roots
from gradlint.python.scope import Scopes
from gradlint.python.surroundings import Kept, Surroundings, around, outline_of
from gradlint.records import dataclass, field

if TYPE_CHECKING:
    from gradlint.python.module import Module

T = TypeVar("T")

#: nodes of different files have different numbers: each file has so many of its own
_NUMBERS = 1 << 23
#: texts of which it is remembered what they were parsed to, and how many nodes these have together
_MOST_PARSED = 48
_MOST_NODES = 60_000


@dataclass(frozen=True, slots=True)
class Definition:
    """What a dotted name means: a function or a class of a file, or the value that a name of a file is given."""

    program: Module
    node: s.Def | s.Class | None = None
    value: s.Expr | None = None


@dataclass(slots=True, eq=False)
class Foreign:
    """A file that was asked for, as far as it can matter."""

    path: str
    #: the text is that of the pieces that were read; the bytes are those of the whole file
    source: reading.Source
    lowering: Lowering
    program: Module

    @property
    def whole(self) -> str:
        """All of its text."""
        return reading.decoded(self.source.data)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text, and among them those of its import statements; that of `from . import x` is a dot."""

    all: frozenset[bytes]
    imports: frozenset[bytes]

    @classmethod
    def of(cls, source: bytes) -> Words:
        return cls(frozenset(_WORDS.findall(source)), _imported_words(source))

    @staticmethod
    def may_import(source: bytes, names: Iterable[bytes]) -> bool:
        """Whether one of these could be among the words of a text's imports, seen in no time."""
        return any((b". import" if name == _HERE else name) in source for name in names)


def _imported_words(source: bytes) -> frozenset[bytes]:
    """The words of all import statements."""
    return frozenset(_WORDS.findall(b"\n".join(_imports_in(source))))


def _imports_in(source: bytes) -> Iterator[bytes]:
    """What follows on the first word of each import statement; where no line has the word, nothing is looked for."""
    place, done = source.find(_IMPORT), 0
    while place >= 0:
        start = source.rfind(b"\n", 0, place) + 1
        while start > done and source.endswith((b"\\\n", b"\\\r\n"), 0, start):  # `from x \`, and the rest below it
            start = source.rfind(b"\n", 0, start - 1) + 1
        start, end = max(start, done), source.find(b"\n", place) % (len(source) + 1)
        head = _STATEMENT.search(source, start, end)
        while head is not None:
            rest = _REST.match(source, head.end())
            assert rest is not None
            yield rest[0]
            done = rest.end()
            head = _STATEMENT.search(source, done, end) if done < end else None
        place = source.find(_IMPORT, max(done, place + len(_IMPORT)))


@dataclass(slots=True, eq=False)
class Project:
    """The files that one analysis may ask for."""

    surroundings: Surroundings
    target_torch: tuple[int, int] | None = None
    #: what was not read because there was enough, in sentences
    exhausted: list[str] = field(default_factory=list)
    #: the file that is analysed
    main: Module = field(init=False)
    _asked: Asked = field(default_factory=Asked)
    _kept: Kept = field(default_factory=Kept)
    _members: frozenset[str] | None = None
    _begun: tuple[str, bytes] = "", b""
    _files: dict[str, Foreign | None] = field(default_factory=dict)
    _by_number: dict[int, Foreign] = field(default_factory=dict)
    _resolved: dict[tuple[str, str], Definition | None] = field(default_factory=dict)
    _named: tuple[str, bytes, set[str]] | None = None
    #: what functions made of these files
    _told: dict[tuple[Callable[[bytes], object], bool], object] = field(default_factory=dict)

    @classmethod
    def on_disk(cls, folders: Sequence[str], target_torch: tuple[int, int] | None = None) -> Project:
        return cls(around(folders), target_torch)

    def begin(self, path: str, source: bytes) -> None:
        """Look for what of other files the text at a path may come by; nothing else of them is read."""
        if self._begun != (path, source):
            self._begun = path, source
            self._kept, self._members = self.surroundings.kept(path, source), None
            self._asked.add(self._kept.asked)
            self.exhausted = [*self._kept.exhausted]
            self._files, self._by_number, self._resolved = {}, {}, {}

    @property
    def probes(self) -> dict[str, str | None]:
        """Every path that was asked for, and what it held: a digest, or None for what is not there. A folder, which
        ends with a separator, stands for what is not in it."""
        roots = self.surroundings.roots
        return {path: roots.answer(path) for path in self._asked.paths}

    @property
    def changed(self) -> bool:
        """Whether a file that was asked for holds something else by now."""
        return self.differs(self.probes)

    def differs(self, probes: Mapping[str, str | None]) -> bool:
        """Whether one of these files holds something else by now."""
        now = Roots(self.surroundings.roots.folders)
        return any(now.answer(path) != known for path, known in probes.items())

    @property
    def missing(self) -> set[str]:
        """Files that an import names and that are not there."""
        return self._asked.missing

    @property
    def is_empty(self) -> bool:
        """Whether nothing of other files can matter."""
        return not self._kept.pieces

    # -- names

    @property
    def members(self) -> frozenset[str]:
        """The names that something in the other files may be looked up by, in a module or on an object."""
        if self._members is None:
            outlines = ((self.surroundings.outline(path), numbers) for path, numbers in self._kept.pieces.items())
            pieces = (outline.pieces[number] for outline, numbers in outlines if outline for number in numbers)
            found = {name.decode() for piece in pieces for name in piece.members}
            self._members = frozenset(found | self._kept.names)
        return self._members

    def resolve(self, dotted: str, importer: str) -> Definition | None:
        """What a full name of an import means, seen from a file; None if that is nothing of the project."""
        known = self._resolved
        if (dotted, importer) not in known:
            known[dotted, importer] = self._resolve(dotted, importer)
        return known[dotted, importer]

    def _resolve(self, dotted: str, importer: str) -> Definition | None:
        if self._kept.names.isdisjoint(dotted.split(".")[-2:]):
            return None
        meaning = self.surroundings.find(dotted, importer, self._asked)
        module = self.file(meaning.path) if meaning is not None and meaning.names else None
        if meaning is None or module is None:
            return None
        scope = module.program.once(Scopes).module
        first, *rest = meaning.names
        if first in scope.defined:
            return _member(Definition(module.program, scope.defined[first][-1]), rest)
        values = scope.names.get(first, ())
        return Definition(module.program, None, values[0].value) if len(values) == 1 and not rest else None

    def at_once(
        self, path: str, source: bytes, make: Callable[[bytes], frozenset[T]], *, readable: bool = False
    ) -> frozenset[T]:
        """What a function makes of all files that the text at a path names, or of what is readable of them."""
        if self._named is None or self._named[:2] != (path, source):
            paths = self.surroundings.named.in_text(path, source, self._asked)
            paths.update(self._handed_on([one for one in paths if one.endswith(_PACKAGE)], source))
            self._named = path, source, paths
            self._told = {}
        if (make, readable) not in self._told:
            self._told[make, readable] = frozenset().union(*self._made(self._named[2], make, readable))
        return cast("frozenset[T]", self._told[make, readable])

    def _made(
        self, paths: Iterable[str], make: Callable[[bytes], frozenset[T]], readable: bool
    ) -> Iterator[frozenset[T]]:
        for path in paths:
            made = self.surroundings.once(path, make)
            if made and readable:  # what is nowhere in a file is not in its code either
                made = self.surroundings.readable(path, make)
            if made:
                yield made

    def _handed_on(self, packages: Iterable[str], source: bytes) -> Iterator[str]:
        """The files from which packages have what a text imports of them: `from .engine import train`."""
        words: frozenset[bytes] | None = None
        for package in packages:
            outline = self.surroundings.outline(package)
            if outline is not None and 0 < len(outline.imports) <= _MOST_HANDED_ON:
                words = _imported_words(source) if words is None else words
                for name in words & outline.imports.keys():
                    found = self.surroundings.find(outline.imports[name][0], package, self._asked)
                    if found is not None:
                        yield found.path

    def texts(self) -> Iterator[bytes]:
        """What is read of other files; it is not parsed."""
        for path, numbers in self._kept.pieces.items():
            outline = self.surroundings.outline(path)
            if outline is not None:
                yield b"\n".join(outline.pieces[number].code for number in sorted(numbers))

    def has_words(self, words: Set[str]) -> bool:
        """Whether one of these stands in what is read of other files, by itself or as all of a string."""
        sought = frozenset(word.encode() for word in words)
        for path, numbers in self._kept.pieces.items():
            outline, data = self.surroundings.outline(path), self.surroundings.roots.read(path)
            if outline is None or data is None:
                continue
            pieces = [outline.pieces[number] for number in numbers]
            if not all(sought.isdisjoint(piece.words) for piece in pieces):
                return True
            strings = {found[1] for piece in pieces for found in _STRINGS.finditer(data, piece.start, piece.end)}
            if not sought.isdisjoint(strings):
                return True
        return False

    def is_used_by(self, path: str, words: Words) -> bool:
        """Whether a text with these words may use something of a file: it names something that the file defines, and
        imports the file, or one that was asked for and hands it on."""
        if words.all.isdisjoint(self.defined_in(path)):
            return False
        names = self.names_of(path)
        return not words.imports.isdisjoint(names) or any(
            stem_of(other) in words.imports and not names.isdisjoint(self._imports_of(other))
            for other in sorted(self._asked.paths)
        )

    def _imports_of(self, path: str) -> frozenset[bytes]:
        """The words of the import statements of a file."""
        return self.surroundings.once(path, _imported_words) or frozenset()

    def defined_in(self, path: str) -> frozenset[bytes]:
        """The names that a file gives something to."""
        self._asked.note(self.surroundings.roots.probe(path))
        outline = self.surroundings.outline(path)
        return frozenset() if outline is None else frozenset((*outline.defined, *outline.names))

    def names_of(self, path: str) -> frozenset[bytes]:
        """The words of which one stands in every statement that imports a file, or a package that hands it on."""
        folder, name = os.path.split(path)
        names = {stem_of(path)}
        if name == "__init__.py":
            names.add(_HERE)
            folder = os.path.dirname(folder)
        while folder != os.path.dirname(folder):
            above = os.path.join(folder, "__init__.py")
            self._asked.note(self.surroundings.roots.probe(above))
            if not self.surroundings.roots.has(above) or names.isdisjoint(self._imports_of(above)):
                break
            names |= {os.path.basename(folder).encode(), _HERE}
            folder = os.path.dirname(folder)
        return frozenset(names)

    # -- files

    def file(self, path: str) -> Foreign | None:
        """What is read of a file of the project, as a program; None if that is nothing."""
        if path not in self._files:
            numbers = self._kept.pieces.get(path)
            parsed = _parsed(path, self.surroundings.roots.read(path), numbers) if numbers else None
            self._files[path] = None
            if parsed is not None:
                program = parsed.program.seen_from(self, self.target_torch)
                file = self._files[path] = Foreign(path, parsed.source, parsed.lowering, program)
                self._by_number.setdefault(parsed.lowering.first // _NUMBERS, file)
        return self._files[path]

    def let_go(self) -> None:
        """No more is asked of the files: how this analysis saw them is gone at once."""
        for file in self._files.values():
            if file is not None:
                vars(file.program).clear()
        self._files, self._by_number, self._resolved = {}, {}, {}

    def at(self, node: int) -> Foreign | None:
        """The file that a node stands in; None if it is of the file that is analysed."""
        return self._by_number.get(node // _NUMBERS)


@dataclass(slots=True, eq=False)
class _Parsed:
    """What is the same for all analyses."""

    source: reading.Source
    lowering: Lowering
    program: Module


#: by file, content and pieces; what was used last comes last
_known: dict[tuple[str, bytes, frozenset[int]], _Parsed | None] = {}


def _parsed(path: str, data: bytes | None, numbers: frozenset[int]) -> _Parsed | None:
    """Some pieces of a file as a program; many files ask for the same ones."""
    if data is None:
        return None
    key = path, data, numbers
    if key in _known:
        _known[key] = found = _known.pop(key)
        return found
    found = _known[key] = _parse(*key)
    size = sum(one.lowering.size for one in _known.values() if one is not None)
    while len(_known) > _MOST_PARSED or (size > _MOST_NODES and len(_known) > 1):
        oldest = _known.pop(next(iter(_known)))
        if oldest is not None:
            size -= oldest.lowering.size
            vars(oldest.program).clear()  # how analyses see it is their own; it knows what knows it
    return found


def _parse(path: str, data: bytes, numbers: frozenset[int]) -> _Parsed | None:
    from gradlint.python.module import Module

    source = reading.part(data, outline_of(data).without(numbers, data)) or reading.read(data)
    if not isinstance(source, reading.Source):
        return None
    lowering = Lowering(source.tree, first=_number(path) * _NUMBERS)
    return _Parsed(source, lowering, Module(lowering.body, None, path))


def _number(path: str) -> int:
    """Of a file; the same whoever asks, in whichever order."""
    return 1 + int.from_bytes(hashlib.blake2b(os.fsencode(path), digest_size=5).digest(), "big")


def stem_of(path: str) -> bytes:
    """The last part of the name of a module."""
    folder, name = os.path.split(path)
    return (os.path.basename(folder) if name == "__init__.py" else name.removesuffix(".py")).encode()


def _member(found: Definition, names: Sequence[str]) -> Definition | None:
    if not names:
        return found
    member = found.program.once(Classes).own_method(found.node, names[0]) if isinstance(found.node, s.Class) else None
    return Definition(found.program, member) if member is not None else None


#: the front of a whole library hands on so much that its users would be read for nothing
_MOST_HANDED_ON = 100
_PACKAGE = f"{os.sep}__init__.py"
#: what stands for the package of the file itself
_HERE = b"."
_IMPORT = b"import"
_STATEMENT = re.compile(rb"(?:^|[;:])[ \t]*(?:from|import)\b", re.M)
_REST = re.compile(rb"(?:[^\n;(\\]|\\\r?\n)*(?:\([^)]*)?")
_STRINGS = re.compile(rb"""["'](\w+)["']""")
_WORDS = re.compile(rb"\w+|\.(?= import\b)")
