"""Lints one file: bytes in, a plain result out. No printing, never an exception, and nothing is read but what the file
imports from its project, where the settings say that this may be followed."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections import Counter
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from gradlint.inquiry import Inquiry, crash
from gradlint.model import (
    SYNTAX_ERROR,
    FileResult,
    Finding,
    Fixed,
    FixSafety,
    Position,
    Related,
    RuleCrash,
    Severity,
    Span,
    Unreadable,
    harmless,
)
from gradlint.records import replace
from gradlint.registry import all_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gradlint.config import Settings
    from gradlint.inquiry import Reading
    from gradlint.model import Edit
    from gradlint.prefilter import Part, Prefilter
    from gradlint.python.project import Project
    from gradlint.python.source import Broken, Source
    from gradlint.repair.trial import Trial
    from gradlint.rule import Draft, Rule

Text = TypeVar("Text")
#: how a text is read
Read: TypeAlias = "Callable[[Inquiry, Source], Reading]"

#: what gradients of another file could hang on; a model alone may be there for anything, so that something of training
#: has to be spoken of, too
_OBJECTS = (b"optim", b"Optim", b"loss", b"Loss", b"scaler", b"Scaler", b"Parallel", b"ccelerat")
_MODELS = (b"model", b"Model")
_TRAINING = (b"train", b"Train", b"fit", b"epoch", b"Epoch", b"tune", b"tuning", b"finetun", b"learn", b"step")
_WHOLE = re.compile(rb"step\b")
#: long chains of calls and sums nest deeply in a syntax tree
_RECURSION = 5000


def lint(
    source: bytes, path: str, settings: Settings, *, repeats: bool = False, read: Read = Inquiry.read,
    project: Project | None = None,
) -> FileResult:  # fmt: skip
    """All findings of one file; with `repeats` those, too, that say again what another one says.

    `read` asks the rules about the text; whoever remembers what they said of it before need not ask them again.
    `project` has the other files that it may be followed into.
    """
    from gradlint.python import source as reading

    enabled = settings.enabled_for(path)
    if sys.getrecursionlimit() < _RECURSION:
        sys.setrecursionlimit(_RECURSION)
    collects = gc.isenabled()
    gc.disable()  # what is in use while a file is read is no garbage, however much it is
    try:
        text = reading.read(source)
        if isinstance(text, Unreadable):
            return FileResult(path, unreadable=text)
        if isinstance(text, reading.Broken):
            return _broken(text, source, path, settings, enabled)
        if isinstance(text, reading.Newer):
            note = f"{text.row}:{text.column}: this file is written for a newer Python, and was not read"
            return FileResult(path, notes=(note,))
        project = project or project_of(path, settings)
        return _judged(text, path, settings, enabled, repeats=repeats, read=read, project=project)
    except RecursionError:
        return FileResult(path, unreadable=Unreadable("it is nested too deeply"))
    except Exception as error:  # the promise of this function: a crash is a value
        return FileResult(path, crashes=(crash("engine", error),))
    finally:
        if collects:
            gc.enable()


def fix(
    source: bytes, path: str, settings: Settings, *, unsafe: bool,
    keep: Callable[[FileResult, str], FileResult] | None = None,
) -> Fixed:  # fmt: skip
    """Applies what is offered, round after round, until nothing is left to do; `keep` chooses what counts."""
    from gradlint.python.source import decoded
    from gradlint.repair.rounds import edited

    def linted(text: bytes, repeats: bool) -> FileResult:
        result = lint(text, path, settings, repeats=repeats)
        return result if keep is None else keep(result, decoded(text))

    return Fixed(
        *fixed(source, path, settings, unsafe=unsafe, lint=linted, programs=lambda text: (text,), edited=edited)
    )


def fixed(
    text: Text, path: str, settings: Settings, *, unsafe: bool, lint: Callable[[Text, bool], FileResult],
    programs: Callable[[Text], Sequence[bytes]], edited: Callable[[Text, Sequence[Edit]], Text],
) -> tuple[Text, tuple[Finding, ...], FileResult, tuple[Finding, ...]]:  # fmt: skip
    """The same for anything that holds programs; `lint`: what is found in it, in places that `edited` understands.

    Findings that repeat another one are mended as well; of what is left, and of what there was, they are not told.
    """
    from gradlint.repair.rounds import rounds

    watched = _watched(settings.enabled_for(path), settings)

    def codes(now: Text) -> Counter[str]:
        return sum((_codes(program, path, watched, settings) for program in programs(now)), Counter())

    first = lint(text, True)
    begun = iter((first,))
    mended, done, left = rounds(
        text, lambda now: next(begun, None) or lint(now, True), codes, edited, settings.fixable, unsafe=unsafe
    )
    left = _once(left, mended, lint)
    return mended, done, left, _once(first, text, lint).findings if done else left.findings


def _once(result: FileResult, text: Text, lint: Callable[[Text, bool], FileResult]) -> FileResult:
    """What is told of a text: without what repeats another finding."""
    said = [finding.code for finding in result.findings]
    return result if len(set(said)) == len(said) else lint(text, False)


def project_of(path: str, settings: Settings) -> Project | None:
    """The files round a file, as far as it may be followed into them."""
    if not settings.project:
        return None
    from gradlint.python.project import Project

    return Project.on_disk((root_for(path, settings), *settings.src), settings.target_torch)


def root_for(path: str, settings: Settings) -> str:
    """The folder of the project that a file belongs to."""
    from gradlint.python.roots import root_of

    return settings.root or root_of(os.path.dirname(os.path.abspath(path)))


def _codes(source: bytes, path: str, watched: frozenset[str], settings: Settings) -> Counter[str]:
    """What the watched rules say of a text, beside advice."""
    from gradlint.python import source as reading

    text = reading.read(source)
    if not isinstance(text, reading.Source):
        return Counter()
    project = project_of(path, settings)
    if project is not None:
        project.begin(os.path.abspath(path), source)
    return _inquiry(watched, settings, {}, project, os.path.abspath(path)).read(text).grave


def _broken(text: Broken, source: bytes, path: str, settings: Settings, enabled: frozenset[str]) -> FileResult:
    if SYNTAX_ERROR not in enabled:
        return FileResult(path)
    from gradlint.python import blanks
    from gradlint.python.source import decoded

    severity, message = Severity.ERROR, text.message
    if blanks.unfinished(decoded(source), text.row, text.message):
        if not blanks.has_gradients(source):
            return FileResult(path)
        severity, message = Severity.ADVICE, "This file has a blank to be filled in here, and was not read"
    place = Position(max(1, text.row), max(1, text.column))
    finding = Finding(SYNTAX_ERROR, "syntax-error", severity, harmless(message), Span(place, place))
    return FileResult(path, (as_severe_as_wanted(finding, settings),))


def _judged(
    text: Source, path: str, settings: Settings, enabled: frozenset[str], *, repeats: bool, read: Read,
    project: Project | None,
) -> FileResult:  # fmt: skip
    from gradlint import comments
    from gradlint.telling import repeated

    crashes: dict[str, RuleCrash] = {}
    reading: Reading | None = None
    location = os.path.abspath(path)
    asked: list[Inquiry] = []
    if project is not None:
        project.begin(location, text.data)
    if worth_reading(text.data, settings, path, project):
        inquiry = _inquiry(enabled, settings, crashes, project, location)
        reading = read(inquiry, text)
        if read is Inquiry.read:  # else somebody may remember what was read
            asked.append(inquiry)
    imported: frozenset[str] = frozenset()
    drafted: list[tuple[Finding, Draft]] = []
    if reading is not None:
        project, imported = reading.project, _imported(reading, settings)
        drafts = (draft for draft in reading.drafts if not draft.site.path or draft.site.path in imported)
        drafted = [(finding_of(draft, reading), draft) for draft in drafts]
    found = [finding for finding, _ in drafted if finding.path]
    elsewhere = _elsewhere(found, settings, project)
    told = {(finding.code, finding.path, finding.span) for finding in elsewhere}
    hidden = (f for f in found if (f.code, f.path, f.span) not in told)
    silenced = tuple(sorted({(f.path, f.span.start.row, f.span.end.row) for f in hidden}))
    drafted = [(finding, draft) for finding, draft in drafted if not finding.path]
    known = frozenset(rule.meta.code for rule in all_rules())
    kept, suppressed = [finding for finding, _ in drafted], 0
    if not settings.ignore_noqa:
        kept, suppressed = comments.apply(text.text, kept, enabled, known)
    notes: list[str] = []
    if reading is not None and kept:
        again = repeated(drafted, reading.lowering.body, settings) if not repeats else ()
        kept = [finding for finding in kept if id(finding) not in again]
        offers = _Offering(reading, enabled, _watched(enabled, settings), settings, location, asked)
        draft_of = {id(finding): draft for finding, draft in drafted}
        # there are not steps for trials without end: what is most severe comes first
        order = sorted(kept, key=lambda finding: -finding.severity)
        kept = [offers.with_fix(finding, draft_of.get(id(finding)), notes) for finding in order]
    kept = [f if f.fix is None or settings.fixable(f.code) else replace(f, fix=None) for f in kept]
    kept = [as_severe_as_wanted(f, settings) for f in kept]
    kept.sort(key=lambda f: (f.span.start, f.code, f.message))
    exhausted = reading.exhausted if reading is not None else ()
    reached = tuple(sorted(row for row in reading.reached if row[0] in imported)) if reading is not None else ()
    probes = tuple(sorted(project.probes.items())) if project is not None else ()
    if project is not None:
        exhausted += tuple(project.exhausted)
        notes += [f"{missing} is imported, and is not there" for missing in sorted(project.missing)]
    for one in asked:
        one.let_go()
    return FileResult(
        path, tuple(kept), tuple(crashes.values()), suppressed=suppressed, notes=tuple(notes), exhausted=exhausted,
        elsewhere=elsewhere, reached=reached, silenced=silenced, probes=probes,
    )  # fmt: skip


def _imported(reading: Reading, settings: Settings) -> frozenset[str]:
    """The other files of which it counts what an analysis knows: those that its file imports and uses, so that whoever
    asks for one of them alone is told the same."""
    project = reading.project
    paths = {draft.site.path for draft in reading.drafts} | {path for path, _, _ in reading.reached}
    files = [file for path in paths if path and project is not None and (file := project.file(path)) is not None]
    if project is None or not files:
        return frozenset()
    from gradlint.python.project import Words

    words = Words.of(reading.source.data)
    return frozenset(
        file.path for file in files
        if project.is_used_by(file.path, words) and holds_any(file.source.data, settings, file.path)
    )  # fmt: skip


def _elsewhere(findings: Sequence[Finding], settings: Settings, project: Project | None) -> tuple[Finding, ...]:
    """What was found in other files, as far as the rules are on there and no comment of theirs silences it."""
    from gradlint import comments

    known = frozenset(rule.meta.code for rule in all_rules())
    kept: list[Finding] = []
    for path in dict.fromkeys(finding.path for finding in findings):
        file = project.file(path) if project is not None else None
        here = [finding for finding in findings if finding.path == path]
        enabled = settings.enabled_for(path)
        if file is not None:
            told = here if settings.ignore_noqa else comments.apply(file.whole, here, enabled, known)[0]
            kept += [f for f in told if f.path and f.code in enabled]
    return tuple(sorted(kept, key=lambda f: (f.path, f.span.start, f.code, f.message)))


def worth_reading(source: bytes, settings: Settings, path: str, project: Project | None = None) -> bool:
    """Whether a rule that is on for this file could have anything to say about it."""
    if not settings.prefilter:
        return True
    chosen = _prefilter(settings.enabled_for(path))
    if chosen.accepts(source):
        return True
    if project is None:
        return False
    if not holds_objects(source):
        return False
    # what it lacks may be in what it imports
    location = os.path.abspath(path)

    def of_files(part: Part, *, readable: bool = False) -> bool:
        return part in project.at_once(location, source, chosen.asking(part), readable=readable)

    # the second look is at code alone, and takes longer
    if not chosen.accepts_with(source, of_files) or not chosen.accepts_with(source, partial(of_files, readable=True)):
        return False
    project.begin(location, source)
    return chosen.accepts_with(source, chosen.any_of(project.texts()))


def holds_objects(source: bytes) -> bool:
    """Whether a file holds anything that gradients of another file could hang on."""
    if any(word in source for word in _OBJECTS):
        return True
    return any(word in source for word in _MODELS) and any(_begins_word(stem, source) for stem in _TRAINING)


def _begins_word(stem: bytes, source: bytes) -> bool:
    """Whether a word, or a part of one behind `_`, begins so; a regular expression takes three times as long."""
    place = source.find(stem)
    while place >= 0:
        if not source[place - 1 : place].isalpha() and (stem != b"step" or _WHOLE.match(source, place)):
            return True
        place = source.find(stem, place + 1)
    return False


def holds_any(source: bytes, settings: Settings, path: str) -> bool:
    """Whether a file holds anything that a rule needs, though perhaps not all of it."""
    return _prefilter(settings.enabled_for(path)).holds_any(source)


def chosen_rules(codes: frozenset[str], settings: Settings) -> list[Rule]:
    """The rules of these codes, with the options that were configured for them."""
    return [rule(settings.options_for(rule.meta.code)) for rule in all_rules() if rule.meta.code in codes]


def _inquiry(
    codes: frozenset[str], settings: Settings, crashes: dict[str, RuleCrash], project: Project | None, location: str
) -> Inquiry:
    rules = chosen_rules(codes, settings)
    # what a text lacks may be in the files that it imports
    others = b"" if project is None else b"\n".join((b"", *project.texts()))
    speaking = (lambda text: _prefilter(codes).speaking(text, others)) if settings.prefilter else None
    return Inquiry(rules, settings.target_torch, crashes, project, location, speaking)


def _prefilter(codes: frozenset[str]) -> Prefilter:
    from gradlint.prefilter import prefilter

    return prefilter(codes)


def _watched(enabled: frozenset[str], settings: Settings) -> frozenset[str]:
    """The rules that a fix must not offend: those that are on, and those that are on by default and not ignored."""
    from gradlint.config.selectors import expand

    ignored = {code for layer in settings.layers for selector in layer.ignore for code in expand(selector)}
    return enabled | {rule.meta.code for rule in all_rules() if rule.meta.default and rule.meta.code not in ignored}


class _Offering:
    """Looks for the fixes of a file's findings; all that it needs is made when the first rule proposes one."""

    def __init__(
        self, reading: Reading, enabled: frozenset[str], watched: frozenset[str], settings: Settings, location: str,
        asked: list[Inquiry],
    ) -> None:  # fmt: skip
        """`asked` gets who is asked about the texts that are tried."""
        self._reading = reading
        self._asked = asked
        self._location = location
        self._enabled = enabled
        self._watched = watched
        self._settings = settings
        self._offers: Trial | None = None

    def with_fix(self, finding: Finding, draft: Draft | None, notes: list[str]) -> Finding:
        """The finding with what can be offered for it; `notes` gets the reason where nothing can."""
        if not self._settings.offers or not self._settings.fixable(finding.code):
            return finding
        if draft is None or not draft.repairs:
            return finding
        try:
            offered = self._made().offer(draft)
        except Exception as error:  # a fixer that fails takes its fix with it, not the finding and not the run
            offered = f"its fixer failed: {type(error).__name__}: {error}".partition("\n")[0]
        if isinstance(offered, str):
            start = finding.span.start
            notes.append(f"{start.row}:{start.column}: {finding.code} has no fix here: {offered}")
        if offered is None or isinstance(offered, str):
            return finding
        if draft.guess is not None and draft.guess.of_code:
            offered = replace(offered, safety=FixSafety.UNSAFE)  # only the author knows what code does that is not seen
        return replace(finding, fix=offered)

    def _made(self) -> Trial:
        if self._offers is None:
            from gradlint.repair.trial import Trial

            inquiry = _inquiry(self._watched, self._settings, {}, self._reading.project, self._location)
            self._asked.append(inquiry)
            # with the usual rules the first reading has said it already
            known = self._reading if self._watched <= self._enabled else None
            self._offers = Trial(self._reading, inquiry, known)
        return self._offers


def finding_of(draft: Draft, reading: Reading) -> Finding:
    """What a rule has drafted, at its place."""
    meta = draft.rule.meta
    there = draft.site.path
    lines = draft.related
    if there:
        calls = (site for event in draft.story for site in reversed(event.via) if not site.path)
        lines += tuple((site, "it is called from here") for site in islice(calls, 1))
    located = reading.location if there else ""
    related = tuple(
        Related(reading.span(site), harmless(said), "" if site.path == there else site.path or located)
        for site, said in lines
    )
    name, span = draft.rule.rule_name(), reading.span(draft.site)
    return Finding(
        meta.code, name, draft.level, harmless(draft.message), span, related, grade=draft.grade, path=there,
        entries=reading.entries_of(draft),
    )  # fmt: skip


def as_severe_as_wanted(finding: Finding, settings: Settings) -> Finding:
    """The finding with the severity that was configured for its rule."""
    severity = settings.severity_of(finding.code)
    return finding if severity is None else finding.with_severity(severity)
