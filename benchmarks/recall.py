"""Counts how many injected bugs gradlint finds.

usage: python -m benchmarks.recall [--per-code N] [--show] [SOURCES...]

Takes correct training code (default: tests/loops), makes mutants of it with `benchmarks.mutate`, each with one bug of
a known code at a known line, lints each in memory, and prints a row per code: found, and found at the line.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import sys
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.mutate.__main__ import MUTATIONS, Mutant, every, sources
from gradlint.config import Settings
from gradlint.engine import lint

#: a finding this near to the statement to blame counts as at the line
NEAR = 3
LOOPS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "loops"


class Outcome(NamedTuple):
    """One mutant: what was injected where, and where the code was reported."""

    source: pathlib.Path
    code: str
    line: int
    reported: list[int]

    @property
    def found(self) -> bool:
        return bool(self.reported)

    @property
    def near(self) -> bool:
        return any(abs(row - self.line) <= NEAR for row in self.reported)


def outcomes(arguments: list[pathlib.Path], per_code: int = 2) -> Iterator[Outcome]:
    """Every mutant of these sources, linted."""
    return map(judged, every(sources(arguments), MUTATIONS, per_code))


def judged(mutant: Mutant) -> Outcome:
    """No fixes are looked for: they would be most of the work."""
    findings = lint(mutant.text.encode(), str(mutant.source), Settings(offers=False)).findings
    reported = [f.span.start.row for f in findings if f.code == mutant.code]
    return Outcome(mutant.source, mutant.code, mutant.line, reported)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", type=pathlib.Path, default=[LOOPS])
    parser.add_argument("--per-code", type=int, default=2, help="mutants of one code from one file (default: 2)")
    parser.add_argument("--show", action="store_true", help="name the mutants that were missed")
    args = parser.parse_args()
    made, found, near = collections.Counter[str](), collections.Counter[str](), collections.Counter[str]()
    for outcome in outcomes(args.sources, args.per_code):
        made[outcome.code] += 1
        found[outcome.code] += outcome.found
        near[outcome.code] += outcome.near
        if args.show and not outcome.found:
            print(f"missed {outcome.code} in a mutant of {outcome.source}, line {outcome.line}", file=sys.stderr)
    print(f"{'code':7}{'made':>6}{'found':>7}{'at line':>9}")
    for code in sorted(made):
        print(f"{code:7}{made[code]:6}{found[code]:7}{near[code]:9}")
    total = max(1, made.total())
    print(f"all    {made.total():6}{found.total():7}{near.total():9}   {found.total() / total:.1%} found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
