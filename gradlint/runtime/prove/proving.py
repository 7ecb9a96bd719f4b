"""Runs both scripts of each case and judges them: the mistake has to be there before, and gone after."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata

from gradlint.config.selectors import Layer
from gradlint.config.settings import Settings
from gradlint.engine import fix, lint
from gradlint.model import FixSafety
from gradlint.registry import by_code
from gradlint.runtime.prove.case import Case, Measured, Value
from gradlint.runtime.prove.observed import Job, Run
from gradlint.runtime.prove.running import LIMIT, Progress, Ran, Script, quiet, run

#: what a script says to the tests
_EXPECT = re.compile(r"[ \t]*# expect: .*$", re.MULTILINE)
BY_HAND = "by hand"


class PairError(Exception):
    """The linter does not find the mistake, or the fixer does not mend it: nothing can be proved."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts to run."""

    case: Case
    before: str
    after: str
    #: "safe" or "unsafe", as the fixer calls it; "by hand" for rules that have none
    fix: str
    #: findings of the code that the linter still has in the second
    left: int


def pair(case: Case) -> Pair:
    """Lints the script, mends it, and lints what came of it."""
    settings = _settings(case)
    before = _EXPECT.sub("", case.script.read_text(encoding="utf-8"))
    if _found(before, case, settings) == 0:
        raise PairError(f"the linter does not find {case.code} in {case.script.name}")
    if case.right is not None:
        after, kind = case.right.read_text(encoding="utf-8"), BY_HAND
    else:
        after, kind = _mended(before, case, settings), by_code()[case.code].meta.fix.value
    return Pair(case, before, after, kind, _found(after, case, settings))


def _mended(before: str, case: Case, settings: Settings) -> str:
    unsafe = by_code()[case.code].meta.fix is FixSafety.UNSAFE
    outcome = fix(before.encode(), case.script.name, settings, unsafe=unsafe)
    if case.code not in {finding.code for finding in outcome.applied}:
        raise PairError(f"the fixer does not mend {case.script.name}: {'; '.join(outcome.result.notes) or 'no reason'}")
    return outcome.source.decode()


def _found(text: str, case: Case, settings: Settings) -> int:
    result = lint(text.encode(), case.script.name, settings)
    if result.crashes:
        raise PairError(f"the linter failed on {case.script.name}: {result.crashes[0].error}")
    return sum(finding.code == case.code for finding in result.findings)


def _settings(case: Case) -> Settings:
    """As most people lint, with this rule turned on too, and only its fixes applied."""
    return Settings(layers=(Layer(extend_select=(case.code,), fixable=(case.code,)),))


@dataclass(slots=True)
class Proof:
    """What came of one case."""

    case: Case
    device: str
    fix: str = ""
    before: Measured | None = None
    after: Measured | None = None
    #: None: it could not be run on this machine, and `note` says why
    passed: bool | None = False
    #: what kept it from being proved
    note: str = ""
    #: the fault is ours: a worker or a measure has failed
    broken: bool = False

    def record(self) -> dict[str, object]:
        """For JSON."""
        return {
            "code": self.case.code,
            "name": self.case.name,
            "device": self.device,
            "ranks": self.case.ranks,
            "measure": self.case.about,
            "fix": self.fix,
            "before": _plain(self.before),
            "after": _plain(self.after),
            "sentence": {
                "before": self.before.sentence if self.before else "",
                "after": self.after.sentence if self.after else "",
            },
            "passed": self.passed,
            "on_gpu": self.case.on_gpu,
            "note": self.note,
        }


@dataclass(slots=True)
class Proofs:
    """All that was asked for."""

    proofs: list[Proof] = field(default_factory=list)

    @property
    def passed(self) -> int:
        return sum(proof.passed is True for proof in self.proofs)

    @property
    def skipped(self) -> int:
        return sum(proof.passed is None for proof in self.proofs)

    @property
    def failed(self) -> bool:
        """Something is not proved; nothing at all is no proof either."""
        return any(proof.passed is False for proof in self.proofs) or not self.passed

    @property
    def broken(self) -> bool:
        return any(proof.broken for proof in self.proofs)


def prove(cases: Sequence[Case], device: str, progress: Progress = quiet) -> Proofs:
    """Lints, mends, runs and measures."""
    early: dict[str, Proof] = {}
    pairs: list[Pair] = []
    for case in cases:
        lacking = _lacking(case)
        if lacking:
            early[case.code] = Proof(case, device, passed=None, note=lacking)
            continue
        try:
            pairs.append(pair(case))
        except PairError as error:
            early[case.code] = Proof(case, device, note=str(error))
    late = {proof.case.code: proof for proof in prove_pairs(pairs, device, progress=progress)}
    return Proofs([early.get(case.code) or late[case.code] for case in cases])


def prove_pairs(pairs: Sequence[Pair], device: str, *, limit: float = LIMIT, progress: Progress = quiet) -> list[Proof]:
    """Runs two texts for each case, whoever wrote them."""
    wanted = [script for pair in pairs for script in scripts(pair)]
    ran = run(wanted, device, limit=limit, progress=progress) if wanted else Ran()
    return [judged(pair, ran, device) for pair in pairs]


def scripts(pair: Pair) -> list[Script]:
    """Both of a case, to be run."""
    case = pair.case
    texts = {"before": pair.before, "after": pair.after}
    return [
        Script(Job(run_id(case, side), case.script.name, case.window, case.reference, case.keep), text, case.ranks)
        for side, text in texts.items()
    ]


def run_id(case: Case, side: str) -> str:
    """Of the run "before" or "after"."""
    return f"{case.code}/{side}"


def judged(pair: Pair, ran: Ran, device: str) -> Proof:
    """Measures both runs of a case."""
    proof = Proof(pair.case, device, pair.fix)
    sides = [ran.runs.get(run_id(pair.case, side)) for side in ("before", "after")]
    if None in sides:
        proof.broken = True
        proof.note = f"the run did not end: {ran.trouble or 'the time is over'}"
        return proof
    before, after = (Run(side or (), pair.case.updates) for side in sides)
    proof.device = before.device
    failure = before.failure or after.failure
    if failure:
        proof.broken, proof.note = True, failure.strip().splitlines()[-1]
        return proof
    proof.before, proof.after = pair.case.measure(before), pair.case.measure(after)
    proof.note = _lack(proof.before, before, proof.after, after, pair.left)
    proof.passed = not proof.note
    return proof


def _lack(before: Measured, wrong: Run, after: Measured, fixed: Run, left: int) -> str:
    """What is lacking for a proof; empty if nothing is."""
    if not before.mistaken:
        return "the run does not show the mistake" + (f": {wrong.error}" if wrong.error else "")
    if left:
        return f"the linter still has {left} findings in the fixed copy"
    if not after.right:
        return f"the fixed copy is not right: {fixed.error or after.sentence}"
    return ""


def _lacking(case: Case) -> str:
    """What this machine has not got."""
    for package in case.needs:
        if importlib.util.find_spec(package) is None:
            return f"needs {package}: pip install {package}"
    if _torch() < case.torch:
        return f"needs torch {'.'.join(map(str, case.torch))} or newer"
    return ""


def _torch() -> tuple[int, ...]:
    """Its version, without the seconds that an import takes."""
    return tuple(int(part) for part in re.findall(r"\d+", metadata.version("torch"))[:2])


def _plain(measured: Measured | None) -> dict[str, Value] | None:
    """JSON has no word for infinity and for what is no number."""
    if measured is None:
        return None
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in measured.numbers.items()
    }
