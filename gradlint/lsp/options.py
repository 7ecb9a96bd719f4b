"""What the editor says about gradlint: checked as strictly as a configuration file, told as kindly."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Mapping

from gradlint.config.errors import ConfigError, unknown
from gradlint.config.presets import preset_named
from gradlint.config.selectors import Layer, check
from gradlint.records import dataclass

SECTION = "gradlint"


class Run(enum.Enum):
    """When a document is linted."""

    ON_TYPE = "onType"
    ON_SAVE = "onSave"


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of the editor; the layer lies over the configuration files, as the command line's does."""

    enable: bool = True
    run: Run = Run.ON_TYPE
    layer: Layer = Layer()
    configuration: str | None = None
    isolated: bool = False
    #: None: as the configuration file says
    unsafe_fixes: bool | None = None
    show_syntax_errors: bool = True


_SELECTING = ("select", "extendSelect", "ignore", "fixable", "unfixable")
_SWITCHES = ("enable", "isolated", "unsafeFixes", "showSyntaxErrors")
KEYS = (*_SWITCHES, "run", "preset", *_SELECTING, "configuration")


def options_from(raw: object, folder: str | None = None) -> tuple[Options, list[str]]:
    """The options, and the keys that mean nothing here: an editor's extension may have some of its own.

    `{"select": …}`, `{"settings": {"select": …}}` and `{"gradlint": {"select": …}}` all say the same; so do
    `extendSelect` and `extend-select`. Paths are relative to `folder`.
    """
    table = _table(raw)
    values = {_camel(key): value for key, value in table.items() if value is not None}
    if "config" in values:
        values.setdefault("configuration", values.pop("config"))
    strange = [key for key in values if key not in KEYS]
    switches = {key: _switch(values, key) for key in _SWITCHES}
    options = Options(
        enable=switches["enable"] is not False,
        run=_run(values.get("run", Run.ON_TYPE.value)),
        layer=_layer(values),
        configuration=_path(values.get("configuration"), folder),
        isolated=switches["isolated"] is True,
        unsafe_fixes=switches["unsafeFixes"],
        show_syntax_errors=switches["showSyntaxErrors"] is not False,
    )
    if options.configuration and options.isolated:
        raise ConfigError(f"{SECTION}.configuration and {SECTION}.isolated cannot be used together")
    return options, strange


def speaks_of_us(raw: object) -> bool:
    """Whether settings that an editor sends are meant for us: some send to every server all that they have."""
    try:
        table = _table(raw)
    except ConfigError:
        return True
    return any(_camel(key) in (*KEYS, "config") for key in table) or (isinstance(raw, Mapping) and SECTION in raw)


def _table(raw: object) -> Mapping[str, object]:
    while isinstance(raw, Mapping):
        inner = next((key for key in (SECTION, "settings") if isinstance(raw.get(key), Mapping | list)), None)
        if inner is None:
            return raw
        raw = raw[inner]
    if raw is None or raw == []:
        return {}  # Lua and Lisp cannot tell an empty object from an empty list
    raise ConfigError(f"{SECTION}: the settings must be an object, not {raw!r}")


def _camel(key: str) -> str:
    return re.sub(r"[-_](\w)", lambda found: found[1].upper(), key)


def _switch(values: Mapping[str, object], key: str) -> bool | None:
    value = values.get(key)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{SECTION}.{key}: must be `true` or `false`, not {value!r}")
    return value


def _run(value: object) -> Run:
    runs = {run.value: run for run in Run}
    if not isinstance(value, str) or value not in runs:
        raise unknown("value", str(value), runs, where=f"{SECTION}.run")
    return runs[value]


def _layer(values: Mapping[str, object]) -> Layer:
    preset = values.get("preset")
    if preset is not None and not isinstance(preset, str):
        raise ConfigError(f"{SECTION}.preset: must be a string, not {preset!r}")
    words = {key: _selectors(values, key) for key in _SELECTING}
    return Layer(
        words["select"],
        words["extendSelect"] or (),
        words["ignore"] or (),
        words["fixable"],
        words["unfixable"] or (),
        preset_named(preset, where=f"{SECTION}.preset") if preset else None,
    )


def _selectors(values: Mapping[str, object], key: str) -> tuple[str, ...] | None:
    value = values.get(key)
    if value is None:
        return None
    words = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise ConfigError(f'{SECTION}.{key}: must be a list of strings, such as `["GL1"]`, not {value!r}')
    check(words, where=f"{SECTION}.{key}")
    return tuple(words) or None  # an empty list is how editors show that nothing was chosen


def _path(value: object, folder: str | None) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ConfigError(f"{SECTION}.configuration: must be the path of a file, not {value!r}")
    expanded = os.path.expandvars(os.path.expanduser(value.replace("${workspaceFolder}", folder or ".")))
    return os.path.normpath(os.path.join(folder or "", expanded))
