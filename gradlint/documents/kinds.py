"""What a file is, by its name."""

from __future__ import annotations

import enum


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
