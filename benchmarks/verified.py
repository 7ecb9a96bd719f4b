"""Counts how many injected bugs a run confirms, and how many fixes it finds to cure them.

usage: python -m benchmarks.verified [--loops NAME,…] [--codes GL101,GL2] [--per-code N] [--sample N] [--write DIR]
                                     [--only verdicts|updates]

Takes the correct loops of tests/loops, makes mutants of them with `benchmarks.mutate`, each with one bug of a code that
a run can show, and does with each what `gradlint verify` does: lints it, runs it on tiny models and data under the
recorder (distributed loops with two ranks), judges the finding by the run, fixes the text with all fixes, and runs
that. A row per code; every mutant that was not confirmed or not cured is named, with what the run showed.

Two more columns are about safe fixes alone, of these mutants, of all other codes, and of mutants with the bug in a
helper: `safe fix`, those that are mended without an unsafe one, and `same updates`, those of them whose weights are the
right loop's after eight updates. Each that differs is named.
"""

from __future__ import annotations

import argparse
import functools
import pathlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks import mended
from benchmarks.mended import Mended
from benchmarks.mutate import __main__ as mutate
from benchmarks.mutate.__main__ import ALL_MUTATIONS, Mutation, every, few
from gradlint.config import Settings
from gradlint.engine import fix, lint
from gradlint.runtime.measure import Spot, all_measures
from gradlint.runtime.recording import Raised, Recording
from gradlint.runtime.verdicts import Cure, Judged, Linted, Side, Verdict, Verdicts, cured, judged, seen_only_in_run
from tests.runtime.drivers.running import LOOPS, Text, recordings

#: of the reported mutants that the run reached: confirmed; of the confirmed ones that have a fix: cured
CONFIRMED_GOAL, CURED_GOAL = 0.95, 0.95


@dataclass(slots=True)
class Mutant:
    """A loop with one bug, and what became of it."""

    loop: str
    code: str
    line: int
    text: str
    fixed: str = ""
    #: the finding with its verdict; None if the linter does not report it
    finding: Judged | None = None
    #: the run alone, without the linter, finds it
    heard: bool = False
    #: what the verdict on the right loop says at the same place, where it must not hold
    slander: str = ""
    #: what the machine sees in the run of the fixed text, where there is nothing to see
    alarms: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        return _path(self.loop)

    @property
    def verdict(self) -> Verdict | None:
        return self.finding.verdict if self.finding is not None else None

    @property
    def cure(self) -> Cure | None:
        confirmed = self.finding is not None and self.verdict is Verdict.CONFIRMED
        return self.finding.after_fix if confirmed and self.finding is not None else None

    @property
    def name(self) -> str:
        return f"{self.code} in {self.loop}, line {self.line}"

    def complaints(self) -> Iterator[str]:
        """What is not as it should be."""
        finding = self.finding
        if finding is None:
            yield f"{self.name}: not reported"
            return
        if finding.verdict is Verdict.REFUTED or finding.verdict is Verdict.NOT_SHOWN:
            yield f"{self.name}: {finding.verdict.value}: {finding.evidence}"
        if self.cure is Cure.NOT_CURED:
            yield f"{self.name}: not cured: {finding.evidence} → {finding.after}"
        if self.slander:
            yield f"{self.name}: holds of the right loop, too: {self.slander}"
        for alarm in self.alarms:
            yield f"{self.name}: seen in the run of the fixed text: {alarm}"


def injected(loops: Iterable[str], codes: tuple[str, ...] = ("GL",), per_code: int = 2) -> Iterator[Mutant]:
    """All mutants of codes that a run can show."""
    return _of(every([LOOPS / f"{loop}.py" for loop in loops], _shown(codes), per_code))


def one_of_each(loops: Sequence[str]) -> list[Mutant]:
    """Of each code that a run can show, from one loop or another."""
    return list(_of(few([LOOPS / f"{loop}.py" for loop in loops], _shown(("GL",)), 1)))


def _shown(codes: tuple[str, ...]) -> dict[str, Mutation]:
    return {code: m for code, m in ALL_MUTATIONS.items() if code in all_measures() and code.startswith(codes)}


def _of(made: Iterable[mutate.Mutant]) -> Iterator[Mutant]:
    return (Mutant(mutant.source.stem, mutant.code, mutant.line, mutant.text) for mutant in made)


AnyMutant = TypeVar("AnyMutant", Mutant, Mended)


def sample(found: Sequence[AnyMutant], count: int) -> list[AnyMutant]:
    """So many of them, all codes alike: one of each code, then another, each time from another loop."""
    ranked: list[tuple[int, str, AnyMutant]] = []
    for code in sorted({m.code for m in found}):
        mine = [m for m in found if m.code == code]
        stride = next(s for s in (7, 5, 3, 1) if len(mine) % s or s == 1)
        ranked += [(n, code, mine[(int(code[2:]) + n * stride) % len(mine)]) for n in range(len(mine))]
    ranked.sort(key=lambda item: item[:2])
    return [mutant for _, _, mutant in ranked[:count]]


def verify(found: Sequence[Mutant], processes: int = 1, limit: float = 3600.0) -> list[str]:
    """Lints, runs, fixes and runs again; what came of it is left in the mutants. Gives what is seen in right loops."""
    if not found:
        return []
    for mutant, fixed in zip(found, _all_fixed(found, processes), strict=True):
        mutant.fixed = fixed
    loops = sorted({m.loop for m in found})
    texts = [Text(m.loop, text) for m in found for text in (m.text, m.fixed) if text]
    texts += [Text(loop, _right(loop)) for loop in loops]
    texts = list(dict.fromkeys(texts))  # a fixed text is often the right one again
    runs = dict(zip(texts, recordings(texts, processes, limit=limit), strict=True))
    right = {loop: _case(runs[Text(loop, _right(loop))], loop, _right(loop)) for loop in loops}
    for mutant in found:
        _judge(mutant, runs[Text(mutant.loop, mutant.text)], right[mutant.loop])
        if mutant.fixed:
            _look_again(mutant, runs[Text(mutant.loop, mutant.fixed)])
    return [f"{loop}: {said}" for loop in loops for said in _seen(right[loop], _path(loop), _right(loop))]


def _path(loop: str) -> str:
    return str(LOOPS / f"{loop}.py")


def _seen(case: Verdicts, path: str, text: str) -> list[str]:
    """What only the run shows."""
    return [f"{j.code} line {j.line}: {j.evidence}" for j in seen_only_in_run(case, {path: _linted(path, text)})]


def _right(loop: str) -> str:
    return (LOOPS / f"{loop}.py").read_text(encoding="utf-8")


@functools.lru_cache(maxsize=500)
def _linted(path: str, text: str) -> Linted:
    """Kept, as each text is asked about several times."""
    settings = Settings()
    return Linted(path, settings, lint(text.encode(), path, settings), text, settings.enabled_for(path))


def _all_fixed(found: Sequence[Mutant], processes: int) -> list[str]:
    if processes == 1:
        return list(map(_fixed, found))
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(_fixed, found, chunksize=4))


def _fixed(mutant: Mutant) -> str:
    """What the fixer makes of it; "" where the bug is not reported."""
    if not any(f.code == mutant.code for f in _linted(mutant.path, mutant.text).findings):
        return ""
    return fix(mutant.text.encode(), mutant.path, Settings(), unsafe=True).source.decode()


def _case(run: list[Recording], loop: str, text: str) -> Verdicts:
    return Verdicts(Side(run, 0.0, {str(LOOPS / f"{loop}.py"): text}))


def _judge(mutant: Mutant, run: list[Recording], right: Verdicts) -> None:
    case = _case(run, mutant.loop, mutant.text)
    verdicts, _ = judged(case, [_linted(mutant.path, mutant.text)])
    mine = [j for j in verdicts if j.code == mutant.code]
    mutant.finding = min(mine, key=lambda j: abs(j.line - mutant.line), default=None)
    mutant.heard = _hears(mutant, case)
    line = mutant.finding.line if mutant.finding is not None else mutant.line
    mutant.slander = _slander(mutant.code, case, right, mutant.path, line)


def _hears(mutant: Mutant, case: Verdicts) -> bool:
    return any(word.code == mutant.code for word in case.objections(Settings()))


def _slander(code: str, case: Verdicts, right: Verdicts, path: str, line: int) -> str:
    """The verdict, asked of the right loop: in the function of the finding, and at the statement if it is there."""
    about = case.files[path].at(line)
    statement = case.files[path].source(line)
    lines = [n for n, at in right.files[path].lines.items() if at.start == n and _same(right, path, n, statement)]
    for spot in [Spot(path, None, about.function), *(Spot(path, n, about.function) for n in lines)]:
        shown = right.look(code, spot, Settings())
        if shown.holds:
            return f"{'line ' + str(spot.line) if spot.line else 'anywhere'}: {shown.text}"
    return ""


def _same(right: Verdicts, path: str, line: int, statement: str) -> bool:
    return right.files[path].source(line) == statement


def _look_again(mutant: Mutant, run: list[Recording]) -> None:
    """What the run of the fixed text says of the finding."""
    before, after = _linted(mutant.path, mutant.text), _linted(mutant.path, mutant.fixed)
    case = _case(run, mutant.loop, mutant.fixed)
    if mutant.finding is not None and mutant.verdict is Verdict.CONFIRMED:
        mutant.finding = cured(mutant.finding, before, after, case, _failure(run), unsafe=True)
    mutant.alarms = _seen(case, mutant.path, mutant.fixed)


def _failure(run: list[Recording]) -> str:
    """The exception that ended it."""
    for recording in run:
        if recording.end is not None and recording.end.how == "raised":
            error = list(recording.of(Raised))[-1]
            return f"{error.type}: {error.message[:160]}"
    return ""


class Table:
    """The counts."""

    def __init__(self, found: Sequence[Mutant], safely: Sequence[Mended] = ()) -> None:
        self.found, self.safely = found, safely
        made = Counter(m.row for m in safely)
        reported = Counter(m.row for m in safely if m.reported)
        self.columns = {
            # what is judged by verdicts is a part of what is mended safely, so the larger number is that of all
            "mutants": self._count(found) | made,
            "reported": self._count(m for m in found if m.finding is not None) | reported,
            "reached": self._count(m for m in found if m.verdict not in (None, Verdict.NOT_SHOWN)),
            "confirmed": self._count(m for m in found if m.verdict is Verdict.CONFIRMED),
            "refuted": self._count(m for m in found if m.verdict is Verdict.REFUTED),
            "fixed": self._count(m for m in found if m.cure in (Cure.CURED, Cure.NOT_CURED)),
            "cured": self._count(m for m in found if m.cure is Cure.CURED),
            "heard": self._count(m for m in found if m.heard),
            "safe fix": Counter(m.row for m in safely if m.fixed),
            "same updates": Counter(m.row for m in safely if m.same),
        }

    @staticmethod
    def _count(found: Iterable[Mutant]) -> Counter[str]:
        return Counter(m.code for m in found)

    @property
    def share_confirmed(self) -> float:
        return self.columns["confirmed"].total() / max(1, self.columns["reached"].total())

    @property
    def share_cured(self) -> float:
        return self.columns["cured"].total() / max(1, self.columns["fixed"].total())

    @property
    def different(self) -> int:
        return sum(bool(m.differs) for m in self.safely)

    def complaints(self) -> list[str]:
        said = [said for mutant in self.found for said in mutant.complaints()]
        said += [f"{m.name}: fixed, it makes other updates: {m.differs}" for m in self.safely if m.differs]
        return said + [f"{m.name}: changed by safe fixes, but not mended" for m in self.safely if m.meddled]

    def lines(self) -> Iterator[str]:
        always, updates = {"mutants", "reported"}, {"safe fix", "same updates"}
        shown = {name for name in self.columns if name in always or (self.safely if name in updates else self.found)}
        yield f"{'code':17}" + "".join(f"{name:>{len(name) + 2}}" for name in self.columns if name in shown)
        for row in [*sorted(self.columns["mutants"]), "all"]:
            counts = {name: count.total() if row == "all" else count[row] for name, count in self.columns.items()}
            yield f"{row:17}" + "".join(f"{n:{len(name) + 2}}" for name, n in counts.items() if name in shown)
        if self.found:
            yield from self._verdicts()
        if self.safely:
            yield f"safe fixes after which the updates differ from the right loop's: {self.different} (goal 0)"

    def _verdicts(self) -> Iterator[str]:
        yield f"confirmed, of the reached: {self.share_confirmed:.1%} (goal {CONFIRMED_GOAL:.0%})"
        yield f"cured, of the confirmed with a fix: {self.share_cured:.1%} (goal {CURED_GOAL:.0%})"
        yield f"evidence that holds of the right loop: {sum(bool(m.slander) for m in self.found)}"
        yield f"alarms in the runs of fixed texts: {sum(len(m.alarms) for m in self.found)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", default="", help="names of loops, comma-separated (default: all)")
    parser.add_argument("--codes", default="GL", help="codes or prefixes, comma-separated (default: all)")
    parser.add_argument("--per-code", type=int, default=2, help="mutants of one code from one loop (default: 2)")
    parser.add_argument("--sample", type=int, default=0, help="only so many mutants, all codes alike")
    parser.add_argument("--processes", type=int, default=2, help="that run loops at a time (default: 2)")
    parser.add_argument("--write", type=pathlib.Path, help="folder for the mutants with a complaint and their fixes")
    parser.add_argument("--only", choices=("verdicts", "updates"), help="half of the work (default: both)")
    args = parser.parse_args()
    loops = [name for name in args.loops.split(",") if name] or [p.stem for p in sorted(LOOPS.glob("*.py"))]
    codes = tuple(args.codes.split(","))
    found = list(injected(loops, codes, args.per_code)) if args.only != "updates" else []
    found = sample(found, args.sample) if args.sample else found
    safely = list(mended.broken(loops, codes, args.per_code)) if args.only != "verdicts" else []
    safely = sample(safely, args.sample) if args.sample else safely
    seen = verify(found, args.processes)
    mended.compare(safely, args.processes)
    table = Table(found, safely)
    for said in (*table.complaints(), *(f"seen in a right loop: {said}" for said in seen)):
        print(said)
    if args.write is not None:
        _write(args.write, found)
        mended.write(args.write, safely)
    print("\n".join(table.lines()))
    changed = mended.disturbed(loops)
    print(f"right loops that a fix changes: {len(changed)} of {len(loops)} (goal 0)", *changed)
    judged_well = table.share_confirmed >= CONFIRMED_GOAL and table.share_cured >= CURED_GOAL
    return 0 if (judged_well or not found) and not table.different and not changed and not seen else 1


def _write(folder: pathlib.Path, found: Sequence[Mutant]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, mutant in enumerate(found):
        if any(mutant.complaints()):
            name = f"{mutant.code}_{mutant.loop}_{number}"
            (folder / f"{name}.py").write_text(mutant.text, encoding="utf-8")
            (folder / f"{name}.fixed.py").write_text(mutant.fixed, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
