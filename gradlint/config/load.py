"""Reads `gradlint.toml`, `[tool.gradlint]` and dependencies; finds the settings that hold in each folder."""

from __future__ import annotations

import os
import re
from collections.abc import Container
from typing import NamedTuple

from gradlint.config.reading import ConfigError, parse_toml, read_small
from gradlint.config.schema import over, settings_from
from gradlint.config.selectors import Layer
from gradlint.config.settings import Settings
from gradlint.records import replace

Version = tuple[int, int]

SOURCES = ("pyproject.toml", "requirements.txt", "setup.cfg", "setup.py")

# where a requirement ends: at the quote round it, a comment, a marker, an option of pip
_END = r"""["'#;\n\\]|\s--"""
#: no requirement is longer; so whatever a file holds, the work on it is linear
_LONGEST = 500
_FLOORS = (">=", "==", "===", "~=", ">")
_POETRY = r"""["'](?:\^|~|>=|==)?\s*(\d+)(?:\.(\d+))?"""

#: where a configuration may stand; of several in one folder the first counts
FILES = (".gradlint.toml", "gradlint.toml", "pyproject.toml")
_NEAR_MISSES = ("torch-gradlint", "torch_gradlint", "grad-lint")
_INTERESTING = (*FILES, *SOURCES, ".git")


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
    from packaging import requirements, version

    try:
        requirement = requirements.Requirement(written)
        stated = (s for s in requirement.specifier if s.operator in _FLOORS)
        bounds = [version.Version(one.version.removesuffix(".*")) for one in stated]
    except (requirements.InvalidRequirement, version.InvalidVersion):
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


def read_config(path: str, above: tuple[str, ...] = ()) -> Settings | None:
    """The settings of one file; None for a pyproject.toml that does not speak of gradlint.

    `above`: the files that it is to hold for, each of which extends the next.
    """
    try:
        raw = read_small(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    own = os.path.basename(path) != "pyproject.toml"
    if not own and b"gradlint" not in raw:
        return None  # spares the TOML parser, which costs more than the rest of a small run
    table = parse_toml(raw, path)
    if not own:
        section = _section(table, path)
        if section is None:
            return None
        table = section
    settings = settings_from(table, path, prefix="" if own else "tool.gradlint.")
    return settings if "extend" not in table else _extended(settings, table, path, above)


def _section(table: dict[str, object], path: str) -> dict[str, object] | None:
    """What a pyproject.toml says to us, if anything; a table that can only be meant for us has to have our name."""
    tool = table.get("tool")
    tools = tool if isinstance(tool, dict) else {}
    section = tools.get("gradlint")
    if section is None:
        meant = [f"tool.{name}" for name in _NEAR_MISSES if name in tools]
        meant += [name for name in ("gradlint", *_NEAR_MISSES) if isinstance(table.get(name), dict)]
        if meant:
            raise ConfigError(f"{path}: `[{meant[0]}]` is not read; the table is called `[tool.gradlint]`")
        return None
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: `tool.gradlint` must be a table")
    return section


def _extended(settings: Settings, table: dict[str, object], path: str, above: tuple[str, ...]) -> Settings:
    """The settings over those of the file that they extend."""
    named = table["extend"]
    if not isinstance(named, str) or not named:
        raise ConfigError(f"{path}: extend: must be the name of a file, not {named!r}")
    below = os.path.abspath(os.path.join(os.path.dirname(path), os.path.expanduser(named)))
    line = (*above, path)
    if below in line:
        raise ConfigError(f"{path}: extend: {named} extends this file, or itself")
    if not os.path.isfile(below):
        raise ConfigError(f"{path}: extend: {named}: there is no such file")
    found = read_config(below, line)
    if found is None:
        raise ConfigError(f"{path}: extend: {named} has no table `[tool.gradlint]`")
    return over(settings, found, table)


#: what holds where nothing is configured
_UNCONFIGURED = Settings(project=True)


class Overlay(NamedTuple):
    """Settings that the command line says, and the keys of which it says them."""

    settings: Settings
    keys: frozenset[str]


class Overrides(NamedTuple):
    """What the command line says over any configuration file."""

    layer: Layer = Layer()
    config: str | None = None
    isolated: bool = False
    #: the later one goes over the earlier one
    overlays: tuple[Overlay, ...] = ()


class ConfigTree:
    """The settings of every folder: the nearest configuration upwards, under the command line's choices."""

    def __init__(self, overrides: Overrides | None = None) -> None:
        self._overrides = overrides or Overrides()
        self._known: dict[str, Settings] = {}
        self._merged: dict[Settings, Settings] = {}
        self._fixed: Settings | None = None
        if self._overrides.config is not None:
            path = os.path.abspath(self._overrides.config)
            self._fixed = read_config(path) or replace(_UNCONFIGURED, root=os.path.dirname(path), source=path)

    def at(self, folder: str, names: Container[str] | None = None) -> Settings:
        """The settings for the files of an absolute folder; `names` spares the file system if already listed."""
        return self._with_overrides(self._at(folder, names))

    def _at(self, folder: str, names: Container[str] | None) -> Settings:
        found = self._known.get(folder)
        if found is None:
            parent = os.path.dirname(folder)
            above = (self._fixed or _UNCONFIGURED) if parent == folder else self._at(parent, None)
            if names is None:
                names = {name for name in _INTERESTING if os.path.exists(os.path.join(folder, name))}
            found = self._known[folder] = self._below(above, folder, names)
        return found

    def _below(self, above: Settings, folder: str, names: Container[str]) -> Settings:
        settings = above
        if self._fixed is None and not self._overrides.isolated:
            for name in FILES:
                if name in names and (own := read_config(os.path.join(folder, name))):
                    settings = own
                    break
        if settings.target_torch is not None and not _inferred(settings):
            return settings
        floor = folder_floor(folder, names)
        if floor is None and ".git" not in names:
            floor = above.target_torch if _inferred(above) else None
        return settings if floor == settings.target_torch else replace(settings, target_torch=_Inferred.of(floor))

    def _with_overrides(self, settings: Settings) -> Settings:
        if self._overrides.layer == Layer() and not self._overrides.overlays:
            return settings
        merged = self._merged.get(settings)
        if merged is None:
            merged = settings
            for overlay in self._overrides.overlays:
                merged = over(overlay.settings, merged, overlay.keys)
            layers = (*merged.layers, self._overrides.layer)
            merged = replace(merged, layers=layers, root=settings.root, source=settings.source)
            self._merged[settings] = merged
        return merged


class _Inferred(tuple[int, int]):
    """A version read from dependencies; one written as `target-torch` is a plain tuple and stays."""

    __slots__ = ()

    @classmethod
    def of(cls, version: Version | None) -> Version | None:
        return None if version is None else cls(version)


def _inferred(settings: Settings) -> bool:
    return isinstance(settings.target_torch, _Inferred)
