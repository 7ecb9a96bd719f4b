"""The settings that hold for what is open: those of the nearest configuration file under those of the editor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from gradlint.config.dependencies import SOURCES
from gradlint.config.errors import ConfigError
from gradlint.config.loader import FILES, ConfigTree, Overrides
from gradlint.config.selectors import Layer
from gradlint.config.settings import Settings
from gradlint.lsp.options import Options, options_from
from gradlint.model import SYNTAX_ERROR
from gradlint.records import replace
from gradlint.runner.files import FileFinder

#: files that shape the settings of the folders below them
WATCHED = (*FILES, *SOURCES, ".gitignore")
#: how long what was read is trusted while somebody types, in seconds
_TRUSTED = 2.0

Stamps = tuple[tuple[str, int, int], ...]


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

    def _stamped(self, folder: str) -> Iterator[tuple[str, int, int]]:
        for file in (self.options.configuration, self._settings_at(folder).baseline):
            if file is not None:
                yield from _stamp(file)
        while True:
            for name in WATCHED:
                yield from _stamp(os.path.join(folder, name))
            parent = os.path.dirname(folder)
            if parent == folder:
                return
            folder = parent

    def _settings_at(self, folder: str) -> Settings:
        try:
            if self._tree is None:
                options = self.options
                self._tree = ConfigTree(Overrides(options.layer, options.configuration, options.isolated))
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


def _stamp(path: str) -> Iterator[tuple[str, int, int]]:
    try:
        status = os.stat(path)
    except OSError:
        return
    yield path, status.st_mtime_ns, status.st_size
