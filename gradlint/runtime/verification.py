"""What `gradlint verify` found out: each finding with its verdict, and the runs behind it. Plain data, no torch."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from gradlint.model import Cell, Place, Position, Severity, place_in
from gradlint.runtime.health import Symptom
from gradlint.runtime.recording import Recording


class Verdict(enum.Enum):
    """What the run says of a finding."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    NOT_SHOWN = "not-shown"


class Cure(enum.Enum):
    """What the run of the fixed copy says of it; NO_FIX where no fix was run for it."""

    CURED = "cured"
    NOT_CURED = "not-cured"
    NO_FIX = "no-fix"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a rule says, and of which line."""

    code: str
    name: str
    severity: Severity
    message: str
    filename: str
    line: int


@dataclass(frozen=True, slots=True)
class Judged(Claim):
    """One finding, static or seen in the run only, and what the run showed."""

    verdict: Verdict
    #: in numbers: "clipped at a true norm of 1.5e-05 where 1 was asked for (scale 65536)"
    evidence: str = ""
    after_fix: Cure = Cure.NO_FIX
    #: what the fixed copy showed in its place, or why there is none
    after: str = ""
    #: the happenings (indices into the recording of `Side.main`) that show it, before and after the fix
    marks: tuple[int, ...] = ()
    marks_after: tuple[int, ...] = ()


@dataclass(slots=True)
class Side:
    """One run: before or after the fix."""

    recordings: list[Recording] = field(default_factory=list)
    seconds: float = 0.0
    #: file name -> its text, as it ran
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def main(self) -> Recording | None:
        """The recording that is judged: rank 0, or the process that trained the most."""
        return max(self.recordings, key=lambda r: (r.steps, -r.rank, len(r.happenings)), default=None)

    @property
    def steps(self) -> int:
        return self.main.steps if self.main else 0


@dataclass(slots=True)
class Verification:
    """The whole result."""

    script: str
    arguments: tuple[str, ...] = ()
    device: str = "cpu"
    nproc: int = 1
    seed: int = 0
    findings: list[Judged] = field(default_factory=list)
    runtime_only: list[Judged] = field(default_factory=list)
    #: static findings that no run can show
    unshowable: list[Claim] = field(default_factory=list)
    before: Side = field(default_factory=Side)
    #: None if there was nothing to fix, or fixes were not wanted
    after: Side | None = None
    notes: list[str] = field(default_factory=list)
    #: the script's own traceback (and the end of its output), if it failed for a reason that no finding explains
    failure: str = ""
    #: what is wrong with the run whatever its order of events
    health: list[Symptom] = field(default_factory=list)
    #: of notebooks: what the lines of their program mean
    cells: dict[str, tuple[Cell, ...]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        return self.before.steps

    def place(self, filename: str, line: int) -> Place:
        """In the file, or in a cell of the notebook."""
        return place_in(self.cells.get(filename, ()), Position(line, 1))

    @property
    def stepless(self) -> bool:
        """No step was taken, so nothing that a step does could be judged."""
        return self.before.main is None or not self.steps

    @property
    def confirmed(self) -> bool:
        """Something is wrong, and was seen; advice is no more than that."""
        ill = any(symptom.severity > Severity.ADVICE for symptom in self.health)
        return ill or any(j.verdict is Verdict.CONFIRMED for j in (*self.findings, *self.runtime_only))
