"""Findings that are known and may stay: kept in a file, silent from then on, and missed when they are gone.

An entry is known again by its fingerprint and by its path below the baseline's folder, so it survives lines that move.
A file that is gone may have been renamed: what it had is also known in other files, each finding once.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gradlint.config.reading import ConfigError, read_small
from gradlint.fingerprints import fingerprints
from gradlint.model import SYNTAX_ERROR, FileResult
from gradlint.records import replace
from gradlint.runner.write import write_whole

_VERSION = 1
#: what a baseline may take: some hundred thousand findings
_LARGEST = 100_000_000
#: nothing else can be found in a file that does not parse: known or not, this is always told
_NEVER_KNOWN = frozenset({SYNTAX_ERROR})

#: the program that was linted, None if it is gone
ReadText = Callable[[str], str | None]
#: whether a rule (a code) is on for a file (as the results name it)
IsOn = Callable[[str, str], bool]


class BaselineError(ConfigError):
    """Why a baseline cannot be used, in words for the user."""


class Entry(NamedTuple):
    """One known finding; the order of the fields is the order of the file."""

    path: str
    code: str
    function: str
    line: str
    fingerprint: str

    def __str__(self) -> str:
        within = f" in {self.function}" if self.function else ""
        return f"{self.path}: {self.code}{within}: {self.line}"


class Sifted(NamedTuple):
    """What is left of some results, the fingerprints that were known in each, and the entries that met nothing."""

    results: list[FileResult]
    known: dict[str, frozenset[str]]
    gone: list[Entry]


class Baseline:
    """The entries of one file."""

    def __init__(self, file: str, entries: Iterable[Entry] = ()) -> None:
        self.file = os.path.abspath(file)
        self._folder = os.path.realpath(os.path.dirname(self.file))
        self._folders: dict[str, str] = {}
        self.entries = tuple(sorted({entry for entry in entries if entry.code not in _NEVER_KNOWN}))

    def place(self, path: str) -> str:
        """How the baseline names a file: with forward slashes, from its own folder."""
        folder, name = os.path.split(os.path.abspath(path))
        if folder not in self._folders:  # the way through a link leads to the same file
            self._folders[folder] = os.path.realpath(folder)
        whole = os.path.join(self._folders[folder], name)
        try:
            whole = os.path.relpath(whole, self._folder)
        except ValueError:
            pass  # another drive
        return whole.replace(os.sep, "/")

    def exists(self, entry: Entry) -> bool:
        return os.path.exists(os.path.join(self._folder, entry.path))

    def _inside(self, entry: Entry, places: Sequence[str]) -> bool:
        whole = os.path.normpath(os.path.join(self._folder, entry.path))
        return any(whole == place or whole.startswith(os.path.join(place, "")) for place in places)

    def silence(self, result: FileResult, text: str | None) -> FileResult:
        """One file without its known findings, for who looks at no other file."""
        at = self.place(result.path)
        return without(result, text, frozenset(entry.fingerprint for entry in self.entries if entry.path == at))

    def sift(
        self, results: Sequence[FileResult], read: ReadText, is_on: IsOn, asked: Sequence[str] | None = None
    ) -> Sifted:
        """All results of a run without what is known; `gone` names only entries that the run could have met.

        `asked`: the files and folders that were looked through; None for all that there are.
        """
        matching = _Matching(self, results, read)
        left = [_dropped(result, matching.known[result.path]) for result in results]
        within_reach = self._reach(results, is_on, asked)
        return Sifted(left, matching.fingerprints(), [entry for entry in matching.unmet if within_reach(entry)])

    def renewed(
        self, results: Sequence[FileResult], read: ReadText, is_on: IsOn, asked: Sequence[str] | None = None
    ) -> Baseline:
        """A baseline with all findings of a run; what the run could not have met stays as it was."""
        fresh = [
            Entry(self.place(result.path), finding.code, one.function, one.line, one.value)
            for result in results
            if result.findings
            for finding, one in zip(result.ordered(), fingerprints(result, read(result.path)), strict=True)
        ]
        within_reach = self._reach(results, is_on, asked)
        kept = [entry for entry in _Matching(self, results, read).unmet if not within_reach(entry)]
        return Baseline(self.file, [*kept, *fresh])

    def _reach(
        self, results: Sequence[FileResult], is_on: IsOn, asked: Sequence[str] | None
    ) -> Callable[[Entry], bool]:
        """Whether a run with these results would have met an entry, were its finding still there."""
        looked_at = {self.place(result.path): result for result in results}
        places = None if asked is None else [os.path.realpath(path) for path in asked]

        def within_reach(entry: Entry) -> bool:
            result = looked_at.get(entry.path)
            if result is None:
                # a file that is gone may have another name in a part that was not looked through
                return not self.exists(entry) and (places is None or self._inside(entry, places))
            return _was_read(result) and is_on(entry.code, result.path)

        return within_reach

    def text(self) -> str:
        """One finding a line, so that a diff shows what came and what went."""
        rows = ",\n".join(f"    {json.dumps(entry._asdict(), ensure_ascii=False)}" for entry in self.entries)
        findings = f"[\n{rows}\n  ]" if rows else "[]"
        return f'{{\n  "tool": "gradlint",\n  "version": {_VERSION},\n  "findings": {findings}\n}}\n'

    def write(self) -> None:
        # a file name that is no Unicode comes out as JSON's own escape
        content = self.text().encode("utf-8", "backslashreplace")
        try:
            if _read(self.file) == content:
                return
        except OSError:
            pass  # not there yet
        try:
            write_whole(os.path.realpath(self.file), content)
        except OSError as error:
            raise BaselineError(f"{self.file}: cannot be written: {error.strerror}") from None


class _Matching:
    """Which findings are known: first each file's own, then those of files that are gone."""

    def __init__(self, baseline: Baseline, results: Sequence[FileResult], read: ReadText) -> None:
        self._baseline = baseline
        self._prints = {result.path: fingerprints(result, read(result.path)) for result in results if result.findings}
        self._own: dict[str, dict[str, Entry]] = {}
        for entry in baseline.entries:
            self._own.setdefault(entry.path, {})[entry.fingerprint] = entry
        self.known: dict[str, list[bool]] = {result.path: self._known_here(result) for result in results}
        self._follow_renames()
        self.unmet = sorted(entry for entries in self._own.values() for entry in entries.values())

    def fingerprints(self) -> dict[str, frozenset[str]]:
        """What is known in each file, under whatever name it became so."""
        return {
            path: frozenset(one.value for one, known in zip(prints, self.known[path], strict=True) if known)
            for path, prints in self._prints.items()
        }

    def _known_here(self, result: FileResult) -> list[bool]:
        entries = self._own.get(self._baseline.place(result.path), {})
        return [entries.pop(one.value, None) is not None for one in self._prints.get(result.path, ())]

    def _follow_renames(self) -> None:
        homeless = [
            entries
            for path, entries in sorted(self._own.items())
            if entries and not self._baseline.exists(next(iter(entries.values())))
        ]
        for entries in homeless:
            for path in self._likely_heirs(entries):
                for place, one in enumerate(self._prints[path]):
                    if not self.known[path][place] and entries.pop(one.value, None) is not None:
                        self.known[path][place] = True

    def _likely_heirs(self, entries: dict[str, Entry]) -> list[str]:
        """Files that share unknown findings with one that is gone; what shares most may well be that file."""
        shared: Counter[str] = Counter()
        for path, prints in self._prints.items():
            for one, known in zip(prints, self.known[path], strict=True):
                shared[path] += not known and one.value in entries
        return sorted((path for path in shared if shared[path]), key=lambda path: (-shared[path], path))


def _read(file: str) -> bytes:
    try:
        return read_small(file, _LARGEST)
    except ConfigError as error:
        raise BaselineError(str(error)) from None


def read_baseline(file: str) -> Baseline:
    """The baseline of a file; BaselineError if it is not there or not one."""
    try:
        raw = _read(file)
    except OSError as error:
        raise BaselineError(f"{file}: cannot be read: {error.strerror}") from None
    try:
        table = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{file}: not a baseline of gradlint: {error}") from None
    if not isinstance(table, dict) or table.get("tool") != "gradlint":
        raise BaselineError(f"{file}: not a baseline of gradlint")
    version = table.get("version")
    if isinstance(version, int) and version > _VERSION:
        raise BaselineError(f"{file}: written by a newer gradlint (format {version}, this one reads {_VERSION})")
    try:
        entries = [_entry(row) for row in table["findings"]]
    except (KeyError, TypeError) as error:
        raise BaselineError(f"{file}: not a baseline of gradlint: a broken entry ({error})") from None
    return Baseline(file, entries)


def _entry(row: dict[str, object]) -> Entry:
    values = [row[field] for field in Entry._fields]
    if not all(isinstance(value, str) for value in values):
        raise TypeError("its fields must be strings")
    return Entry(*(str(value) for value in values))


def without(result: FileResult, text: str | None, known: frozenset[str]) -> FileResult:
    """A result without the findings of these fingerprints."""
    return _dropped(result, [one.value in known for one in fingerprints(result, text)])


def _dropped(result: FileResult, known: list[bool]) -> FileResult:
    if not any(known):
        return result
    pairs = zip(result.ordered(), known, strict=True)
    return replace(result, findings=tuple(finding for finding, is_known in pairs if not is_known))


def _was_read(result: FileResult) -> bool:
    """Whether the rules have seen the file, so that what they did not find is not there."""
    broken = any(finding.code in _NEVER_KNOWN for finding in result.findings)
    return result.unreadable is None and not result.crashes and not broken
