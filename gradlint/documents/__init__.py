"""Whatever holds Python: source files, notebooks, the fenced blocks of Markdown; bytes in, a plain result out."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from gradlint import engine
from gradlint.python.source import decoded

if TYPE_CHECKING:
    from gradlint.config import Settings
    from gradlint.model import FileResult, Fixed

    #: given what was found in a program, and the program: what of it counts
    Keep = Callable[[FileResult, str], FileResult]

__all__ = ["Kind", "fix", "kind_of", "lint", "program_text", "runnable"]


class Kind(enum.Enum):
    """Each is read in its own way."""

    PYTHON = "python"
    NOTEBOOK = "notebook"
    MARKDOWN = "markdown"


def kind_of(path: str) -> Kind:
    """A file of any other name that someone asks for is taken for Python."""
    lowered = path.lower()
    if lowered.endswith(".ipynb"):
        return Kind.NOTEBOOK
    return Kind.MARKDOWN if lowered.endswith((".md", ".markdown")) else Kind.PYTHON


class _Engine(Protocol):
    """Whatever finds and fixes the mistakes in one kind of file."""

    def lint(self, source: bytes, path: str, settings: Settings, /) -> FileResult: ...

    def fix(
        self, source: bytes, path: str, settings: Settings, /, *, unsafe: bool, keep: Keep | None = None
    ) -> Fixed: ...


def _engine_for(path: str) -> _Engine:
    """What few runs meet is imported by the first file of its kind."""
    kind = kind_of(path)
    if kind is Kind.PYTHON:
        return engine
    from gradlint.documents import markdown, notebook

    return notebook if kind is Kind.NOTEBOOK else markdown


def lint(source: bytes, path: str, settings: Settings) -> FileResult:
    """All findings of one file."""
    return _engine_for(path).lint(source, path, settings)


def fix(source: bytes, path: str, settings: Settings, *, unsafe: bool, keep: Keep | None = None) -> Fixed:
    """The file with all fixes applied, to the byte what is to be written; `keep` chooses the findings that count."""
    return _engine_for(path).fix(source, path, settings, unsafe=unsafe, keep=keep)


def program_text(source: bytes, path: str) -> str:
    """The text whose rows and columns the findings of a file name."""
    if kind_of(path) is Kind.NOTEBOOK:
        from gradlint.documents.notebook import program_text as joined

        return joined(source)
    return decoded(source)


def runnable(source: bytes, path: str) -> bytes:
    """What Python can run of a file, row by row as in `program_text`: of a notebook all cells, with magics left out."""
    if kind_of(path) is not Kind.NOTEBOOK:
        return source
    from gradlint.documents.notebook import program

    return program(source)
