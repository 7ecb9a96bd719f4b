"""Makes one list of what several analyses saw: that of a file itself, and those of the files that import it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Set
from typing import NamedTuple

from gradlint.fingerprints import fingerprints
from gradlint.model import UNUSED_SUPPRESSION, FileResult, Finding, FixSafety, Grade, Span, in_order
from gradlint.records import replace
from gradlint.runner.files import SourceFile

_Key = tuple[str, Span]
#: whether what the analysis of a file knows of another one counts there
Counts = Callable[[SourceFile, str], bool]
#: what is left of a result (of the program that it was made from) when all that is silent is gone
Keep = Callable[[FileResult, str], FileResult]


class Analysed(NamedTuple):
    """A file, and what its analysis gave."""

    file: SourceFile
    result: FileResult


class _Caller(NamedTuple):
    """What the analysis of another file knows of one: the rows that it came by on all ways, and what it found."""

    reached: set[int]
    found: set[_Key]

    def is_right(self, finding: Finding) -> bool:
        return _key(finding) not in self.found and self.reached >= _places(finding)


class _RealPaths:
    """Paths without links; most files share their folders, and are asked for several times."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}
        self._known: dict[str, str] = {}

    def of(self, path: str) -> str:
        if path not in self._known:
            folder, name = os.path.split(path)
            if folder not in self._folders:
                self._folders[folder] = os.path.realpath(folder)
            whole = os.path.join(self._folders[folder], name)
            self._known[path] = os.path.realpath(path) if os.path.islink(whole) else whole
        return self._known[path]

    def of_all(self, files: Iterable[SourceFile]) -> Set[str]:
        return {self.of(file.path) for file in files}


class Ledger:
    """What analyses found in their own files and in others.

    A finding counts only if it is known to whoever asks for its file alone: from the analysis of that file, and those
    of files that import it. Settings are those of the file that it is in.
    """

    def __init__(self, analysed: Iterable[Analysed], counts: Counts) -> None:
        self._analysed = sorted(analysed, key=lambda one: one.file.path)
        self._told: dict[str, dict[_Key, Finding]] = {}
        self._reached: dict[str, set[int]] = {}
        self._in_part: dict[str, set[int]] = {}
        self._silenced: dict[str, set[int]] = {}
        self._callers: dict[str, list[_Caller]] = {}
        self._unsure: set[str] = set()
        self._real = _RealPaths()
        for file, result in self._analysed:
            self._add(file, result, counts)

    def _add(self, file: SourceFile, result: FileResult, counts: Counts) -> None:
        paths = {finding.path for finding in result.elsewhere}
        paths.update(row[0] for row in (*result.reached, *result.silenced))
        known = {path: self._real.of(path) for path in paths if counts(file, path)}
        for finding in result.elsewhere:
            if finding.path in known:
                here = self._told.setdefault(known[finding.path], {})
                known_as = here.setdefault(_key(finding), finding)
                if known_as.grade is not Grade.SEEN and finding.grade is Grade.SEEN:
                    here[_key(finding)] = finding
        callers = {path: _Caller(set(), set()) for path in known}
        for path, row, all_ways in result.reached:
            if path in known:
                (self._reached if all_ways else self._in_part).setdefault(known[path], set()).add(row)
                if all_ways:
                    callers[path].reached.add(row)
        for finding in result.elsewhere:
            if finding.path in known:
                callers[finding.path].found.add(_key(finding))
        for path, caller in callers.items():
            self._callers.setdefault(known[path], []).append(caller)
        for path, first, last in result.silenced:
            if path in known:
                self._silenced.setdefault(known[path], set()).update(range(first, last + 1))
        if result.exhausted:
            self._unsure.update(known.values())

    def near(self, asked: Iterable[SourceFile]) -> frozenset[str]:
        """The files, none of them asked for, with a finding whose story has a line in one that was."""
        wanted = self._real.of_all(asked)
        found = {path for path, told in self._told.items() if self._touching(told.values(), wanted)}
        touching = (file for file, result in self._analysed if self._touching(result.findings, wanted))
        found.update(self._real.of_all(touching))
        return frozenset(found - wanted)

    def settled(self, asked: Iterable[SourceFile], near: Set[str]) -> list[FileResult]:
        """What there is to tell of the files that were asked for, and of those near them as far as it touches them."""
        names, wanted = {file.path for file in asked}, self._real.of_all(asked)
        told = []
        for file, result in self._analysed:
            real = self._real.of(file.path)
            if file.path in names:
                told.append(self._of_file(file, result, real))
            elif real in near:
                whole = self._of_file(file, result, real)
                if findings := tuple(self._touching(whole.findings, wanted)):
                    told.append(FileResult(whole.path, findings, cells=whole.cells))
        return sorted(told, key=lambda result: result.path)

    def disputed(self, settled: Iterable[FileResult]) -> dict[str, FileResult]:
        """The own results of files with a fix that callers in other files would not have, or not as a safe one."""
        told = {result.path: result for result in settled}
        return {
            result.path: result
            for _, result in self._analysed
            if result.path in told and not _fixes(result) <= _fixes(told[result.path])
        }

    def _touching(self, findings: Iterable[Finding], files: Set[str]) -> list[Finding]:
        """Those with a line of their story in one of these files."""
        return [f for f in findings if any(line.path and self._real.of(line.path) in files for line in f.related)]

    def _of_file(self, file: SourceFile, result: FileResult, real: str) -> FileResult:
        """A file's own finding that takes a function for the start of a path is dropped if a caller in another file was
        followed through that function and by that place, and it was not found there. What a caller shows takes
        the place of what was only guessed without it."""
        told = self._told.get(real, {})
        enabled = file.settings.enabled_for(file.path) if told else frozenset()
        others = {key: f for key, f in told.items() if f.code in enabled}
        called = self._reached.get(real, set()) - self._in_part.get(real, set())
        useful, unsure = self._silenced.get(real, set()), real in self._unsure
        if not others and not called and not useful and not unsure:
            return result
        own = [f for f in result.findings if _key(f) in others or not f.entries or not called >= _places(f)]
        # a comment that another file's analysis needs is of use
        needed = (f.code == UNUSED_SUPPRESSION and (unsure or f.span.start.row in useful) for f in own)
        own = [finding for finding, is_needed in zip(own, needed, strict=True) if not is_needed]
        own = [_with_caller(finding, others.get(_key(finding)), file) for finding in own]
        own = [self._as_safe_as_for_all(finding, real) for finding in own]
        known = {_key(finding) for finding in own}
        new = [file.settings.with_severity(replace(f, path="")) for key, f in others.items() if key not in known]
        return replace(result, findings=tuple(in_order((*own, *new))))

    def _as_safe_as_for_all(self, finding: Finding, real: str) -> Finding:
        """A fix that changes what another caller does right is not safe."""
        if finding.fix is None or not any(caller.is_right(finding) for caller in self._callers.get(real, ())):
            return finding
        return replace(finding, fix=replace(finding.fix, safety=FixSafety.UNSAFE))


def _with_caller(finding: Finding, shown: Finding | None, file: SourceFile) -> Finding:
    """What a file's own analysis found, or what another one did, if that has seen what this one guessed."""
    if shown is None or shown.grade is not Grade.SEEN or finding.grade is Grade.SEEN:
        return finding
    return file.settings.with_severity(replace(shown, path="", fix=finding.fix))


def _fixes(result: FileResult) -> Set[tuple[_Key, FixSafety]]:
    return {(_key(finding), finding.fix.safety) for finding in result.findings if finding.fix is not None}


def crosses(result: FileResult) -> bool:
    """Whether an analysis knows anything of another file."""
    if result.elsewhere or result.reached or result.silenced:
        return True
    return any(line.path for finding in result.findings for line in finding.related)


def _places(finding: Finding) -> set[int]:
    """Where a caller has to come by to know better; with an option left out it may not come by the place itself."""
    return {*finding.entries, finding.span.start.row}


def _key(finding: Finding) -> _Key:
    return finding.code, finding.span


class Disputed(NamedTuple):
    """Codes of which a file alone would mend more than its callers in other files let it, and what of them is left."""

    codes: frozenset[str]
    left: frozenset[str]

    @classmethod
    def of(cls, alone: FileResult, told: FileResult, text: str | None, *, unsafe: bool) -> Disputed:
        prints = zip(told.ordered(), fingerprints(told, text), strict=True)
        left = frozenset(one.value for finding, one in prints if finding.fixable(unsafe=unsafe))
        safe = {(finding.code, finding.span) for finding in told.findings if finding.fixable(unsafe=unsafe)}
        mended = (finding for finding in alone.findings if finding.fixable(unsafe=unsafe))
        return cls(frozenset(finding.code for finding in mended if (finding.code, finding.span) not in safe), left)

    def without(self, result: FileResult, text: str) -> FileResult:
        """What may be mended of a result."""
        pairs = zip(result.ordered(), fingerprints(result, text), strict=True)
        kept = (finding for finding, one in pairs if finding.code not in self.codes or one.value in self.left)
        return replace(result, findings=tuple(kept))


def undisputed(settle: Callable[[FileResult], FileResult], keep: Keep | None, *, unsafe: bool) -> Keep:
    """What may be mended of a file alone, round after round: what `settle`, which is asked once, and `keep` leave."""
    disputed: list[Disputed] = []

    def kept(result: FileResult, text: str) -> FileResult:
        if not disputed:
            disputed.append(Disputed.of(result, settle(result), text, unsafe=unsafe))
        result = disputed[0].without(result, text)
        return result if keep is None else keep(result, text)

    return kept
