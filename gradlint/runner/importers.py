"""Finds the files that import those that were asked for: a caller may know what a function is handed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from gradlint import engine
from gradlint.config.load import ConfigTree
from gradlint.python.project import root_of
from gradlint.runner.files import FileFinder, SourceFile, read_bytes

#: the files of a tree that are looked at, those of the nearest folders first
MOST_SEARCHED = 2_000


def importers(asked: Sequence[SourceFile], folders: Iterable[str], tree: ConfigTree) -> list[SourceFile]:
    """Files of the project, none of them asked for, that import one of those; `folders` were asked for whole."""
    whole = [os.path.join(os.path.abspath(folder), "") for folder in folders]
    known = {file.path for file in asked}
    found: dict[str, SourceFile] = {}
    for root, files in _by_root(asked, whole).items():
        words = _import_words(files)
        if words is None:
            continue
        for candidate in islice(_nearest_first(root, files, tree), MOST_SEARCHED):
            if candidate.path not in known and _mentions(candidate, words):
                found[candidate.path] = candidate
    return [found[path] for path in sorted(found)]


def _by_root(asked: Sequence[SourceFile], whole: Sequence[str]) -> dict[str, list[SourceFile]]:
    """The files that may have callers which were not asked for, by the root of their project."""
    found: dict[str, list[SourceFile]] = {}
    for file in asked:
        if file.settings.project and file.path.endswith(".py"):
            root = file.settings.root or root_of(os.path.dirname(file.path))
            if not os.path.join(root, "").startswith(tuple(whole)) and _may_be_called(file):
                found.setdefault(root, []).append(file)
    return found


def _may_be_called(file: SourceFile) -> bool:
    """It holds something that gradients hang on; what cannot be read is told by whoever reads it."""
    try:
        return engine.holds_any(read_bytes(file.path), file.settings, file.path)
    except OSError:
        return False


def _import_words(files: Sequence[SourceFile]) -> re.Pattern[bytes] | None:
    """A line that imports one of these: by its name, or by that of its package, which may hand it on."""
    names: set[str] = set()
    for file in files:
        folder, name = os.path.split(file.path)
        names.add(os.path.basename(folder) if name == "__init__.py" else name.removesuffix(".py"))
        if os.path.exists(os.path.join(folder, "__init__.py")):
            names.add(os.path.basename(folder))
    words = "|".join(sorted(re.escape(name) for name in names if name))
    return re.compile(rf"^[ \t]*(?:from|import)\b[^\n]*\b(?:{words})\b".encode(), re.MULTILINE) if words else None


def _nearest_first(root: str, files: Sequence[SourceFile], tree: ConfigTree) -> Iterator[SourceFile]:
    finder = FileFinder(tree)
    yield from finder.find(sorted({os.path.dirname(file.path) for file in files}))
    yield from finder.find([root])


def _mentions(file: SourceFile, words: re.Pattern[bytes]) -> bool:
    if not file.path.endswith((".py", ".ipynb")):
        return False
    try:
        return words.search(read_bytes(file.path)) is not None
    except OSError:
        return False
