"""The oldest torch a project supports, read from its own dependencies."""

from __future__ import annotations

import os
import re
from collections.abc import Container

from gradlint.config.reading import read_small

Version = tuple[int, int]

SOURCES = ("pyproject.toml", "requirements.txt", "setup.cfg", "setup.py")

# where a requirement ends: at the quote round it, a comment, a marker, an option of pip
_END = r"""["'#;\n\\]|\s--"""
#: no requirement is longer; so whatever a file holds, the work on it is linear
_LONGEST = 500
_FLOORS = (">=", "==", "===", "~=", ">")
_POETRY = r"""["'](?:\^|~|>=|==)?\s*(\d+)(?:\.(\d+))?"""


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
    # `torch>=2.1`, `torch[opt] ~= 2.1.0`, `"torch==2.0.1"`, `torch (>=1.13)`; not `pytorch…`
    starts = (found.start() for found in re.finditer(rf"(?<![\w.-]){package}", text))
    floors = (_floor(text[start : start + _LONGEST], package) for start in starts)
    return min((floor for floor in floors if floor), default=None)


def _floor(text: str, package: str) -> Version | None:
    """What the requirement at the beginning of this text asks for at least."""
    written = re.split(_END, text, maxsplit=1)[0]
    if len(written) == _LONGEST or not any(sign in written for sign in "=>"):
        return None
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import InvalidVersion, Version

    try:
        requirement = Requirement(written)
        bounds = [Version(s.version.removesuffix(".*")) for s in requirement.specifier if s.operator in _FLOORS]
    except (InvalidRequirement, InvalidVersion):
        return None
    if requirement.name != package or not bounds:  # such as `torch-geometric`
        return None
    floor = max(bounds)
    return floor.major, floor.minor


def folder_floor(folder: str, names: Container[str]) -> Version | None:
    """The floor that the dependency files of one folder state; the first file that states one decides.

    Where none speaks of torch itself, what its companions were built for is the floor.
    """
    texts: list[tuple[str, str]] = []
    for name in SOURCES:
        if name not in names:
            continue
        try:
            raw = read_small(os.path.join(folder, name))
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
        return _poetry_floor(text, package) if found is None and "[tool.poetry" in text else found
    return torch_floor(text, package)


def _poetry_floor(text: str, package: str) -> Version | None:
    """`torch = "^2.0"`, or `torch = { version = "^2.0", … }`"""
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name.strip() != package:
            continue
        value = value.strip()
        if value.startswith("{"):
            value = value.partition("version")[2].lstrip().removeprefix("=").lstrip()
        if found := re.match(_POETRY, value[:_LONGEST]):
            return int(found[1]), int(found[2] or 0)
    return None
