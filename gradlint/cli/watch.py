"""`gradlint check --watch`: the screen is drawn again whenever something changes that could change a finding."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

import click

from gradlint.cli.request import Request, finder_of, overrides_of
from gradlint.config.load import FILES, SOURCES, ConfigTree
from gradlint.config.reading import ConfigError, folders_up
from gradlint.python.roots import digest_of_folder
from gradlint.runner.files import UNKNOWN, MissingPathError, Stamp, read_bytes

if TYPE_CHECKING:
    from rich.console import Console

_CONFIGURING = frozenset((*FILES, *SOURCES, ".gitignore"))
_TICK = 1000  # milliseconds between two looks at configurations above the watched folders
#: time and size of each file, or what kept us from looking
Stamps = dict[str, Stamp | str]


class Checking(Protocol):
    """One run of `gradlint check`."""

    @property
    def written(self) -> Mapping[str, bytes]:
        """The files that were fixed, by their whole names, as they were written."""
        ...

    @property
    def around(self) -> frozenset[str]:
        """Other files that the findings depend on, and some that are not there."""
        ...

    def run(self) -> int: ...


def watch(request: Request, begin: Callable[[], Checking]) -> int:
    """Check now and after every change, until Ctrl-C."""
    _refuse(request)
    paths = [os.path.abspath(path) for path in request.paths or (".",)]
    try:
        _Watch(request, paths, begin).forever()
    except KeyboardInterrupt:
        pass
    except OSError as error:  # such as too many folders for the system to watch
        raise click.ClickException(f"--watch: {error}") from None
    return 0


def _refuse(request: Request) -> None:
    if request.writes_files() or not all(target.is_text for target in request.output_format):
        raise click.UsageError("--watch draws on the screen: only the formats full and concise, and no files.")
    overrides_of(request)  # a wrong option will not get better by waiting
    for path in request.paths:
        if not os.path.exists(path):
            raise click.UsageError(f"{path}: No such file or directory")
    if importlib.util.find_spec("watchfiles") is None:
        raise click.UsageError('--watch needs watchfiles: pip install "torch-gradlint[watch]"')


class _Watch:
    def __init__(self, request: Request, paths: list[str], begin: Callable[[], Checking]) -> None:
        from rich.console import Console

        self._request = request
        self._paths = paths
        self._begin = begin
        self._console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self._stamps: Stamps = {}
        self._above: Stamps = {}
        self._around: list[str] = []

    def forever(self) -> None:
        from watchfiles import watch

        self._check([])
        folders = {path if os.path.isdir(path) else os.path.dirname(path) for path in self._paths}
        deep = any(os.path.isdir(path) for path in self._paths)
        watching = False
        for events in watch(
            *folders, watch_filter=_may_matter, recursive=deep, rust_timeout=_TICK, yield_on_timeout=True,
            ignore_permission_denied=True,
        ):  # fmt: skip
            # the first time whatever is told: something may have changed before anyone watched
            if events or not watching or self._configured() != self._above:
                self._look()
            watching = True

    def _look(self) -> None:
        now = self._look_round()
        if changed := sorted(
            path for path in now.keys() | self._stamps.keys() if now.get(path) != self._stamps.get(path)
        ):
            if "" in now or "" in self._stamps:  # no file was found while the configuration was wrong
                changed = [path for path in changed if path in now and path in self._stamps] or [""]
            self._check(changed)

    def _check(self, changed: list[str]) -> None:
        # taken before the run: what changes meanwhile is seen as a change afterwards
        self._above = self._configured()
        self._stamps = self._look_round()
        _head(self._console, changed)
        try:
            checking = self._begin()
            checking.run()
            self._know(checking.around)
            for path, content in checking.written.items():
                if _content(path) == content:  # our own words are no news
                    self._stamps[path] = _stamp(path)
        except (ConfigError, click.ClickException) as error:
            said = error.format_message() if isinstance(error, click.ClickException) else str(error)
            click.echo(f"gradlint: error: {said}", err=True)
        self._console.print("Watching for changes, Ctrl-C ends.", style="dim")

    def _know(self, around: frozenset[str]) -> None:
        """Watch the files that the findings depend on, as far as they are not below a folder that is watched."""
        watched = tuple(os.path.join(path, "") for path in self._paths)
        new = [path for path in sorted(around) if not path.startswith(watched)]
        for path in new:
            if path not in self._stamps:
                self._stamps[path] = self._above[path] = _stamp(path)
        for path in self._around:
            if path not in new:
                self._stamps.pop(path, None)
                self._above.pop(path, None)
        self._around = new

    def _look_round(self) -> Stamps:
        """All that a run would look at, found in the way that a run finds it."""
        stamps = self._configured()
        request = self._request

        try:
            finder = finder_of(request, ConfigTree(overrides_of(request)))
            for file in finder.find(path for path in self._paths if os.path.exists(path)):
                stamps[file.path] = file.stamp
                if file.settings.baseline is not None:
                    stamps[file.settings.baseline] = _stamp(file.settings.baseline)
        except (ConfigError, MissingPathError) as error:
            stamps[""] = str(error)
        return stamps

    def _configured(self) -> Stamps:
        """What shapes the run from above the watched folders, and the files that the command line names."""
        given = (*self._request.config, self._request.baseline)
        stamps: Stamps = {os.path.abspath(file): _stamp(file) for file in given if file and os.path.isfile(file)}
        stamps |= {path: _stamp(path) for path in self._around}
        for path in self._paths:
            for folder in folders_up(path):
                stamps |= {
                    whole: _stamp(whole) for name in _CONFIGURING if os.path.exists(whole := os.path.join(folder, name))
                }
        return stamps


def _may_matter(change: object, path: str) -> bool:
    """A cheap first look at what the system tells of; a folder that was moved has no ending."""
    name = os.path.basename(path)
    matters = name in _CONFIGURING or os.path.splitext(name)[1].lower() in (
        ".py",
        ".ipynb",
        ".md",
        ".markdown",
        ".json",
        "",
    )
    return matters and f"{os.sep}.git{os.sep}" not in path


def _stamp(path: str) -> Stamp | str:
    if path.endswith(os.sep):  # a folder stands for the modules that are not in it
        return digest_of_folder(path) or ""
    try:
        return Stamp.of(os.stat(path))
    except OSError:
        return UNKNOWN


def _content(path: str) -> bytes | None:
    try:
        return read_bytes(path)
    except OSError:
        return None


def _head(console: Console, changed: Iterable[str]) -> None:
    names = [os.path.basename(path.rstrip(os.sep)) or "configuration" for path in changed]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    said = f"{', '.join(names[:3])}{more} changed" if names else "gradlint"
    console.clear()
    console.rule(f"{time.strftime('%H:%M:%S')} {said}", align="left", style="dim", characters="-")
