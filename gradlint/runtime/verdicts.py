"""Verdicts: what a run says of each static finding, what it shows besides, and whether the fixed copy is cured."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gradlint import comments
from gradlint.config import Settings
from gradlint.facts.file import File
from gradlint.machine.judge import Judge
from gradlint.model import FileResult, Finding, Position, Span
from gradlint.python.lower import Lowering
from gradlint.python.module import Module
from gradlint.registry import all_rules
from gradlint.rule import Draft, Rule
from gradlint.runtime.measure import Asked, all_measures, by_numbers
from gradlint.runtime.recording import Happening, Raised, Stepped
from gradlint.runtime.scene import Scene, Shown, Spot, marks
from gradlint.runtime.turns import Files
from gradlint.runtime.verification import Claim, Cure, Judged, Side, Verdict


@dataclass(frozen=True, slots=True)
class Heard(Claim):
    """What a rule said of the run."""

    #: what it objects to, each time that it happened; and the rest of these stories
    wrong: tuple[Happening, ...] = ()
    story: tuple[Happening, ...] = ()


#: told of a rule and what it raised
OnCrash = Callable[[str, Exception], None]


def heard(scene: Scene, settings: Settings, on_crash: OnCrash) -> list[Heard]:
    """What the rules say, once for each place."""
    judge = Judge(_rules(scene, settings), lambda rule, error: on_crash(rule.meta.code, error))
    said: dict[tuple[str, str, int], Heard] = {}
    for draft in judge.judge(scene.played.path):
        found = _placed(draft, scene)
        if found is not None:
            key = (found.code, found.filename, found.line)
            one = said.get(key, found)
            said[key] = replace(one, wrong=_once(*one.wrong, *found.wrong), story=_once(*one.story, *found.story))
    return list(said.values())


def _once(*happenings: Happening) -> tuple[Happening, ...]:
    return tuple({h.index: h for h in happenings}.values())


def _placed(draft: Draft, scene: Scene) -> Heard | None:
    played = scene.played
    place = played.places.get(draft.site.node)
    if place is None:
        return None
    meta = draft.rule.meta
    happened = [played.happenings[event.index] for event in draft.story]
    at = [played.happenings[event.index] for event in draft.story if event.site == draft.site][:1]
    rest = tuple(h for h in happened if h not in at)
    severity = draft.severity if draft.severity is not None else meta.severity
    return Heard(
        meta.code, draft.rule.rule_name(), severity, draft.message, place.file, place.line, tuple(at), rest
    )  # fmt: skip


def _rules(scene: Scene, settings: Settings) -> list[Rule]:
    """Those that judge by the order of events, told of the file that steps: some keep still because of its text."""
    rules = [rule(settings.options_for(rule.meta.code)) for rule in all_rules() if rule.meta.runs]
    file = _file(scene, settings)
    for rule in rules:
        rule.file = file
    return rules


def _file(scene: Scene, settings: Settings) -> File:
    """The file that steps; without one, or if it cannot be read, a file that says nothing."""
    step = next((s.place for s in scene.recording.of(Stepped) if s.place is not None), None)
    try:
        tree = ast.parse(scene.files[step.file].text if step is not None else "")
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


@dataclass
class Case:
    """A run that can be asked."""

    side: Side
    files: Files
    scene: Scene | None
    #: rules that failed on the run, with what they raised
    crashes: list[str] = field(default_factory=list)
    _heard: dict[int, list[Heard]] = field(default_factory=dict)

    @classmethod
    def of(cls, side: Side) -> Case:
        files = Files(side.sources)
        scene = Scene(side.main, side.recordings, files) if side.main is not None else None
        return cls(side, files, scene)

    def spot(self, file: str, finding: Finding) -> Spot:
        line = finding.span.start.row
        related = tuple(r.span.start.row for r in finding.related)
        about = self.files[file]
        return Spot(file, line, about.at(line).function, related, about.source(line))

    def heard(self, settings: Settings) -> list[Heard]:
        """What the machine objects to, all of it."""
        if self.scene is None:
            return []
        if id(settings) not in self._heard:
            self._heard[id(settings)] = heard(self.scene, settings, self._crashed)
        return self._heard[id(settings)]

    def _crashed(self, code: str, error: Exception) -> None:
        said = f"{code} failed on this run: {type(error).__name__}: {str(error)[:160]}"
        if said not in self.crashes:
            self.crashes.append(said)

    def look(self, code: str, spot: Spot, settings: Settings) -> Shown:
        """The verdict is the machine's where it judges; what it amounted to, and all else, is measured."""
        if self.scene is None:
            return Shown(None, "nothing of torch was seen in this run")
        words = [word for word in self.heard(settings) if word.code == code and self._is_about(word, spot)]
        wrong = _once(*(h for word in words for h in word.wrong))
        story = _once(*(h for word in words for h in word.story))
        shown = all_measures()[code](Asked(self.scene, spot, wrong, story))
        if not by_numbers(code):
            holds = True if words else False if shown.holds is not None else None
            shown = Shown(holds, shown.text, tuple(dict.fromkeys((*marks(wrong), *shown.marks))) if words else ())
        if shown.holds is False and not self._stepped(spot):
            return Shown(None, "no optimizer step was taken with these gradients")
        return shown

    def _is_about(self, word: Heard, spot: Spot) -> bool:
        """It is said of the statement itself or of what this calls; after a fix, of the function."""
        assert self.scene is not None  # it is what the word is about
        if word.filename != spot.file and spot.line is None:
            return False
        about = self.files[word.filename].at(word.line)
        if spot.line is None:
            return about.function == spot.function or not self.scene.ran(spot)
        there = spot.file, self.files[spot.file].at(spot.line).start
        if (word.filename, about.start) == there:
            return True
        return any(self.scene.statement(place) == there for h in word.wrong for place in h.places[1:])

    def _stepped(self, spot: Spot) -> bool:
        """Somebody has used the gradients that are spoken of."""
        if self.scene is None or not self.side.steps:
            return False
        touched = {o for h in self.scene.at(spot, Happening) for o in h.optimizers}
        return not touched or bool(touched & set(self.scene.optimizers()))


_VERDICTS = {True: Verdict.CONFIRMED, False: Verdict.REFUTED, None: Verdict.NOT_SHOWN}


def judged(case: Case, linted: Iterable[Linted]) -> tuple[list[Judged], list[Claim]]:
    """Each static finding, with its verdict; and those that no run can show."""
    found: list[Judged] = []
    silent: list[Claim] = []
    for file in linted:
        for finding in file.findings:
            about = (finding.code, finding.name, finding.severity, finding.message, file.path, finding.span.start.row)
            if finding.code not in all_measures():
                silent.append(Claim(*about))
                continue
            shown = case.look(finding.code, case.spot(file.path, finding), file.settings)
            found.append(Judged(*about, _VERDICTS[shown.holds], shown.text, marks=shown.marks))
    return found, silent


def seen_only_in_run(case: Case, linted: Mapping[str, Linted]) -> list[Judged]:
    """What the machine finds in the run, and the linter did not say."""
    known: set[tuple[str, str]] = set()
    places: set[tuple[str, int]] = set()
    for file in linted.values():
        for finding in file.result.findings:
            known.add((finding.code, file.path))
            rows = (finding.span.start.row, *(r.span.start.row for r in finding.related))
            places.update((file.path, case.files[file.path].at(row).start) for row in rows)
    found: list[Judged] = []
    for file in linted.values():
        for word in case.heard(file.settings):
            if word.filename != file.path or word.code not in file.enabled or (word.code, word.filename) in known:
                continue
            if (word.filename, case.files[word.filename].at(word.line).start) in places or _silenced(word, file):
                continue
            spot = Spot(word.filename, word.line, case.files[word.filename].at(word.line).function)
            shown = case.look(word.code, spot, file.settings)
            if shown.holds:
                about = (word.code, word.name, word.severity, word.message, word.filename, word.line)
                found.append(Judged(*about, Verdict.CONFIRMED, shown.text, marks=shown.marks))
    return sorted(found, key=lambda j: (j.filename, j.line, j.code))


def _silenced(word: Heard, file: Linted) -> bool:
    """A comment on the line keeps the rule quiet there, in a run as in the linter."""
    place = Position(word.line, 1)
    finding = Finding(word.code, word.name, word.severity, word.message, Span(place, place))
    known = frozenset(rule.meta.code for rule in all_rules())
    kept, _ = comments.apply(file.text, [finding], file.enabled, known)
    return finding not in kept


def explained(findings: Iterable[Judged], side: Side) -> bool:
    """The exception that ended the script is what a confirmed finding is about."""
    if side.main is None:
        return False
    errors = {e.index for e in side.main.of(Raised)}
    return any(j.verdict is Verdict.CONFIRMED and errors & set(j.marks) for j in findings)


def cured(finding: Judged, before: Linted, after: Linted, case: Case, failure: str, *, unsafe: bool) -> Judged:
    """The finding, with what the run of the fixed copy says of it."""
    if not _is_gone(finding, before, after):
        offered = any(
            f.fix is not None and (f.code, f.span.start.row) == (finding.code, finding.line) for f in before.findings
        )
        why = "only an unsafe fix is offered: --unsafe-fixes" if offered and not unsafe else "no fix is offered here"
        return replace(finding, after_fix=Cure.NO_FIX, after=why)
    if failure:
        return replace(finding, after_fix=Cure.NOT_CURED, after=f"the fixed copy failed: {failure}")
    file = Files({before.path: before.text})[before.path]
    spot = Spot(finding.filename, None, file.at(finding.line).function, text=file.source(finding.line))
    shown = case.look(finding.code, spot, after.settings)
    cure = Cure.CURED if shown.holds is False else Cure.NOT_CURED
    return replace(finding, after_fix=cure, after=shown.text, marks_after=shown.marks)


def _is_gone(finding: Judged, before: Linted, after: Linted) -> bool:
    """The linter says it less often of the fixed copy than of the file."""
    return _said(before)[finding.code, finding.message] > _said(after)[finding.code, finding.message]


def _said(file: Linted) -> Counter[tuple[str, str]]:
    return Counter((f.code, f.message) for f in file.findings)
