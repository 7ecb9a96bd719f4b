"""The oldest torch a project supports, read from its own dependencies."""

from __future__ import annotations

import os
import re
from collections.abc import Container

Version = tuple[int, int]

SOURCES = ("pyproject.toml", "requirements.txt", "setup.cfg", "setup.py")

# Patterns are compiled where they are used: most runs never need them.
# `torch>=2.1`, `torch[opt] ~= 2.1.0`, `"torch==2.0.1"`, `torch (>=1.13)`; not `pytorch…`, `torch-foo`, `torch_foo`
_REQUIREMENT = r"""(?x)(?<![\w.-])torch\s*(?:\[[^\]]*\])?\s*\(?\s*
        (?P<first>(?:[<>=!~]=?|===)\s*[\d.*]+[^"'#;\n)]*)"""
_POETRY = r"""(?m)^\s*torch\s*=\s*(?:\{[^}\n]*version\s*=\s*)?["'](?:\^|~|>=)?\s*(\d+)(?:\.(\d+))?"""
_FLOOR = r"(?:>=|==|===|~=|>)\s*(\d+)(?:\.(\d+))?"


def torch_floor(text: str) -> Version | None:
    """The lowest torch that a requirement in this text allows; None where none names a floor."""
    floors = []
    for found in re.finditer(_REQUIREMENT, text):
        bound = re.search(_FLOOR, found["first"])
        if bound:
            floors.append((int(bound[1]), int(bound[2] or 0)))
    return min(floors, default=None)


def folder_floor(folder: str, names: Container[str]) -> Version | None:
    """The floor that the dependency files of one folder state; the first file that states one decides."""
    for name in SOURCES:
        if name not in names:
            continue
        try:
            with open(os.path.join(folder, name), "rb") as file:
                raw = file.read(1_000_000)
        except OSError:
            continue
        if b"torch" not in raw:
            continue
        floor = _file_floor(name, raw.decode("utf-8", "replace"))
        if floor:
            return floor
    return None


def _file_floor(name: str, text: str) -> Version | None:
    if name == "requirements.txt":
        text = re.sub(r"#.*", "", text)
    if name == "pyproject.toml":
        # extras (`optional-dependencies`) may ask for more than the package itself needs: min() keeps the lowest
        found = torch_floor(text)
        if found is None and "[tool.poetry" in text and (poetry := re.search(_POETRY, text)):
            found = (int(poetry[1]), int(poetry[2] or 0))
        return found
    return torch_floor(text)
