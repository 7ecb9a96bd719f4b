"""`gradlint doctor`: what gradlint is, what it finds on this machine, and which configuration holds here."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple

import click

import gradlint
from gradlint import __version__
from gradlint.baseline import BaselineError, read_baseline
from gradlint.cli.check import cache_root
from gradlint.cli.selection import FORMAT
from gradlint.config.load import SOURCES, ConfigTree, folder_floor
from gradlint.config.reading import ConfigError, folders_up
from gradlint.config.selectors import preset_of
from gradlint.model import counted
from gradlint.registry import all_rules
from gradlint.report.text import Paint, wants_colour
from gradlint.runner.cache import Cache
from torch_gradlint import clash, foreign

if TYPE_CHECKING:
    from gradlint.config import Settings

_PATIENCE = 30.0  # seconds: a first import of torch from a network disk takes long
_EXTRAS = (("pygls", "lsp", "gradlint server"), ("watchfiles", "watch", "gradlint check --watch"))
# Python puts the working directory first for `-c`, where any file may be called like a module of torch's
_QUESTION = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import json, torch
cuda = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
mps = torch.backends.mps.is_available()
print(json.dumps([torch.__version__, torch.version.cuda, cuda if torch.cuda.is_available() else [], mps]))
"""


class Line(NamedTuple):
    """One thing that was asked, the answer, and whether it is `ok`, `missing` (which may be meant) or `wrong`."""

    name: str
    answer: str
    state: str = "ok"


@click.command()
@click.argument("path", default=".", type=click.Path(exists=True))
@click.option("--no-torch", is_flag=True, help="Do not ask torch for its devices, which takes seconds.")
@FORMAT
def doctor(path: str, no_torch: bool, output_format: str) -> int:
    """Say what gradlint finds: versions, extras, torch and its devices, the configuration of PATH, cache, git.

    Exit codes: 0, or 2 if the configuration is wrong.
    """
    lines = []
    for asked in _questions(os.path.abspath(path), no_torch):
        lines.append(asked)
        if output_format == "text":
            _show(asked)
    if output_format == "json":
        click.echo(json.dumps([line._asdict() for line in lines], indent=2))
    return 2 if any(line.state == "wrong" for line in lines) else 0


def _questions(path: str, no_torch: bool) -> Iterator[Line]:
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    yield Line("gradlint", f"{__version__}, in {os.path.dirname(os.path.abspath(gradlint.__file__))}")
    yield from _foreign()
    yield Line("python", f"{sys.version.split()[0]}, {sys.executable}")
    yield _asked("platform", lambda: Line("platform", f"{platform.platform()}, {os.cpu_count()} processors"))
    for package in ("click", "libcst", "rich"):
        yield Line(package, _version(package) or "unknown")
    for package, extra, purpose in _EXTRAS:
        yield _extra(package, extra, purpose)
    yield _asked("torch", lambda: _torch(no_torch))
    try:
        settings = ConfigTree().at(folder)
    except ConfigError as error:
        yield Line("configuration", " ".join(str(error).split()), "wrong")
    else:
        yield from _configuration(settings, folder)
    yield _asked("cache", lambda: _cache(path))
    yield _asked("git", _git)


def _foreign() -> Iterator[Line]:
    """Another distribution of the same name has the same files."""
    if foreign() is not None:
        yield Line("name", clash() or "", "missing")


def _asked(name: str, question: Callable[[], Line]) -> Line:
    """Whatever is wrong on a machine must not keep the other lines from being told."""
    try:
        return question()
    except Exception as error:
        return Line(name, f"cannot be told: {type(error).__name__}: {error}", "missing")


def _show(line: Line) -> None:
    role = {"ok": "good", "missing": "warning", "wrong": "error"}[line.state]
    mark = {"ok": "+", "missing": "-", "wrong": "!"}[line.state]
    click.echo(f"{Paint(wants_colour(sys.stdout))(mark, role)} {line.name:<13}  {line.answer}", color=True)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _extra(package: str, extra: str, purpose: str) -> Line:
    version = _version(package)
    if version is None:
        return Line(
            package, f'not installed, and only needed for `{purpose}`: pip install "torch-gradlint[{extra}]"', "missing"
        )
    return Line(package, version)


def _torch(no_torch: bool) -> Line:
    """torch itself is asked in a process of its own: a broken one must not take us with it."""
    version = _version("torch")
    if version is None:
        needed = "not needed to lint; `gradlint verify` and `prove` need it"
        return Line("torch", f'not installed, {needed}: pip install "torch-gradlint[runtime]"', "missing")
    if no_torch:
        return Line("torch", f"{version}, not asked for devices")
    try:
        answer = subprocess.run(
            [sys.executable, "-c", _QUESTION], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=_PATIENCE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Line("torch", f"{version}, but it did not answer within {_PATIENCE:.0f} s", "missing")
    lines = answer.stdout.splitlines()
    if answer.returncode != 0 or not lines:
        reason = _raised(answer.stderr) or f"exit code {answer.returncode}"
        return Line("torch", f"{version}, but it cannot be imported: {reason}", "missing")
    loaded, cuda, devices, mps = json.loads(lines[-1])
    built = f"built for CUDA {cuda}" if cuda else "built without CUDA"
    seen = [f"CUDA: {', '.join(devices)}" if devices else "no CUDA device seen", *(["MPS"] if mps else [])]
    return Line("torch", f"{loaded}, {built}, {', '.join(seen)}")


def _raised(said: str) -> str:
    """The exception at the end of a traceback, and of its words the first line."""
    lines = [line for line in said.splitlines() if line.strip()]
    frame = max((place for place, line in enumerate(lines) if line.startswith('  File "')), default=len(lines))
    return next((line for line in lines[frame:] if not line.startswith(" ")), lines[-1] if lines else "")


def _configuration(settings: Settings, folder: str) -> Iterator[Line]:
    rules = f"{len(settings.enabled_for(''))} of {len(all_rules())} rules on"
    preset = f"preset {preset_of(settings.layers).value}"
    yield Line("configuration", f"{settings.source or 'none, the defaults hold'}: {rules}, {preset}")
    above = _above(settings)
    if above is not None:
        yield Line("above it", f"{above}, which does not count here: the nearest one does")
    if settings.baseline is not None:
        yield _baseline(settings.baseline)
    yield _target(settings, folder)


def _above(settings: Settings) -> str | None:
    """The configuration that would hold if the nearest one were not there."""
    parent = os.path.dirname(settings.root)
    if not settings.source or parent == settings.root:
        return None
    try:
        return ConfigTree().at(parent).source or None
    except ConfigError as error:
        return " ".join(str(error).split())


def _baseline(file: str) -> Line:
    try:
        known = len(read_baseline(file).entries)
    except BaselineError as error:
        return Line("baseline", str(error), "wrong")
    return Line("baseline", f"{file}: {counted(known, 'known finding')}")


def _target(settings: Settings, folder: str) -> Line:
    if settings.target_torch is None:
        return Line("target torch", "not stated, neither as `target-torch` nor by your dependencies")
    version = ".".join(map(str, settings.target_torch))
    stated = type(settings.target_torch) is tuple  # one that was read from dependencies is a kind of its own
    return Line("target torch", f"{version}, from {settings.source if stated else _stated_in(folder)}")


def _stated_in(folder: str) -> str:
    """The dependency file that names the oldest torch."""
    for each in folders_up(folder):
        floor = folder_floor(each, SOURCES)
        for name in SOURCES:
            if floor is not None and folder_floor(each, (name,)) == floor:
                return os.path.join(each, name)
    return "your dependencies"


def _cache(path: str) -> Line:
    cache = Cache(cache_root(path), os.environ.get("GRADLINT_CACHE_DIR"))
    if not cache.usable:
        return Line(
            "cache",
            f"{cache.folder or 'no home folder'}: not writable, or part of the checkout: every run starts anew",
            "missing",
        )
    kept = f"{os.path.getsize(cache.file) / 1024:.0f} kB" if os.path.exists(cache.file) else "not made yet"
    return Line("cache", f"{cache.file}, {kept}")


def _git() -> Line:
    found = shutil.which("git")
    if found is None:
        return Line("git", "not found: only --diff-base needs it", "missing")
    said = subprocess.run(
        [found, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=10
    )
    return Line("git", f"{said.stdout.strip().removeprefix('git version ')}, {found}")
