"""The files round a file: which definition a dotted name means in them. They are read when asked for, never imported.

Every file that was asked for is remembered, those that are not there as well: a result holds as long as each of them
answers the same.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gradlint.python import source as reading
from gradlint.python import syntax as s
from gradlint.python.classes import Classes
from gradlint.python.lower import Lowering
from gradlint.python.roots import MOST_BYTES, Roots
from gradlint.python.scope import Scopes
from gradlint.records import dataclass, field

if TYPE_CHECKING:
    from gradlint.python.module import Module

#: the files that one analysis may read beside its own, of `MOST_BYTES` together
MOST_MODULES = 12
#: how often a name may lead on to another file
_HOPS = 4
#: nodes of different files have different numbers: each file has so many of its own
_NUMBERS = 10_000_000

Read = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class Definition:
    """What a dotted name means: a function or a class of a file, or the value that a name of a file is given."""

    program: Module
    node: s.Def | s.Class | None = None
    value: s.Expr | None = None


@dataclass(slots=True, eq=False)
class Foreign:
    """A file that was asked for."""

    path: str
    source: reading.Source
    lowering: Lowering
    program: Module


@functools.lru_cache(maxsize=64)
def _read(data: bytes) -> reading.Source | None:
    text = reading.read(data)
    return text if isinstance(text, reading.Source) else None


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text, and among them those of its import statements; that of `from . import x` is a dot."""

    all: frozenset[bytes]
    imports: frozenset[bytes]

    @classmethod
    def of(cls, source: bytes) -> Words:
        statements = b"\n".join(found[1] for found in _STATEMENTS.finditer(source))
        return cls(frozenset(_WORDS.findall(source)), frozenset(_WORDS.findall(statements)))

    @staticmethod
    def may_import(source: bytes, names: Iterable[bytes]) -> bool:
        """Whether one of these could be among the words of a text's imports, seen in no time."""
        return any((b". import" if name == _HERE else name) in source for name in names)


@dataclass(slots=True, eq=False)
class Project:
    """The files that one analysis may ask for.

    `read` is the only way to them: whoever has other texts than the disk (open buffers, a fix on trial) hands its own.
    """

    roots: Sequence[str]
    read: Read
    target_torch: tuple[int, int] | None = None
    #: every path that was asked for, and what it held: a digest, or None for what is not there
    probes: dict[str, str | None] = field(default_factory=dict)
    #: what was not read because there was enough, in sentences
    exhausted: list[str] = field(default_factory=list)
    #: files that an import names and that are not there
    missing: set[str] = field(default_factory=set)
    #: the file that is analysed
    main: Module = field(init=False)
    _files: dict[str, Foreign | None] = field(default_factory=dict)
    _resolved: dict[tuple[str, str], Definition | None] = field(default_factory=dict)
    _count: int = 0
    _bytes: int = 0

    @classmethod
    def on_disk(cls, folders: Sequence[str], target_torch: tuple[int, int] | None = None) -> Project:
        roots = Roots(folders)
        return cls(roots.folders, roots.read, target_torch)

    @property
    def changed(self) -> bool:
        """Whether a file that was asked for holds something else by now."""
        return any(_digest(self.read(path)) != known for path, known in self.probes.items())

    # -- names

    def resolve(self, dotted: str, importer: str) -> Definition | None:
        """What a full name of an import means, seen from a file; None if that is nothing of the project."""
        known = self._resolved
        if (dotted, importer) not in known:
            known[dotted, importer] = self._resolve(dotted, importer, _HOPS)
        return known[dotted, importer]

    def _resolve(self, dotted: str, importer: str, hops: int) -> Definition | None:
        level = len(dotted) - len(dotted.lstrip("."))
        parts = dotted[level:].split(".")
        if not level and parts[0] in _ELSEWHERE:
            return None
        for base in self._bases(importer, level):
            for length in range(len(parts), 0, -1):
                module = self._module(os.path.join(base, *parts[:length]))
                if module is not None:
                    found = self._inside(module, parts[length:], hops)
                    if found is None and length < len(parts) - 1:
                        self._miss(os.path.dirname(module.path), parts[length : length + 1], module)
                    return found
            if level:
                self._miss(base, parts[:-1] or parts)
        return None

    def _miss(self, folder: str, parts: Sequence[str], package: Foreign | None = None) -> None:
        """Take down that an import names a file which is not there; a package may define the name itself."""
        if package is None or (
            package.path.endswith("__init__.py") and not package.program.once(Scopes).module.binds(parts[0])
        ):
            self.missing.add(os.path.join(folder, *parts) + ".py")

    def _inside(self, module: Foreign, names: Sequence[str], hops: int) -> Definition | None:
        """A name of a file, or a name of a class of it."""
        if not names or len(names) > 2:
            return None
        scope = module.program.once(Scopes).module
        first = names[0]
        if first in scope.defined:
            return _member(Definition(module.program, scope.defined[first][-1]), names[1:])
        if first in scope.imports and hops:
            return self._resolve(".".join((scope.imports[first][0], *names[1:])), module.path, hops - 1)
        if first in scope.names:
            values = scope.names[first]
            return Definition(module.program, None, values[0].value) if len(values) == 1 and len(names) == 1 else None
        for star in module.program.stars if hops else ():
            joint = "" if star.endswith(".") else "."
            found = self._resolve(f"{star}{joint}{'.'.join(names)}", module.path, hops - 1)
            if found is not None:
                return found
        return None

    def _bases(self, importer: str, level: int) -> Iterator[str]:
        """The folders in which the first part of a name is looked for."""
        folder = os.path.dirname(importer)
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            yield folder
            return
        yield folder
        seen = {folder}
        top = folder
        while self._is_package(top) and os.path.dirname(top) != top:
            top = os.path.dirname(top)
        for base in (top, *self.roots, *(os.path.join(root, "src") for root in self.roots)):
            if base not in seen:
                seen.add(base)
                yield base

    def _is_package(self, folder: str) -> bool:
        return self._bytes_of(os.path.join(folder, "__init__.py")) is not None

    def texts(self, dotted: Iterable[str], importer: str) -> Iterator[bytes]:
        """The texts of the files that full names are of; they are not parsed."""
        for name in sorted(dotted):
            parent = name.rpartition(".")[0]
            data = self._text_of(name, importer) or (self._text_of(parent, importer) if parent.strip(".") else None)
            if data is not None:
                yield data

    def imported(self, source: bytes, importer: str) -> Iterator[bytes]:
        """The texts of the files of the project that a file imports, found by its words alone."""
        for line in _IMPORTS.finditer(source):
            base = line[1] or line[2]
            for dotted in base.decode(errors="replace").split(","):
                data = self._text_of(dotted.split(" as ")[0].strip(), importer)
                if data is not None:
                    yield data

    def is_used_by(self, path: str, words: Words) -> bool:
        """Whether a text with these words may use something of a file: it names something that the file defines, and
        imports the file, or one that was read for it and hands it on."""
        if words.all.isdisjoint(self.defined_in(path)):
            return False
        names = self.names_of(path)
        return not words.imports.isdisjoint(names) or any(
            stem_of(other.path) in words.imports and not names.isdisjoint(Words.of(other.source.data).imports)
            for other in list(self._files.values())
            if other is not None
        )

    def defined_in(self, path: str) -> frozenset[bytes]:
        """The names that a file gives something to."""
        file = self.file(path)
        if file is None:
            return frozenset()
        scope = file.program.once(Scopes).module
        return frozenset(name.encode() for name in (*scope.defined, *scope.names))

    def names_of(self, path: str) -> frozenset[bytes]:
        """The words of which one stands in every statement that imports a file, or a package that hands it on."""
        folder, name = os.path.split(path)
        names = {stem_of(path)}
        if name == "__init__.py":
            names.add(_HERE)
            folder = os.path.dirname(folder)
        while folder != os.path.dirname(folder):
            package = self._bytes_of(os.path.join(folder, "__init__.py"))
            if package is None or names.isdisjoint(Words.of(package).imports):
                break
            names |= {os.path.basename(folder).encode(), _HERE}
            folder = os.path.dirname(folder)
        return frozenset(names)

    def _text_of(self, dotted: str, importer: str) -> bytes | None:
        level = len(dotted) - len(dotted.lstrip("."))
        parts = [part for part in dotted[level:].split(".") if part]
        if not level and (not parts or parts[0] in _ELSEWHERE):
            return None
        for base in self._bases(importer, level):
            stem = os.path.join(base, *parts)
            for path in (f"{stem}.py", os.path.join(stem, "__init__.py")):
                data = self._bytes_of(path)
                if data is not None:
                    return data
        return None

    # -- files

    def _module(self, stem: str) -> Foreign | None:
        """The file of a module, or that of a package."""
        for path in (f"{stem}.py", os.path.join(stem, "__init__.py")):
            found = self.file(path)
            if found is not None:
                return found
        return None

    def file(self, path: str) -> Foreign | None:
        """A file of the project as a program; None if it is not there, cannot be read, or enough was read."""
        if path not in self._files:
            self._files[path] = self._opened(path)
        return self._files[path]

    def at(self, node: int) -> Foreign | None:
        """The file that a node stands in; None if it is of the file that is analysed."""
        number = node // _NUMBERS
        return next((f for f in self._files.values() if f and f.lowering.first // _NUMBERS == number), None)

    def _opened(self, path: str) -> Foreign | None:
        from gradlint.python.module import Module

        data = self._bytes_of(path)
        if data is None:
            return None
        if self._count >= MOST_MODULES or self._bytes + len(data) > MOST_BYTES:
            self.exhausted.append(f"{path} was not read: enough other files were")
            return None
        text = _read(data)
        if text is None:
            return None
        self._count += 1
        self._bytes += len(data)
        lowering = Lowering(text.tree, first=self._count * _NUMBERS)
        program = Module(lowering.body, self.target_torch, path, self)
        return Foreign(path, text, lowering, program)

    def _bytes_of(self, path: str) -> bytes | None:
        data = self.read(path)
        self.probes[path] = _digest(data)
        return data


def stem_of(path: str) -> bytes:
    """The last part of the name of a module."""
    folder, name = os.path.split(path)
    return (os.path.basename(folder) if name == "__init__.py" else name.removesuffix(".py")).encode()


@functools.lru_cache(maxsize=512)
def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.blake2b(data, digest_size=16).hexdigest()


def _member(found: Definition, names: Sequence[str]) -> Definition | None:
    if not names:
        return found
    member = found.program.once(Classes).own_method(found.node, names[0]) if isinstance(found.node, s.Class) else None
    return Definition(found.program, member) if member is not None else None


#: what stands for the package of the file itself
_HERE = b"."
_STATEMENTS = re.compile(rb"(?:^|[;:])[ \t]*(?:from|import)\b((?:[^\n;(\\]|\\\r?\n)*(?:\([^)]*)?)", re.M)
_WORDS = re.compile(rb"\w+|\.(?= import\b)")
_IMPORTS = re.compile(rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import\b|import[ \t]+([\w., \t]+))", re.M)
#: libraries that no project has files of its own for, as long as it is not one of them
_ELSEWHERE = frozenset(sys.stdlib_module_names) | {"torch", "torchvision", "numpy"}
