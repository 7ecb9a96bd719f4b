"""Makes one list of what several analyses saw: that of a file itself, and those of the files that import it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set

from gradlint.model import UNUSED_SUPPRESSION, FileResult, Finding, Span
from gradlint.records import replace
from gradlint.runner.files import shown_path

_Key = tuple[str, Span]


def settled(
    asked: Sequence[FileResult], others: Sequence[FileResult], paths: Mapping[str, str]
) -> list[FileResult]:  # fmt: skip
    """The results with what other files' analyses know of them; `paths`: where each file is that a result names.

    A file's own finding that takes a function for the start of a path is dropped if a caller in another file was
    followed through that function and by that place, and it was not found there. What is found in a file that was not
    asked for is told only if a line of its story stands in one that was.
    """
    results = [*asked, *others]
    if not any(result.elsewhere or result.reached or result.silenced for result in results):
        return list(asked)
    told: dict[str, dict[_Key, Finding]] = {}
    reached: dict[str, set[int]] = {}
    in_part: dict[str, set[int]] = {}
    silenced: dict[str, set[int]] = {}
    for result in sorted(results, key=lambda result: result.path):
        for finding in result.elsewhere:
            told.setdefault(os.path.realpath(finding.path), {}).setdefault(_key(finding), finding)
        for path, row, all_ways in result.reached:
            (reached if all_ways else in_part).setdefault(os.path.realpath(path), set()).add(row)
        for path, first, last in result.silenced:
            silenced.setdefault(os.path.realpath(path), set()).update(range(first, last + 1))
    wanted = {os.path.realpath(paths.get(result.path, result.path)) for result in asked}
    found = []
    seen = {os.path.realpath(paths.get(result.path, result.path)) for result in results}
    for path in told.keys() - seen:
        findings = [f for f in told[path].values() if any(_is_in(line.path, wanted) for line in f.related)]
        if findings:
            found.append(_of_file(FileResult(shown_path(path)), {_key(f): f for f in findings}, set()))
    for result in results:
        path = os.path.realpath(paths.get(result.path, result.path))
        whole = _of_file(result, told.get(path, {}), reached.get(path, set()) - in_part.get(path, set()))
        if path in silenced:  # a comment that another file's analysis needs is of use
            useful = silenced[path]
            kept = (f for f in whole.findings if f.code != UNUSED_SUPPRESSION or f.span.start.row not in useful)
            whole = replace(whole, findings=tuple(kept))
        if path in wanted:
            found.append(whole)
        elif near := tuple(f for f in whole.findings if any(_is_in(line.path, wanted) for line in f.related)):
            found.append(FileResult(result.path, near))
    return sorted(found, key=lambda result: result.path)


def _of_file(result: FileResult, others: Mapping[_Key, Finding], called: Set[int]) -> FileResult:
    if not others and not called:
        return result
    own = [f for f in result.findings if _key(f) in others or not f.entries or not called >= _places(f)]
    known = {_key(finding) for finding in own}
    new = [replace(finding, path="") for key, finding in others.items() if key not in known]
    return replace(result, findings=tuple(sorted((*own, *new), key=lambda f: (f.span.start, f.code, f.message))))


def _places(finding: Finding) -> set[int]:
    """Where a caller has to come by to know better; with an option left out it may not come by the place itself."""
    return {*finding.entries, finding.span.start.row}


def _key(finding: Finding) -> _Key:
    return finding.code, finding.span


def _is_in(path: str, wanted: Set[str]) -> bool:
    return bool(path) and os.path.realpath(path) in wanted
