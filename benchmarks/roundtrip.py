"""Counts how many injected bugs gradlint mends.

usage: python -m benchmarks.roundtrip [--per-code N] [--codes GL101,GL2] [--show] [SOURCES...]

Takes correct training code (default: tests/loops), makes mutants of it with `benchmarks.mutate`, each with one bug of
a known code, and fixes each with all fixes, unsafe ones too. A row per code: mutants in which the bug was reported;
of these, those in which it is gone and nothing new has come; those whose syntax tree is the original's again.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import functools
import pathlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from benchmarks.mutate.__main__ import ALL_MUTATIONS, Mutant, every, sources
from benchmarks.recall import LOOPS
from gradlint.config import Settings
from gradlint.engine import fix, lint
from gradlint.model import FileResult
from gradlint.records import replace

#: the mutations that only move statements: nothing is lost, so the original can be had back
MOVES = frozenset(
    ("GL101", "GL102", "GL103", "GL205", "GL207", "GL208", "GL305", "GL402", "GL403", "GL404", "GL406", "GL502")
)
#: of the reported mutants: those that must be mended, and, of the moved ones, those that must be as they were
GONE_GOAL, RESTORED_GOAL = 0.98, 0.80


class Outcome(NamedTuple):
    """One mutant in which the bug was reported, and what the fixer made of it."""

    source: pathlib.Path
    code: str
    original: str
    mutant: str
    fixed: str
    #: what the fixed file has and the original had not
    left: Counter[str]
    restored: bool
    notes: tuple[str, ...]

    @property
    def gone(self) -> bool:
        return not self.left

    @property
    def failed(self) -> bool:
        return not self.gone or (self.code in MOVES and not self.restored)

    def summary(self) -> str:
        """One line for the failure."""
        what = f"leaves {', '.join(sorted(self.left.elements()))}" if self.left else "mended, but not as it was"
        return f"{self.code} in {self.source.name}: {what}"

    def story(self) -> str:
        """What was done, what was undone, and why not more."""
        injected = _diff(self.original, self.mutant, "original", "mutant")
        mended = _diff(self.mutant, self.fixed, "mutant", "fixed") or "nothing was changed\n"
        return "\n".join([self.summary(), injected, mended, *self.notes, ""])


def outcomes(arguments: list[pathlib.Path], per_code: int = 2, codes: tuple[str, ...] = ("GL",)) -> Iterator[Outcome]:
    """Every mutant of these sources in which the bug is reported, fixed."""
    wanted = {code: mutation for code, mutation in ALL_MUTATIONS.items() if code.startswith(codes)}
    for mutant in every(sources(arguments), wanted, per_code):
        if (outcome := mended(mutant, Settings())) is not None:
            yield outcome


def mended(mutant: Mutant, settings: Settings) -> Outcome | None:
    """What the fixer makes of it; None if the bug is not reported."""
    path, code, text, _ = mutant
    before = _as_it_was(path, settings)
    found = lint(text.encode(), str(path), replace(settings, offers=False))  # fixes are looked for below
    if _codes(found)[code] <= before.known[code]:
        return None
    fixed = fix(text.encode(), str(path), settings, unsafe=True)
    restored = ast.dump(ast.parse(fixed.source)) == before.tree
    left, notes = _codes(fixed.result) - before.known, fixed.result.notes
    return Outcome(path, code, before.source, text, fixed.source.decode(), left, restored, notes)


class _Original(NamedTuple):
    source: str
    known: Counter[str]
    tree: str


@functools.cache
def _as_it_was(path: pathlib.Path, settings: Settings) -> _Original:
    """Our own loops are silent, and stay as they are; others may have fixes of their own."""
    source = path.read_text(encoding="utf-8")
    original = fix(source.encode(), str(path), settings, unsafe=True)
    return _Original(source, _codes(original.result), ast.dump(ast.parse(original.source)))


def _codes(result: FileResult) -> Counter[str]:
    return Counter(f.code for f in result.findings)


def _diff(before: str, after: str, old: str, new: str) -> str:
    return "".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), old, new, n=4))


class Table:
    """The counts of one run."""

    def __init__(self, results: Iterable[Outcome]) -> None:
        self.reported, self.gone, self.restored = Counter[str](), Counter[str](), Counter[str]()
        self.failures: list[Outcome] = []
        for outcome in results:
            self.reported[outcome.code] += 1
            self.gone[outcome.code] += outcome.gone
            self.restored[outcome.code] += outcome.restored
            if outcome.failed:
                self.failures.append(outcome)

    @property
    def share_gone(self) -> float:
        return self.gone.total() / max(1, self.reported.total())

    @property
    def share_restored(self) -> float:
        """Of the mutants that only had something moved."""
        return _moved(self.restored).total() / max(1, _moved(self.reported).total())

    def lines(self) -> Iterator[str]:
        yield f"{'code':7}{'reported':>9}{'gone':>6}{'restored':>10}"
        for code in sorted(self.reported):
            row = f"{code:7}{self.reported[code]:9}{self.gone[code]:6}{self.restored[code]:10}"
            yield f"{row}   {'moved' if code in MOVES else ''}".rstrip()
        yield f"all    {self.reported.total():9}{self.gone.total():6}{self.restored.total():10}"
        yield f"gone: {self.share_gone:.1%} (goal {GONE_GOAL:.0%})"
        yield f"restored, of the moved: {self.share_restored:.1%} (goal {RESTORED_GOAL:.0%})"


def _moved(counts: Counter[str]) -> Counter[str]:
    return Counter({code: n for code, n in counts.items() if code in MOVES})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", type=pathlib.Path, default=[LOOPS])
    parser.add_argument("--per-code", type=int, default=2, help="mutants of one code from one file (default: 2)")
    parser.add_argument("--codes", default="GL", help="codes or prefixes, comma-separated (default: all)")
    parser.add_argument("--show", action="store_true", help="show each failure: the bug, the fix, and why not more")
    args = parser.parse_args()
    table = Table(outcomes(args.sources, args.per_code, tuple(args.codes.split(","))))
    if args.show:
        for outcome in table.failures:
            print(outcome.story())
    print("\n".join(table.lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
