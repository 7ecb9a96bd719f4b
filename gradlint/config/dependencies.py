"""The oldest torch a project supports, read from its own dependencies."""

from __future__ import annotations

import os
import re
from collections.abc import Container

Version = tuple[int, int]

SOURCES = ("pyproject.toml", "requirements.txt", "setup.cfg", "setup.py")

# Patterns are compiled where they are used: most runs never need them.
# `torch>=2.1`, `torch[opt] ~= 2.1.0`, `"torch==2.0.1"`, `torch (>=1.13)`; not `pytorch…`, `torch-foo`, `torch_foo`
_REQUIREMENT = r"""(?x)(?<![\w.-])%s\s*(?:\[[^\]]*\])?\s*\(?\s*
        (?P<first>(?:[<>=!~]=?|===)\s*[\d.*]+[^"'#;\n)]*)"""
_POETRY = r"""(?m)^\s*%s\s*=\s*(?:\{[^}\n]*version\s*=\s*)?["'](?:\^|~|>=|==)?\s*(\d+)(?:\.(\d+))?"""
_FLOOR = r"(?:>=|==|===|~=|>)\s*(\d+)(?:\.(\d+))?"


def _beside_vision(version: Version) -> Version:
    """0.15 belongs to 2.0, 0.16 to 2.1; 0.14 to 1.13, 0.13 to 1.12."""
    minor = version[1]
    return version if version[0] else (2, minor - 15) if minor >= 15 else (1, max(0, minor - 1))


def _beside_audio(version: Version) -> Version:
    """0.13 belongs to 1.13, and since 2.0 the numbers are the same."""
    return version if version[0] else (1, version[1])


#: each release of these is built for one torch, and asks for it: whoever pins them pins torch
_COMPANIONS = {"torchvision": _beside_vision, "torchtext": _beside_vision, "torchaudio": _beside_audio}


def torch_floor(text: str, package: str = "torch") -> Version | None:
    """The lowest torch that a requirement in this text allows; None where none names a floor."""
    floors = []
    for found in re.finditer(_REQUIREMENT % package, text):
        bound = re.search(_FLOOR, found["first"])
        if bound:
            floors.append((int(bound[1]), int(bound[2] or 0)))
    return min(floors, default=None)


def folder_floor(folder: str, names: Container[str]) -> Version | None:
    """The floor that the dependency files of one folder state; the first file that states one decides.

    Where none speaks of torch itself, what its companions were built for is the floor.
    """
    texts: list[tuple[str, str]] = []
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
        texts.append((name, raw.decode("utf-8", "replace")))
        floor = _file_floor(*texts[-1], "torch")
        if floor:
            return floor
    for name, text in texts:
        stated = ((_file_floor(name, text, package), beside) for package, beside in _COMPANIONS.items())
        floors = [beside(version) for version, beside in stated if version]
        if floors:
            return max(floors)  # all of them must be met
    return None


def _file_floor(name: str, text: str, package: str) -> Version | None:
    if name == "requirements.txt":
        text = re.sub(r"#.*", "", text)
    if name == "pyproject.toml":
        # extras (`optional-dependencies`) may ask for more than the package itself needs: min() keeps the lowest
        found = torch_floor(text, package)
        if found is None and "[tool.poetry" in text and (poetry := re.search(_POETRY % package, text)):
            found = (int(poetry[1]), int(poetry[2] or 0))
        return found
    return torch_floor(text, package)
