"""Reads `gradlint.toml` and `[tool.gradlint]`, and finds the settings that hold in each folder."""

from __future__ import annotations

import os
import re
from collections.abc import Container
from typing import NamedTuple

from gradlint.config.dependencies import SOURCES, Version, folder_floor
from gradlint.config.errors import ConfigError
from gradlint.config.reading import read_small
from gradlint.config.selectors import Layer
from gradlint.config.settings import Settings
from gradlint.records import replace

FILES = ("gradlint.toml", "pyproject.toml")
_INTERESTING = (*FILES, *SOURCES, ".git")
# the parser takes time by the square of a key's parts
_MOST_DOTS = 50
_STRING = r"""\"(?:[^"\\\n]|\\.)*\"?|'[^'\n]*'?"""


def read_config(path: str) -> Settings | None:
    """The settings of one file; None for a pyproject.toml that does not speak of gradlint."""
    try:
        raw = read_small(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    own = os.path.basename(path) != "pyproject.toml"
    if not own and b"gradlint" not in raw:
        return None  # spares the TOML parser, which costs more than the rest of a small run
    table = _parse(raw, path)
    if not own:
        tool = table.get("tool")
        section = tool.get("gradlint") if isinstance(tool, dict) else None
        if section is None:
            return None
        if not isinstance(section, dict):
            raise ConfigError(f"{path}: `tool.gradlint` must be a table")
        table = section
    from gradlint.config.schema import settings_from

    return settings_from(table, path, prefix="" if own else "tool.gradlint.")


def _parse(raw: bytes, path: str) -> dict[str, object]:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # type: ignore[no-redef,unused-ignore] # the same parser under its older name
    try:
        text = raw.decode("utf-8-sig")
        if any(line.count(".") > _MOST_DOTS for line in re.sub(_STRING, "", text).splitlines()):
            raise ConfigError(f"{path}: a key of more than {_MOST_DOTS} parts")
        return tomllib.loads(text)
    except ValueError as error:  # of the syntax, the encoding, or a number of thousands of digits
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: not valid TOML: nested too deeply") from None


class Overrides(NamedTuple):
    """What the command line says over any configuration file."""

    layer: Layer = Layer()
    config: str | None = None
    isolated: bool = False


class ConfigTree:
    """The settings of every folder: the nearest configuration upwards, under the command line's choices."""

    def __init__(self, overrides: Overrides | None = None) -> None:
        self._overrides = overrides or Overrides()
        self._known: dict[str, Settings] = {}
        self._merged: dict[Settings, Settings] = {}
        self._fixed: Settings | None = None
        if self._overrides.config is not None:
            path = os.path.abspath(self._overrides.config)
            self._fixed = read_config(path) or Settings(root=os.path.dirname(path), source=path)

    def at(self, folder: str, names: Container[str] | None = None) -> Settings:
        """The settings for the files of an absolute folder; `names` spares the file system if already listed."""
        return self._with_overrides(self._at(folder, names))

    def _at(self, folder: str, names: Container[str] | None) -> Settings:
        found = self._known.get(folder)
        if found is None:
            parent = os.path.dirname(folder)
            above = self._base() if parent == folder else self._at(parent, None)
            if names is None:
                names = {name for name in _INTERESTING if os.path.exists(os.path.join(folder, name))}
            found = self._known[folder] = self._below(above, folder, names)
        return found

    def _base(self) -> Settings:
        return self._fixed or Settings()

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
        if self._overrides.layer == Layer():
            return settings
        merged = self._merged.get(settings)
        if merged is None:
            merged = replace(settings, layers=(*settings.layers, self._overrides.layer))
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
