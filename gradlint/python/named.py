"""Which files the import statements of a text name, seen in its lines alone, and what such an answer hangs on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from gradlint.python.outline import import_lines, modules_in
from gradlint.python.roots import Roots

#: libraries that no project has files of its own for, as long as it is not one of them
ELSEWHERE = frozenset(sys.stdlib_module_names) | {"torch", "torchvision", "numpy"}


class Asked:
    """What an answer hangs on (files, and folders in which others are not), and what should be there and is not.

    Answers are made of answers that many share: they are put together when somebody wants to know.
    """

    __slots__ = ("_inner", "_missing", "_paths")

    def __init__(self, *paths: str) -> None:
        self._paths: tuple[str, ...] = paths
        self._missing: tuple[str, ...] = ()
        self._inner: dict[int, Asked] | None = None

    def note(self, path: str) -> None:
        """It hangs on this file."""
        if path not in self._paths:
            self._paths = (*self._paths, path)

    def miss(self, path: str) -> None:
        self._missing = (*self._missing, path)

    def add(self, other: Asked) -> None:
        if self._inner is None:
            self._inner = {}
        self._inner[id(other)] = other

    @property
    def paths(self) -> set[str]:
        return set().union(*(one._paths for one in self._all()))

    @property
    def missing(self) -> set[str]:
        return set().union(*(one._missing for one in self._all()))

    def _all(self) -> Iterator[Asked]:
        waiting, seen = [self], {id(self)}
        while waiting:
            current = waiting.pop()
            yield current
            new = [one for number, one in (current._inner or {}).items() if number not in seen]
            seen.update(map(id, new))
            waiting += new


class Named:
    """The files that import statements name, below some folders. What was found once stays known."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._bases: dict[str, tuple[tuple[str, ...], Asked]] = {}
        self._above: dict[tuple[str, int], tuple[str]] = {}
        self._parts: dict[bytes, tuple[int, bytes, tuple[str, ...], frozenset[str]]] = {}
        self._lines: dict[tuple[tuple[str, ...], bytes], tuple[Sequence[str], Asked]] = {}

    # -- the files that a text names

    def in_text(self, path: str, source: bytes, asked: Asked) -> set[str]:
        """The files that the import statements of a text name, seen in its lines alone."""
        folder = os.path.dirname(path)
        found: set[str] = set()
        for line in import_lines(source):
            level, rest, modules, names = self._taken_apart(line)
            if not level and not modules:
                continue
            bases = self.bases(folder, level, names, asked)
            known = self._lines.get((bases, rest))
            if known is None:  # many folders name the same file, each in the same words
                inner = Asked()
                files = (self._file_of(dotted, bases, inner) for dotted in modules_in(line))
                known = self._lines[bases, rest] = [one for one in files if one is not None], inner
            found.update(known[0])
            asked.add(known[1])
        return found

    def _taken_apart(self, line: bytes) -> tuple[int, bytes, tuple[str, ...], frozenset[str]]:
        """How many folders up a line begins, and what follows on that; else the modules that it names which may be
        some of the project, and what would stand in a folder for one."""
        if line not in self._parts:
            rest = line[5:].lstrip() if line.startswith(b"from ") else b""
            level = len(rest) - len(rest.lstrip(b"."))
            named = () if level else tuple(x for x in modules_in(line) if x.partition(".")[0] not in ELSEWHERE)
            names = frozenset(name for dotted in named for name in files_of(dotted.partition(".")[0]))
            self._parts[line] = level, rest[level:] if level else line, named, names
        return self._parts[line]

    def _file_of(self, dotted: str, bases: Iterable[str], asked: Asked) -> str | None:
        parts = [part for part in dotted.split(".") if part]
        if not dotted.startswith(".") and (not parts or parts[0] in ELSEWHERE):
            return None
        stems = (os.path.join(base, *parts) for base in bases)
        return next((path for stem in stems if (path := self.module(stem, asked)) is not None), None)

    def module(self, stem: str, asked: Asked) -> str | None:
        """The file of a module, or that of a package."""
        path, probes = self._roots.module(stem)
        for probe in probes:
            asked.note(probe)
        return path

    def bases(self, folder: str, level: int, names: frozenset[str], asked: Asked) -> tuple[str, ...]:
        """The folders in which modules are looked for by a text in a folder; that folder itself most often has nothing
        of these names, and the others are those of many texts."""
        if level:
            if (folder, level) not in self._above:
                above = folder
                for _ in range(level - 1):
                    above = os.path.dirname(above)
                self._above[folder, level] = (above,)
            return self._above[folder, level]
        if folder not in self._bases:
            inner = Asked(self._roots.probe_of_folder(folder))
            top = folder
            while self._is_package(top, inner) and os.path.dirname(top) != top:
                top = os.path.dirname(top)
            folders = self._roots.folders
            found = (folder, top, *self._between(top), *folders, *(os.path.join(root, "src") for root in folders))
            self._bases[folder] = tuple(dict.fromkeys(found)), inner
        found, inner = self._bases[folder]
        asked.add(inner)
        return found if self._roots.may_have(folder, names) else found[1:]

    def _between(self, folder: str) -> Iterator[str]:
        """The folders above one, up to a root: a repository may hold many projects, each run from its own folder."""
        while self._roots.is_inside(folder := os.path.dirname(folder)):
            yield folder

    def _is_package(self, folder: str, asked: Asked) -> bool:
        path = os.path.join(folder, "__init__.py")
        asked.note(self._roots.probe(path))
        return self._roots.has(path)


def files_of(module: str) -> tuple[str, str]:
    """What stands for a module in a folder."""
    return module, f"{module}.py"
