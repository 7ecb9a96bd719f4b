"""Finds the files that import those that were asked for: a caller may know what a function is handed.

Which files may say something of a file follows from the tree alone, and not from what was asked for: the whole tree and
one file at a time give the same findings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from gradlint import documents, engine
from gradlint.config.load import ConfigTree
from gradlint.config.settings import Settings
from gradlint.prefilter import prefilter
from gradlint.python.project import Project, Words, stem_of
from gradlint.python.surroundings import MOST_HOPS
from gradlint.records import replace
from gradlint.runner.files import FileFinder, MissingPathError, SourceFile, bytes_now

#: a caller is looked for in the folders round a file, as far out as there are no more files than this in them, and no
#: more of anything: a file may lie in somebody's home
MOST_SEARCHED = 2_000
MOST_ENTRIES = 50_000

_STAR = b"import *"

Narrow = Callable[[Settings], Settings]


class Importers:
    """The files of a run's projects, and which of them import which."""

    def __init__(
        self, tree: ConfigTree, folders: Iterable[str] = (), narrow: Narrow = lambda settings: settings
    ) -> None:
        """`folders` are asked for whole; `narrow` makes the settings of the run of those of a file."""
        self._tree = tree
        self._whole = tuple(os.path.join(os.path.abspath(folder), "") for folder in folders)
        self._narrow = narrow
        #: the files in a folder and below; None where there are too many
        self._files: dict[str, list[SourceFile] | None] = {}
        self._flat: dict[str, list[SourceFile]] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._regions: dict[str, str] = {}
        self._words: dict[str, Words] = {}

    def of(self, asked: Sequence[SourceFile]) -> list[SourceFile]:
        """Files, none of them among these, that import one of these; no fixes are looked for in them."""
        known = {file.path for file in asked}
        found: dict[str, SourceFile] = {}
        for region, files in self._by_region(asked).items():
            candidates = [file for file in self._in(region) if file.path not in known and file.path not in found]
            if not candidates:
                continue
            projects = [(file.path, self._project_of(file)) for file in files]
            names = frozenset().union(*(project.names_of(path) for path, project in projects))
            defined = frozenset().union(*(project.defined_in(path) for path, project in projects))
            by = names | self._handing(self._in(region), names, defined)
            for candidate in candidates:
                words = self._importing(candidate, by)
                if words is not None and not words.all.isdisjoint(defined):
                    found[candidate.path] = self._read_only(candidate)
        return [found[path] for path in sorted(found)]

    def _handing(
        self, files: Sequence[SourceFile], names: frozenset[bytes], defined: frozenset[bytes]
    ) -> frozenset[bytes]:
        """The last names of the modules that import those of these names, and of those that hand on from them what is
        defined there: they name some of it, or all with a star."""
        last = found = frozenset(stem_of(file.path) for file in files if self._importing(file, names) is not None)
        for _ in range(MOST_HOPS - 1):
            if not (last := frozenset(stem_of(f.path) for f in files if self._hands_on(f, last, defined)) - found):
                break
            found |= last
        return found

    def _hands_on(self, file: SourceFile, names: frozenset[bytes], defined: frozenset[bytes]) -> bool:
        words = self._importing(file, names)
        return words is not None and (not words.all.isdisjoint(defined) or _STAR in (_source(file) or b""))

    def sites(self, paths: Iterable[str]) -> list[SourceFile]:
        """Files that something was found in, though they were not asked for."""
        return [self._read_only(file) for file in FileFinder(self._tree).find(sorted(paths))]

    def counts(self, importer: SourceFile, path: str) -> bool:
        """Whether what an analysis knows of another file would be known if only that was asked for."""
        region = self._region(path, importer.settings)
        if importer.explicit or self._found(region) is None:
            if region not in self._names:
                self._names[region] = frozenset(file.path for file in self._in(region))
            return importer.path in self._names[region]
        return importer.path.startswith(os.path.join(region, ""))

    def _by_region(self, asked: Sequence[SourceFile]) -> dict[str, list[SourceFile]]:
        """The files that may have callers which were not asked for, by the folder where those would be."""
        found: dict[str, list[SourceFile]] = {}
        for file in asked:
            if file.settings.project and file.path.endswith(".py"):
                root = engine.root_for(file.path, file.settings)
                if not os.path.join(root, "").startswith(self._whole) and _may_be_called(file):
                    found.setdefault(self._region(file.path, file.settings), []).append(file)
        return found

    def _region(self, path: str, settings: Settings) -> str:
        """The outermost folder round a file, up to the root, that does not hold too many files."""
        folder, root = os.path.dirname(path), engine.root_for(path, settings)
        if folder not in self._regions:
            region = folder
            while region != root and os.path.dirname(region) != region:
                above = os.path.dirname(region)
                if self._found(above) is None:
                    break
                region = above
            self._regions[folder] = region
        return self._regions[folder]

    def _found(self, folder: str) -> list[SourceFile] | None:
        """The files in a folder and below; None if there are too many."""
        if folder not in self._files:
            finder = FileFinder(self._tree, most_entries=MOST_ENTRIES, unasked=True)
            found = list(islice(_python_in(finder, folder), MOST_SEARCHED + 1))
            self._files[folder] = None if finder.ended_early or len(found) > MOST_SEARCHED else found
        return self._files[folder]

    def _in(self, region: str) -> Sequence[SourceFile]:
        """The files that are looked at: of a folder that holds too many by itself, those right in it, up to as many."""
        found = self._found(region)
        if found is not None:
            return found
        if region not in self._flat:
            inside = _python_in(FileFinder(self._tree, deep=False, unasked=True), region)
            self._flat[region] = sorted(inside, key=lambda file: file.path)[:MOST_SEARCHED]
        return self._flat[region]

    def _project_of(self, file: SourceFile) -> Project:
        project = engine.project_of(file.path, file.settings)
        assert project is not None
        return project

    def _importing(self, file: SourceFile, names: frozenset[bytes]) -> Words | None:
        """The words of a file; None if it imports nothing of these names."""
        source = _source(file)
        if source is None or not Words.may_import(source, names):
            return None
        if file.path not in self._words:
            self._words[file.path] = Words.of(documents.runnable(source, file.path))
        words = self._words[file.path]
        return None if names.isdisjoint(words.imports) else words

    def _read_only(self, file: SourceFile) -> SourceFile:
        settings = replace(self._narrow(file.settings), offers=False)
        return file._replace(settings=settings, explicit=False)


def _python_in(finder: FileFinder, folder: str) -> Iterator[SourceFile]:
    try:
        yield from filter(_is_python, finder.find([folder]))
    except MissingPathError:
        return  # what comes from the standard input may have the name of a file in a folder that is still to be made


def _is_python(file: SourceFile) -> bool:
    return file.path.endswith((".py", ".ipynb"))


def _may_be_called(file: SourceFile) -> bool:
    """It holds something that gradients hang on; what cannot be read is told by whoever reads it."""
    source = _source(file)
    return source is not None and prefilter(file.settings.enabled_for(file.path)).holds_any(source)


def _source(file: SourceFile) -> bytes | None:
    try:
        return bytes_now(file.path)
    except OSError:
        return None
