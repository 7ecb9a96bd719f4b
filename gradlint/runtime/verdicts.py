"""Verdicts: what a run says of each static finding, what it shows besides, and whether the fixed copy is cured; and the
whole result of `gradlint verify`, as plain data."""

from __future__ import annotations

import ast
import enum
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gradlint import comments
from gradlint.config import Settings
from gradlint.facts.file import File
from gradlint.machine.judge import Judge, OnCrash
from gradlint.model import Cell, FileResult, Finding, Place, Position, Severity, Span, place_in
from gradlint.python.lower import Lowering
from gradlint.python.module import Module
from gradlint.registry import all_rules
from gradlint.rule import Draft, Rule
from gradlint.runtime.health import Symptom
from gradlint.runtime.measure import Asked, Run, Shown, Spot, all_measures, marks
from gradlint.runtime.recording import Happening, Raised, Recording, Stepped
from gradlint.runtime.turns import Files


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
    def judged(self) -> tuple[Judged, ...]:
        """What the linter has found, and what only the run has shown."""
        return (*self.findings, *self.runtime_only)

    @property
    def stepless(self) -> bool:
        """No step was taken, so nothing that a step does could be judged."""
        return self.before.main is None or not self.steps

    @property
    def confirmed(self) -> bool:
        """Something is wrong, and was seen; advice is no more than that."""
        ill = any(symptom.severity > Severity.ADVICE for symptom in self.health)
        return ill or any(j.verdict is Verdict.CONFIRMED for j in self.judged)


# -- what the rules say of a run ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Objection(Claim):
    """What a rule said of the run."""

    #: what it objects to, each time that it happened; and the rest of these stories
    wrong: tuple[Happening, ...] = ()
    story: tuple[Happening, ...] = ()


def objections(run: Run, settings: Settings, on_crash: OnCrash) -> list[Objection]:
    """What the rules say, once for each place."""
    judge = Judge(_rules(run, settings), on_crash)
    said: dict[tuple[str, str, int], Objection] = {}
    for draft in judge.judge(run.played.path):
        found = _placed(draft, run)
        if found is not None:
            key = (found.code, found.filename, found.line)
            one = said.get(key, found)
            said[key] = replace(one, wrong=_once(*one.wrong, *found.wrong), story=_once(*one.story, *found.story))
    return list(said.values())


def _once(*happenings: Happening) -> tuple[Happening, ...]:
    return tuple({h.index: h for h in happenings}.values())


def _placed(draft: Draft, run: Run) -> Objection | None:
    played = run.played
    place = played.places.get(draft.site.node)
    if place is None:
        return None
    meta = draft.rule.meta
    happened = [played.happenings[event.index] for event in draft.story]
    at = [played.happenings[event.index] for event in draft.story if event.site == draft.site][:1]
    rest = tuple(h for h in happened if h not in at)
    severity = draft.severity if draft.severity is not None else meta.severity
    return Objection(
        meta.code, draft.rule.rule_name(), severity, draft.message, place.file, place.line, tuple(at), rest
    )  # fmt: skip


def _rules(run: Run, settings: Settings) -> list[Rule]:
    """Those that judge by the order of events, told of the file that steps: some keep still because of its text."""
    rules = [rule(settings.options_for(rule.meta.code)) for rule in all_rules() if rule.meta.runs]
    file = _file(run, settings)
    for rule in rules:
        rule.file = file
    return rules


def _file(run: Run, settings: Settings) -> File:
    """The file that steps; without one, or if it cannot be read, a file that says nothing."""
    step = next((s.place for s in run.recording.of(Stepped) if s.place is not None), None)
    try:
        tree = ast.parse(run.files[step.file].text if step is not None else "")
        return File(Module(Lowering(tree).body, settings.target_torch))
    except (SyntaxError, ValueError, RecursionError):
        return File(Module([], settings.target_torch))


# -- verdicts ----------------------------------------------------------------------------------------------------------


#: findings about comments and files, which say nothing of training
_META = "GL9"


@dataclass(slots=True)
class Linted:
    """One file of the user's, with what the linter says of it."""

    path: str
    settings: Settings
    result: FileResult
    text: str
    enabled: frozenset[str] = field(default_factory=frozenset)

    @property
    def findings(self) -> list[Finding]:
        return [f for f in self.result.findings if not f.code.startswith(_META)]


class Verdicts:
    """What rules and measures say of a run."""

    def __init__(self, side: Side) -> None:
        self.files = Files(side.sources)
        self.run = Run(side.main, side.recordings, self.files) if side.main is not None else None
        #: rules that failed on the run, with what they raised
        self.crashes: list[str] = []
        self._objections: dict[int, list[Objection]] = {}

    def spot(self, file: str, finding: Finding) -> Spot:
        line = finding.span.start.row
        related = tuple(r.span.start.row for r in finding.related)
        about = self.files[file]
        return Spot(file, line, about.at(line).function, related, about.source(line))

    def objections(self, settings: Settings) -> list[Objection]:
        """What the machine objects to, all of it."""
        if self.run is None:
            return []
        if id(settings) not in self._objections:
            self._objections[id(settings)] = objections(self.run, settings, self._crashed)
        return self._objections[id(settings)]

    def _crashed(self, code: str, error: Exception) -> None:
        said = f"{code} failed on this run: {type(error).__name__}: {str(error)[:160]}"
        if said not in self.crashes:
            self.crashes.append(said)

    def look(self, code: str, spot: Spot, settings: Settings) -> Shown:
        """The verdict is the machine's where it judges; what it amounted to, and all else, is measured."""
        if self.run is None:
            return Shown(None, "nothing of torch was seen in this run")
        claims = [claim for claim in self.objections(settings) if claim.code == code and self._is_about(claim, spot)]
        wrong = _once(*(h for claim in claims for h in claim.wrong))
        story = _once(*(h for claim in claims for h in claim.story))
        measure = all_measures()[code]
        shown = measure(Asked(self.run, spot, wrong, story))
        if not measure.decides:
            holds = True if claims else False if shown.holds is not None else None
            shown = Shown(holds, shown.text, tuple(dict.fromkeys((*marks(wrong), *shown.marks))) if claims else ())
        if shown.holds is False and not self._stepped(spot):
            return Shown(None, "no optimizer step was taken with these gradients")
        return shown

    def _is_about(self, claim: Objection, spot: Spot) -> bool:
        """It is said of the statement itself or of what this calls; after a fix, of the function."""
        assert self.run is not None  # it is what the claim is about
        if claim.filename != spot.file and spot.line is None:
            return False
        if spot.line is None:
            within = self.files[claim.filename].at(claim.line).function
            return within == spot.function or not self.run.ran(spot)
        there = self.files.statement(spot.file, spot.line)
        if self.files.statement(claim.filename, claim.line) == there:
            return True
        return any(self.run.statement(place) == there for h in claim.wrong for place in h.places[1:])

    def _stepped(self, spot: Spot) -> bool:
        """Somebody has used the gradients that are spoken of."""
        if self.run is None or not self.run.recording.steps:
            return False
        touched = {o for h in self.run.at(spot, Happening) for o in h.optimizers}
        return not touched or bool(touched & set(self.run.optimizers()))


_VERDICTS = {True: Verdict.CONFIRMED, False: Verdict.REFUTED, None: Verdict.NOT_SHOWN}


def _judged(claim: Claim, shown: Shown) -> Judged:
    about = (claim.code, claim.name, claim.severity, claim.message, claim.filename, claim.line)
    return Judged(*about, _VERDICTS[shown.holds], shown.text, marks=shown.marks)


def judged(verdicts: Verdicts, linted: Iterable[Linted]) -> tuple[list[Judged], list[Claim]]:
    """Each static finding, with its verdict; and those that no run can show."""
    found: list[Judged] = []
    silent: list[Claim] = []
    for file in linted:
        for finding in file.findings:
            row = finding.span.start.row
            claim = Claim(finding.code, finding.name, finding.severity, finding.message, file.path, row)
            if finding.code in all_measures():
                spot = verdicts.spot(file.path, finding)
                found.append(_judged(claim, verdicts.look(finding.code, spot, file.settings)))
            else:
                silent.append(claim)
    return found, silent


def seen_only_in_run(verdicts: Verdicts, linted: Mapping[str, Linted]) -> list[Judged]:
    """What the machine finds in the run, and the linter did not say."""
    known: set[tuple[str, str]] = set()
    places: set[tuple[str, int]] = set()
    for file in linted.values():
        for finding in file.result.findings:
            known.add((finding.code, file.path))
            rows = (finding.span.start.row, *(r.span.start.row for r in finding.related))
            places.update(verdicts.files.statement(file.path, row) for row in rows)
    found: list[Judged] = []
    for file in linted.values():
        for claim in verdicts.objections(file.settings):
            if claim.filename != file.path or claim.code not in file.enabled or (claim.code, file.path) in known:
                continue
            if verdicts.files.statement(file.path, claim.line) in places or _silenced(claim, file):
                continue
            spot = Spot(file.path, claim.line, verdicts.files[file.path].at(claim.line).function)
            shown = verdicts.look(claim.code, spot, file.settings)
            if shown.holds:
                found.append(_judged(claim, shown))
    return sorted(found, key=lambda j: (j.filename, j.line, j.code))


def _silenced(claim: Objection, file: Linted) -> bool:
    """A comment on the line keeps the rule quiet there, in a run as in the linter."""
    place = Position(claim.line, 1)
    finding = Finding(claim.code, claim.name, claim.severity, claim.message, Span(place, place))
    kept, _ = comments.apply(file.text, [finding], file.enabled)
    return finding not in kept


def explained(findings: Iterable[Judged], side: Side) -> bool:
    """The exception that ended the script is what a confirmed finding is about."""
    if side.main is None:
        return False
    errors = {e.index for e in side.main.of(Raised)}
    return any(j.verdict is Verdict.CONFIRMED and errors & set(j.marks) for j in findings)


def cured(finding: Judged, before: Linted, after: Linted, verdicts: Verdicts, failure: str, *, unsafe: bool) -> Judged:
    """The finding, with what the run of the fixed copy says of it."""
    said = finding.code, finding.message
    if _said(before)[said] <= _said(after)[said]:  # it is not gone
        offered = any(
            f.fix is not None and (f.code, f.span.start.row) == (finding.code, finding.line) for f in before.findings
        )
        why = "only an unsafe fix is offered: --unsafe-fixes" if offered and not unsafe else "no fix is offered here"
        return replace(finding, after_fix=Cure.NO_FIX, after=why)
    if failure:
        return replace(finding, after_fix=Cure.NOT_CURED, after=f"the fixed copy failed: {failure}")
    file = Files({before.path: before.text})[before.path]
    spot = Spot(finding.filename, None, file.at(finding.line).function, text=file.source(finding.line))
    shown = verdicts.look(finding.code, spot, after.settings)
    cure = Cure.CURED if shown.holds is False else Cure.NOT_CURED
    return replace(finding, after_fix=cure, after=shown.text, marks_after=shown.marks)


def _said(file: Linted) -> Counter[tuple[str, str]]:
    """How often the linter says what."""
    return Counter((f.code, f.message) for f in file.findings)
