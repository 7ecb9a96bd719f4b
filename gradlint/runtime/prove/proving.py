"""Runs both scripts of each case and judges them: the mistake has to be there before, and gone after."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path

from gradlint.config.selectors import Layer
from gradlint.config.settings import Settings
from gradlint.engine import fix, lint
from gradlint.model import FixSafety
from gradlint.registry import by_code
from gradlint.runtime.prove.case import DEVICE, MEETING, Case, Measured, Observed, Run, Script, Value, read

WORKER = "gradlint.runtime.prove.worker"
#: seconds for all scripts together
LIMIT = 300.0


@dataclass(slots=True)
class Ran:
    """What came of all of them."""

    #: by the id of the script, one of each rank
    runs: dict[str, list[Observed]] = field(default_factory=dict)
    #: the end of what a worker said that did not come to its end
    trouble: str = ""


#: told now and then how many scripts are done
Progress = Callable[[int], None]


def quiet(done: int) -> None:
    """For who does not watch."""


def run(scripts: Sequence[Script], device: str, *, limit: float = LIMIT, progress: Progress = quiet) -> Ran:
    """All scripts; those on several ranks run beside the others. No process is left when this returns."""
    with tempfile.TemporaryDirectory(prefix="gradlint-prove-") as folder:
        home = Path(folder)
        groups = [
            _Group(home / f"ranks-{ranks}", [s for s in scripts if s.ranks == ranks], ranks, device, limit)
            for ranks in sorted({script.ranks for script in scripts})
        ]
        deadline = time.monotonic() + limit
        try:
            for group in groups:
                group.start()
            for group in groups:
                group.wait(deadline, lambda: progress(sum(group.done() for group in groups)))
        finally:
            for group in groups:
                group.end()
        ran = Ran()
        for group in groups:
            ran.runs.update(group.results())
            ran.trouble = ran.trouble or group.trouble()
        return ran


class _Group:
    """The processes that run the same scripts together."""

    def __init__(self, home: Path, scripts: Sequence[Script], ranks: int, device: str, limit: float) -> None:
        self._home = home
        self._scripts = scripts
        self._ranks = ranks
        self._device = device
        self._limit = limit
        self._processes: list[subprocess.Popen[bytes]] = []
        self._killed: set[int] = set()

    def start(self) -> None:
        self._home.mkdir()
        jobs = self._home / "jobs"
        with jobs.open("w", encoding="utf-8") as file:
            for number, script in enumerate(self._scripts):
                path = self._home / f"script_{number}" / Path(script.path).name
                path.parent.mkdir()
                path.write_text(script.text, encoding="utf-8")
                file.write(json.dumps({**asdict(script), "path": str(path), "text": ""}) + "\n")
        for rank in range(self._ranks):
            with self._said(rank).open("wb") as said:
                self._processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", WORKER, str(jobs), str(self._result(rank)), str(self._limit)],
                        env=self._environment(rank),
                        cwd=self._home,  # `-m` looks there first, and the caller's folder may hold a random.py
                        stdin=subprocess.DEVNULL,
                        stdout=said,
                        stderr=said,
                    )
                )

    def wait(self, deadline: float, look: Callable[[], None]) -> None:
        """Until all are done. When one fails the others wait for it in vain."""
        while any(process.poll() is None for process in self._processes) and time.monotonic() < deadline:
            if any(process.poll() for process in self._processes):
                return
            look()
            time.sleep(0.02)

    def done(self) -> int:
        """Scripts that the first rank has come through."""
        path = self._result(0)
        return path.read_bytes().count(b"}\n") if path.exists() else 0

    def end(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                self._killed.add(process.pid)
                process.kill()
            process.wait()

    def results(self) -> dict[str, list[Observed]]:
        """The scripts that all ranks have come through."""
        by_id: dict[str, list[Observed]] = {}
        for rank in range(self._ranks):
            path = self._result(rank)
            for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
                if line.endswith("}"):  # the last one may be cut off
                    observed = read(line)
                    by_id.setdefault(observed.id, []).append(observed)
        return {name: found for name, found in by_id.items() if len(found) == self._ranks}

    def trouble(self) -> str:
        """What the one that failed by itself said last."""
        for rank, process in enumerate(self._processes):
            if process.returncode and process.pid not in self._killed:
                said = self._said(rank).read_text(encoding="utf-8", errors="replace").strip().splitlines()
                return "\n".join(said[-12:]) or f"a worker ended with {process.returncode}"
        return ""

    def _result(self, rank: int) -> Path:
        return self._home / f"result-{rank}"

    def _said(self, rank: int) -> Path:
        return self._home / f"said-{rank}"

    def _environment(self, rank: int) -> Mapping[str, str]:
        # what torchrun or a framework has set for the caller says nothing about these processes
        foreign = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", MEETING)
        ours = {name: value for name, value in os.environ.items() if name not in foreign}
        ours.update({DEVICE: self._device, "PYTHONPATH": os.pathsep.join(_import_path()), "OMP_NUM_THREADS": "1"})
        if self._ranks > 1:
            meeting = (self._home / "meeting").as_uri()
            ours.update({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(self._ranks), MEETING: meeting})
        return ours


def _import_path() -> list[str]:
    """So that the workers find what this process found, an editable installation and a bare checkout alike."""
    return [os.path.abspath(entry) for entry in sys.path if entry] or [os.getcwd()]


# -- both scripts of a case --------------------------------------------------------------------------------------------


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


# -- both runs of a case -----------------------------------------------------------------------------------------------


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


def prove(cases: Sequence[Case], device: str, progress: Progress = quiet, *, limit: float = LIMIT) -> Proofs:
    """Lints, mends, runs and measures."""
    early: dict[str, Proof] = {}
    pairs: list[Pair] = []
    for case in cases:
        if missing := lacking(case):
            early[case.code] = Proof(case, device, passed=None, note=missing)
            continue
        try:
            pairs.append(pair(case))
        except PairError as error:
            early[case.code] = Proof(case, device, note=str(error))
    late = {proof.case.code: proof for proof in prove_pairs(pairs, device, limit=limit, progress=progress)}
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
        Script(run_id(case, side), case.script.name, text, case.ranks, case.window, case.reference, case.keep)
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


def lacking(case: Case) -> str:
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
