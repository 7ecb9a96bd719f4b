"""Asks of each safe fix whether the fixed text makes the updates of the right loop.

`benchmarks.verified` prints the counts. Unlike its other columns they are about all codes with a mutation, and about
mutants whose bug is in a helper (`benchmarks.mutate.helpers`), too: there a fix can move more than it means to.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from benchmarks.mutate.__main__ import ALL_MUTATIONS, MORE_MUTATIONS, in_helpers, with_right
from benchmarks.mutate.scene import Scene
from benchmarks.updates import Pair, differences
from gradlint.config import Settings
from gradlint.engine import fix, lint
from tests.runtime.drivers.running import LOOPS

#: of `in_helpers`, from one loop: where a fix moves a statement to or from the end of a window, and elsewhere
MANY_HELPERS, FEW_HELPERS = 3, 1
_MOVED = frozenset({"GL103", "GL205", "GL305", "GL402"})
#: how a call is written is mended where it stands, in a helper as elsewhere
_SPELLING = frozenset({*MORE_MUTATIONS, "GL405"})


@dataclass(slots=True)
class Mended:
    """A loop with one bug, and what the safe fixes make of it."""

    loop: str
    code: str
    line: int
    text: str
    #: what it should be
    right: str
    helper: bool
    number: int
    reported: bool = False
    #: with all safe fixes; "" if there are none, or the bug is reported still
    fixed: str = ""
    #: safe fixes of other findings changed it, while the bug itself is not reported, or is still
    meddled: bool = False
    #: how the weights of the fixed text differ from the right one's after eight updates
    differs: str = ""

    @property
    def row(self) -> str:
        return f"{self.code} in helpers" if self.helper else self.code

    @property
    def name(self) -> str:
        return f"{self.row}, {self.loop}, line {self.line}"

    @property
    def key(self) -> str:
        return f"{self.code}{'h' if self.helper else ''}_{self.loop}_{self.number}"

    @property
    def same(self) -> bool:
        return bool(self.fixed) and not self.differs


def broken(loops: Iterable[str], codes: tuple[str, ...] = ("GL",), per_code: int = 2) -> Iterator[Mended]:
    """The mutants of all codes, and those with the bug in a helper."""
    wanted = sorted((c, m) for c, m in ALL_MUTATIONS.items() if c.startswith(codes))
    for loop in loops:
        scene = Scene(right_text(loop))
        for code, mutation in wanted:
            plain = itertools.islice(with_right(scene, mutation(scene)), per_code)
            most = 0 if code in _SPELLING else MANY_HELPERS if code in _MOVED else FEW_HELPERS
            hidden = itertools.islice(in_helpers(scene, code, mutation), most)
            for helper, found in ((False, plain), (True, hidden)):
                for number, mutant in enumerate(found):
                    yield Mended(loop, code, mutant.line, mutant.text, mutant.right, helper, number)


def right_text(loop: str) -> str:
    return (LOOPS / f"{loop}.py").read_text(encoding="utf-8")


def compare(found: Sequence[Mended], processes: int = 1, limit: float = 3600.0) -> None:
    """Fixes all of them and trains what came of it; the answers are left in the mutants."""
    mend(found, processes)
    mended = [mutant for mutant in found if mutant.fixed]
    pairs = [Pair(mutant.loop, mutant.right, mutant.fixed) for mutant in mended]
    for mutant, answer in zip(mended, differences(pairs, processes, limit), strict=True):
        mutant.differs = answer


def mend(found: Sequence[Mended], processes: int = 1) -> None:
    """Applies all safe fixes to each."""
    with ProcessPoolExecutor(processes) as pool:
        answers = list(pool.map(_fixed, found, chunksize=4)) if processes > 1 else list(map(_fixed, found))
    for mutant, (reported, fixed, gone) in zip(found, answers, strict=True):
        mutant.reported, changed = reported, fixed != mutant.text
        mutant.fixed = fixed if reported and gone and changed else ""
        mutant.meddled = changed and not mutant.fixed


def _fixed(mutant: Mended) -> tuple[bool, str, bool]:
    """Is the bug reported; the text with all safe fixes; is the bug gone from it?"""
    path = str(LOOPS / f"{mutant.loop}.py")
    before = lint(mutant.text.encode(), path, Settings(offers=False))
    if not before.findings:
        return False, mutant.text, False
    after = fix(mutant.text.encode(), path, Settings(), unsafe=False)
    reported = any(f.code == mutant.code for f in before.findings)
    return reported, after.source.decode(), all(f.code != mutant.code for f in after.result.findings)


def disturbed(loops: Iterable[str]) -> list[str]:
    """The right loops that a fix changes, be it safe or not."""
    return [
        loop
        for loop in loops
        if any(
            fix(right_text(loop).encode(), str(LOOPS / f"{loop}.py"), Settings(), unsafe=unsafe).source
            != right_text(loop).encode()
            for unsafe in (False, True)
        )
    ]


def write(folder: pathlib.Path, found: Sequence[Mended]) -> None:
    """The mutants whose fixed texts train otherwise: the right one, the broken one, and the fixed one."""
    folder.mkdir(parents=True, exist_ok=True)
    for mutant in found:
        if mutant.differs:
            for kind, text in (("right", mutant.right), ("mutant", mutant.text), ("fixed", mutant.fixed)):
                (folder / f"{mutant.key}.{kind}.py").write_text(text, encoding="utf-8")
