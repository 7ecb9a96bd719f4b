"""The settings that hold for what is open: those of the nearest configuration file under those of the editor."""

from __future__ import annotations

import enum
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping

from gradlint.config.load import FILES, SOURCES, ConfigTree, Overrides
from gradlint.config.reading import ConfigError, folders_up, unknown
from gradlint.config.selectors import Layer, check, preset_named
from gradlint.config.settings import Settings
from gradlint.model import SYNTAX_ERROR
from gradlint.records import dataclass, replace
from gradlint.runner.files import FileFinder, Stamp

SECTION = "gradlint"

_SELECTING = ("select", "extendSelect", "ignore", "fixable", "unfixable")
_SWITCHES = ("enable", "isolated", "unsafeFixes", "showSyntaxErrors")
KEYS = (*_SWITCHES, "run", "preset", *_SELECTING, "configuration")
#: files that shape the settings of the folders below them
WATCHED = (*FILES, *SOURCES, ".gitignore")
#: how long what was read is trusted while somebody types, in seconds
_TRUSTED = 2.0
Stamps = tuple[tuple[str, Stamp], ...]


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


class Workspace:
    """Reads configuration once, again when it has changed, and goes on with the last good one if it is broken."""

    def __init__(
        self, complain: Callable[[str], None], log: Callable[[str], None], on_change: Callable[[], None]
    ) -> None:  # fmt: skip
        self._complain = complain
        self._on_change = on_change
        self._log = log
        self._folders: list[str] = []
        self._raw: object = None
        self.options = Options()
        self._tree: ConfigTree | None = None
        self._finders: dict[str, FileFinder] = {}
        self._stamps: dict[str, tuple[float, Stamps]] = {}
        #: the last good settings by folder
        self._good: dict[str, Settings] = {}
        self._told: set[str] = set()

    def set_folders(self, folders: list[str]) -> None:
        """The folders that are open; the first is where relative paths among the options begin."""
        self._folders = folders
        self.configure(self._raw)

    def configure(self, raw: object) -> None:
        """Take the editor's options; wrong ones are told, and the last good ones stay."""
        self._raw = raw
        try:
            self.options, strange = options_from(raw, self._folders[0] if self._folders else None)
        except ConfigError as error:
            self.tell(str(error))
            return
        if strange:
            self._log(f"settings that mean nothing to the server: {', '.join(sorted(strange))}")
        self.forget()

    def forget(self) -> None:
        """Read all configuration anew when it is next asked for."""
        self._tree = None
        self._finders.clear()
        self._stamps.clear()
        self._told.clear()

    def settings_for(self, path: str | None) -> Settings | None:
        """The settings of a file; of the first folder for what has none. None: it is not to be linted."""
        if not self.options.enable:
            return None
        folder = os.path.dirname(path) if path is not None else self._home()
        settings = self._settings_at(folder)
        return None if path is not None and self._left_out(path) else settings

    @property
    def overrides(self) -> Overrides:
        """What the editor says over any configuration file."""
        return Overrides(self.options.layer, self.options.configuration, self.options.isolated)

    def unsafe_fixes(self, settings: Settings) -> bool:
        wish = self.options.unsafe_fixes
        return bool(settings.fixing.unsafe_fixes if wish is None else wish)

    def refresh(self, path: str | None, *, at_once: bool = False) -> None:
        """Look whether configuration has changed on the disk since it was read; not every editor watches it for us."""
        folder = os.path.dirname(path) if path is not None else self._home()
        read, known = self._stamps.get(folder, (0.0, None))
        now = time.monotonic()
        if known is not None and not at_once and now - read < _TRUSTED:
            return
        stamps = tuple(self._stamped(folder))
        changed = known is not None and stamps != known
        if changed:
            self.forget()
        self._stamps[folder] = now, stamps
        if changed:
            self._on_change()

    def _stamped(self, folder: str) -> Iterator[tuple[str, Stamp]]:
        for file in (self.options.configuration, self._settings_at(folder).baseline):
            if file is not None:
                yield from _stamp(file)
        for each in folders_up(folder):
            for name in WATCHED:
                yield from _stamp(os.path.join(each, name))

    def _settings_at(self, folder: str) -> Settings:
        try:
            if self._tree is None:
                self._tree = ConfigTree(self.overrides)
            settings = self._good[folder] = self._tree.at(folder)
        except ConfigError as error:
            self.tell(str(error))
            fallback = Settings(layers=(self.options.layer,))
            return self._good.get(folder, fallback)
        return settings

    def tell(self, message: str) -> None:
        """Once: the same mistake is met at every key stroke."""
        if message not in self._told:
            self._told.add(message)
            self._complain(message)

    def _home(self) -> str:
        return self._folders[0] if self._folders else os.path.expanduser("~")

    def _left_out(self, path: str) -> bool:
        root = max((f for f in self._folders if _holds(f, path)), key=len, default=os.path.dirname(path))
        finder = self._finders.get(root)
        if finder is None:
            finder = self._finders[root] = FileFinder(self._tree or ConfigTree(), force_exclude=True, here=root)
        try:
            return finder.left_out(path)
        except ConfigError:
            return False  # told already, and no reason to be silent about the code


def for_editing(settings: Settings, codes: tuple[str, ...] = ()) -> Settings:
    """The same settings with fixes for these rules only: looking for fixes takes longer than all else."""
    wanted = tuple(code for code in codes if settings.fixable(code))
    # that a text does not parse must be known, whether or not it is to be told
    top = Layer(extend_select=(SYNTAX_ERROR,), fixable=wanted)
    return replace(settings, layers=(*settings.layers, top))


def _holds(folder: str, path: str) -> bool:
    return path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def _stamp(path: str) -> Iterator[tuple[str, Stamp]]:
    try:
        yield path, Stamp.of(os.stat(path))
    except OSError:
        return
