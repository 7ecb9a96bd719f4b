"""`.gitignore` files, compiled so that a walk over thousands of files pays almost nothing for them.

Neighbouring patterns become one expression. A matcher that tries pattern by pattern (pathspec's) gives the same
answers, but takes a noticeable part of a whole cold run over a large checkout, which is as long as ruff's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from gradlint.config.globs import one_of


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
