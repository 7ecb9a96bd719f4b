"""Finds the Python files of a run: fast, once each, without what git and the configuration leave out."""

from __future__ import annotations

import os
import re
import stat as stat_module
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gradlint.config.globs import one_of
from gradlint.config.load import ConfigTree
from gradlint.config.reading import IRREGULAR, MOST_PATTERNS, ConfigError, read_small
from gradlint.config.settings import Settings
from gradlint.python.roots import text_over

DEFAULT_EXCLUDES = (
    ".bzr", ".direnv", ".eggs", ".git", ".git-rewrite", ".gradlint_cache", ".hg", ".ipynb_checkpoints", ".mypy_cache",
    ".nox", ".pants.d", ".pyenv", ".pytest_cache", ".pytype", ".ruff_cache", ".svn", ".tox", ".venv", ".vscode",
    "__pycache__", "__pypackages__", "_build", "buck-out", "build", "dist", "node_modules", "site-packages", "venv",
)  # fmt: skip
_ENDINGS = (".py", ".ipynb")
_WITH_MARKDOWN = (*_ENDINGS, ".md", ".markdown")


class _Pattern(NamedTuple):
    negated: bool
    directories_only: bool
    by_name: bool
    glob: str


class _Group(NamedTuple):
    """Neighbouring patterns of one sign: if any of them matches, the group decides."""

    ignores: bool
    directory_name: re.Pattern[str]
    directory_path: re.Pattern[str]
    file_name: re.Pattern[str]
    file_path: re.Pattern[str]
    python_name: re.Pattern[str]
    python_path: re.Pattern[str]

    def matches(self, relative: str, name: str, is_directory: bool) -> bool:
        if is_directory:
            by_name, by_path = self.directory_name, self.directory_path
        elif name.endswith(".py"):
            by_name, by_path = self.python_name, self.python_path
        else:
            by_name, by_path = self.file_name, self.file_path
        return by_name.fullmatch(name) is not None or by_path.fullmatch(relative) is not None


class GitIgnore:
    """One `.gitignore`; paths are relative to its folder, with forward slashes."""

    __slots__ = ("_groups",)

    def __init__(self, text: str) -> None:
        patterns = [found for line in text.splitlines() if (found := _parse(line))]
        self._groups = tuple(reversed(list(_groups(patterns))))

    def decision(self, relative: str, name: str, is_directory: bool) -> bool | None:
        """True to ignore, False to keep, None when this file has nothing to say: the last match decides."""
        for group in self._groups:
            if group.matches(relative, name, is_directory):
                return group.ignores
        return None


def _parse(line: str) -> _Pattern | None:
    line = _strip_trailing_spaces(line)
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    body = line[1:] if negated else line
    directories_only = body.endswith("/")
    body = body.rstrip("/") if directories_only else body
    if not body:
        return None
    by_name = "/" not in body
    return _Pattern(negated, directories_only, by_name, body.removeprefix("/"))


def _strip_trailing_spaces(line: str) -> str:
    stripped = line.rstrip(" \t\r")
    escaped = stripped.endswith("\\") and (len(stripped) - len(stripped.rstrip("\\"))) % 2 == 1
    return stripped + " " if escaped and len(line) > len(stripped) else stripped


def _groups(patterns: list[_Pattern]) -> Iterable[_Group]:
    run: list[_Pattern] = []
    for pattern in patterns:
        if run and run[-1].negated != pattern.negated:
            yield _group(run)
            run = []
        run.append(pattern)
    if run:
        yield _group(run)


def _group(run: list[_Pattern]) -> _Group:
    files = [pattern for pattern in run if not pattern.directories_only]
    python = [pattern for pattern in files if _may_name_python(pattern.glob)]
    return _Group(
        not run[0].negated,
        one_of(pattern.glob for pattern in run if pattern.by_name),
        one_of(pattern.glob for pattern in run if not pattern.by_name),
        one_of(pattern.glob for pattern in files if pattern.by_name),
        one_of(pattern.glob for pattern in files if not pattern.by_name),
        one_of(pattern.glob for pattern in python if pattern.by_name),
        one_of(pattern.glob for pattern in python if not pattern.by_name),
    )


def _may_name_python(glob: str) -> bool:
    """Whether a pattern can match a name ending in `.py`: its fixed ending and `.py` must agree."""
    ending = re.split(r"[*?\]\\]", glob)[-1]
    return ".py".endswith(ending) or ending.endswith(".py")


class Stamp(NamedTuple):
    """What tells that a file is untouched: its size and two times, of which whoever unpacks a file can set only one."""

    mtime_ns: int
    ctime_ns: int
    size: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        return cls(status.st_mtime_ns, status.st_ctime_ns, status.st_size)


#: that of no file: what came through stdin, or was written just now
UNKNOWN = Stamp(0, 0, 0)


class SourceFile(NamedTuple):
    """A file to lint: the path to show, the path to open, what the cache compares, the settings that hold."""

    shown: str
    path: str
    stamp: Stamp
    settings: Settings
    explicit: bool


class Skipped(NamedTuple):
    """A file that was found but cannot be looked at."""

    shown: str
    reason: str


def read_bytes(path: str) -> bytes:
    """A whole file; twice as fast as `open`, which counts when thousands are read."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        chunks: list[bytes] = []
        while chunk := os.read(descriptor, os.fstat(descriptor).st_size + 4096):
            chunks.append(chunk)
        return b"".join(chunks)
    finally:
        os.close(descriptor)


def bytes_now(path: str) -> bytes:
    """What a file holds, or what an editor has open in its place."""
    text = text_over(path)
    return read_bytes(path) if text is None else text


def shown_path(absolute: str, here: str | None = None) -> str:
    """Below the current folder, the relative path people type; elsewhere the whole path."""
    here = os.getcwd() if here is None else here
    prefix = os.path.join(here, "")
    if absolute == here:
        return ""
    return absolute[len(prefix) :] if absolute.startswith(prefix) else absolute


class MissingPathError(Exception):
    """A path on the command line that does not exist, or is no file to read."""


class FileFinder:
    """Walks paths; what cannot be read ends in `skipped`, not in an exception."""

    def __init__(
        self, tree: ConfigTree, *, force_exclude: bool = False, markdown: bool = False, gitignore: bool = True,
        here: str | None = None, deep: bool = True, most_entries: int | None = None, unasked: bool = False,
    ) -> None:  # fmt: skip
        """Not `deep`: only what stands right in a folder. After `most_entries`, of whatever kind, a walk ends.

        `unasked`: nobody asked for these folders; one whose configuration is refused is passed over, and what cannot
        be read of what git ignores there leaves nothing out.
        """
        self._tree = tree
        self._deep = deep
        self._left = most_entries
        self._unasked = unasked
        self.ended_early = False
        self._markdown = markdown
        self._gitignore = gitignore
        self._force_exclude = force_exclude
        self._here = here or os.getcwd()
        self._seen: set[str] = set()
        self._excludes: dict[tuple[tuple[str, ...] | None, tuple[str, ...]], _Excludes] = {}
        self._ignore_files: dict[str, tuple[tuple[str, GitIgnore], ...]] = {}
        self.skipped: list[Skipped] = []

    def find(self, paths: Iterable[str]) -> Iterator[SourceFile]:
        for path in paths:
            absolute = os.path.abspath(path)
            try:
                status = os.stat(absolute)
            except OSError as error:
                raise MissingPathError(f"{path}: {error.strerror or 'cannot be opened'}") from None
            if stat_module.S_ISDIR(status.st_mode):
                if not self._left_out_folder(absolute):
                    yield from self._walk(absolute, self._stack_above(absolute))
            elif not stat_module.S_ISREG(status.st_mode):
                raise MissingPathError(f"{path}: {IRREGULAR}; `-` is the standard input")
            elif absolute not in self._seen and not (self._force_exclude and self.left_out(absolute)):
                self._seen.add(absolute)
                settings = self._tree.at(os.path.dirname(absolute))
                yield SourceFile(shown_path(absolute, self._here), absolute, Stamp.of(status), settings, True)

    def _walk(self, top: str, above: tuple[tuple[str, GitIgnore], ...]) -> Iterator[SourceFile]:
        pending = [(top, shown_path(top, self._here), above)]
        while pending:
            folder, shown, ignores = pending.pop()
            if folder in self._seen:
                continue
            self._seen.add(folder)
            try:
                with os.scandir(folder) as listing:
                    entries = list(listing)
            except OSError as error:
                self.skipped.append(Skipped(shown or ".", error.strerror or "cannot be listed"))
                continue
            if self._left is not None:
                self._left -= len(entries)
                if self._left < 0:
                    self.ended_early = True
                    return
            names = {entry.name for entry in entries}
            if ".gitignore" in names or ".git" in names:
                ignores = (*ignores, *self._ignores_in(folder))
            try:
                settings = self._tree.at(folder, names)
            except ConfigError as error:
                if not self._unasked:
                    raise
                self.skipped.append(Skipped(shown or ".", str(error)))
                continue
            excludes = self._excludes_of(settings)
            endings = _WITH_MARKDOWN if self._markdown or settings.include_markdown else _ENDINGS
            prefix = os.path.join(shown, "") if shown else ""
            for entry in entries:
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    left_out = not self._deep or excludes.match(entry.path, name)
                    if not left_out and not _ignored(ignores, entry.path, name, True):
                        pending.append((entry.path, prefix + name, ignores))
                elif name.endswith(endings) and not _ignored(ignores, entry.path, name, False):
                    if self._is_source(entry) and not excludes.match(entry.path, name):
                        yield from self._source(entry, prefix + name, settings)

    def _is_source(self, entry: os.DirEntry[str]) -> bool:
        try:
            return entry.is_file()
        except OSError:  # a link that leads round in a circle
            return False

    def _source(self, entry: os.DirEntry[str], shown: str, settings: Settings) -> Iterator[SourceFile]:
        if entry.path in self._seen:
            return
        self._seen.add(entry.path)
        try:
            status = entry.stat()
        except OSError as error:
            self.skipped.append(Skipped(shown, error.strerror or "cannot be opened"))
            return
        yield SourceFile(shown, entry.path, Stamp.of(status), settings, False)

    def _ignores_in(self, folder: str) -> tuple[tuple[str, GitIgnore], ...]:
        """What a folder says: at the top of a checkout its `.git/info/exclude`, then its `.gitignore`."""
        if not self._gitignore:
            return ()
        if folder not in self._ignore_files:
            files = (_info_exclude(folder), os.path.join(folder, ".gitignore"))
            try:
                found = [_read_ignore_file(file) for file in files if file is not None]
            except ConfigError:
                if not self._unasked:
                    raise
                found = []
            self._ignore_files[folder] = tuple((folder, ignore) for ignore in found if ignore is not None)
        return self._ignore_files[folder]

    def _stack_above(self, folder: str) -> tuple[tuple[str, GitIgnore], ...]:
        """The ignore files from the top of the git checkout down to the folder above this one."""
        found: list[tuple[tuple[str, GitIgnore], ...]] = []
        current = folder
        while not os.path.exists(os.path.join(current, ".git")):
            parent = os.path.dirname(current)
            if parent == current:
                return ()  # in no checkout: ignore files above what the user named are not about it
            current = parent
            found.append(self._ignores_in(current))
        return tuple(ignore for own in reversed(found) for ignore in own)

    def left_out(self, absolute: str) -> bool:
        """Whether a walk from the top would not have come to this file, which need not exist."""
        folder, name = os.path.split(absolute)
        stack = (*self._stack_above(folder), *self._ignores_in(folder))
        if _ignored(stack, absolute, name, False):
            return True
        if self._excludes_of(self._tree.at(folder)).match(absolute, name):
            return True
        return self._left_out_by_parents(folder, stack)

    def _left_out_by_parents(self, folder: str, stack: tuple[tuple[str, GitIgnore], ...]) -> bool:
        while len(folder) > len(self._here) and folder.startswith(self._here):
            if self._excludes_of(self._tree.at(folder)).match(folder, os.path.basename(folder)):
                return True
            above = tuple((root, ignore) for root, ignore in stack if root != folder and folder.startswith(root))
            if _ignored(above, folder, os.path.basename(folder), True):
                return True
            folder = os.path.dirname(folder)
        return False

    def _left_out_folder(self, folder: str) -> bool:
        return self._force_exclude and self._left_out_by_parents(folder, self._stack_above(folder))

    def _excludes_of(self, settings: Settings) -> _Excludes:
        key = (settings.exclude, settings.extend_exclude)
        if key not in self._excludes:
            self._excludes[key] = _Excludes(*key)
        return self._excludes[key]


def _info_exclude(folder: str) -> str | None:
    """What git ignores in this checkout alone; None if the folder is not the top of one."""
    git = os.path.join(folder, ".git")
    if not os.path.exists(git):
        return None
    if not os.path.isdir(git):  # a further worktree, or a submodule
        named = _line(git).removeprefix("gitdir:").strip()
        git = os.path.join(folder, named)
        git = os.path.join(git, _line(os.path.join(git, "commondir")))
    return os.path.join(git, "info", "exclude")


def _line(path: str) -> str:
    try:
        return read_small(path, MOST_PATTERNS).decode("utf-8", "replace").strip()
    except (OSError, ConfigError):
        return ""


def _read_ignore_file(path: str) -> GitIgnore | None:
    try:
        text = read_small(path, MOST_PATTERNS).decode("utf-8-sig", "replace")
    except OSError:
        return None
    return GitIgnore(text)


def _ignored(stack: tuple[tuple[str, GitIgnore], ...], path: str, name: str, is_directory: bool) -> bool:
    for folder, ignore in reversed(stack):
        relative = path[len(folder) :].lstrip(os.sep)
        if os.sep != "/":
            relative = relative.replace(os.sep, "/")
        decision = ignore.decision(relative, name, is_directory)
        if decision is not None:
            return decision
    return False


class _Excludes:
    """`exclude` (or the defaults) and `extend-exclude`: names at any depth, or whole paths."""

    def __init__(self, exclude: tuple[str, ...] | None, extend: tuple[str, ...]) -> None:
        patterns = (*(DEFAULT_EXCLUDES if exclude is None else exclude), *extend)
        self._names = frozenset(pattern for pattern in patterns if not re.search(r"[*?\[/\\]", pattern))
        globs = [pattern for pattern in patterns if pattern not in self._names]
        by_name = [pattern for pattern in globs if "/" not in pattern]
        by_path = [pattern for pattern in globs if "/" in pattern]
        self._name_globs = one_of(by_name) if by_name else None
        self._path_globs = one_of(by_path) if by_path else None

    def match(self, path: str, name: str) -> bool:
        if name in self._names:
            return True
        if self._name_globs is not None and self._name_globs.fullmatch(name):
            return True
        if self._path_globs is None:
            return False
        return self._path_globs.fullmatch(path.replace(os.sep, "/")) is not None
