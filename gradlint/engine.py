"""Lints one file: bytes in, a plain result out. No printing, never an exception, and nothing is read but what the file
imports from its project, where the settings say that this may be followed."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from gradlint.knowledge import words
from gradlint.model import (
    SYNTAX_ERROR,
    FileResult,
    Finding,
    Fixed,
    Position,
    RuleCrash,
    Severity,
    Span,
    Unreadable,
    harmless,
)
from gradlint.prefilter import prefilter
from gradlint.python import source as reading
from gradlint.python.project import Project
from gradlint.python.roots import root_of

if TYPE_CHECKING:
    from gradlint.config import Settings
    from gradlint.findings import Read
    from gradlint.model import Edit
    from gradlint.prefilter import Part

Text = TypeVar("Text")

#: what gradients of another file could hang on; a model alone may be there for anything, so that something of training
#: has to be spoken of, too
_OBJECTS = (b"loss", b"ptim", b"Loss", b"caler", b"Parallel", b"ccelerat")
_MODELS = b"odel"
_TRAINING = (
    b"train", b"Train", b"fit", b"epoch", b"Epoch", b"tune", b"tuning", b"finetun", b"learn", b"step",
    b"Engine", b"Runner", b"Solver", b"Learner", b"Agent",
)  # fmt: skip
_STEMS = words.stems((*_OBJECTS, *_TRAINING))
_WHOLE = re.compile(rb"step\b")
#: long chains of calls and sums nest deeply in a syntax tree
_RECURSION = 5000


def lint(
    source: bytes, path: str, settings: Settings, *, repeats: bool = False, read: Read | None = None,
    project: Project | None = None,
) -> FileResult:  # fmt: skip
    """All findings of one file; with `repeats` those, too, that say again what another one says.

    `read` asks the rules about the text; whoever remembers what they said of it before need not ask them again.
    `project` has the other files that it may be followed into.
    """
    if sys.getrecursionlimit() < _RECURSION:
        sys.setrecursionlimit(_RECURSION)
    collects = gc.isenabled()
    gc.disable()  # what is in use while a file is read is no garbage, however much it is
    try:
        text = reading.read(source)
        if isinstance(text, Unreadable):
            return FileResult(path, unreadable=text)
        if isinstance(text, reading.Broken):
            return _broken(text, source, path, settings)
        if isinstance(text, reading.Newer):
            note = f"{text.row}:{text.column}: this file is written for a newer Python, and was not read"
            return FileResult(path, notes=(note,))
        project = project or project_of(path, settings)
        if project is not None:
            project.begin(os.path.abspath(path), source)
        worth = worth_reading(source, settings, path, project)
        from gradlint.findings import judged

        return judged(text, path, settings, project, worth=worth, repeats=repeats, read=read)
    except RecursionError:
        return FileResult(path, unreadable=Unreadable("it is nested too deeply"))
    except Exception as error:  # the promise of this function: a crash is a value
        return FileResult(path, crashes=(RuleCrash.of("engine", error),))
    finally:
        if collects:
            gc.enable()


def fix(
    source: bytes, path: str, settings: Settings, *, unsafe: bool,
    keep: Callable[[FileResult, str], FileResult] | None = None,
) -> Fixed:  # fmt: skip
    """Applies what is offered, round after round, until nothing is left to do; `keep` chooses what counts."""
    from gradlint.repair.rounds import edited

    def linted(text: bytes, repeats: bool) -> FileResult:
        result = lint(text, path, settings, repeats=repeats)
        return result if keep is None else keep(result, reading.decoded(text))

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

    watched = settings.watched_for(path)

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
    return Project.on_disk((root_for(path, settings), *settings.src), settings.target_torch)


def root_for(path: str, settings: Settings) -> str:
    """The folder of the project that a file belongs to."""
    return settings.root or root_of(os.path.dirname(os.path.abspath(path)), os.getcwd())


def _codes(source: bytes, path: str, watched: frozenset[str], settings: Settings) -> Counter[str]:
    """What the watched rules say of a text, beside advice."""
    text = reading.read(source)
    if not isinstance(text, reading.Source):
        return Counter()
    project = project_of(path, settings)
    if project is not None:
        project.begin(os.path.abspath(path), source)
    from gradlint.inquiry import Inquiry

    return Inquiry.of(watched, settings, {}, project, os.path.abspath(path)).read(text).grave


def _broken(text: reading.Broken, source: bytes, path: str, settings: Settings) -> FileResult:
    if SYNTAX_ERROR not in settings.enabled_for(path):
        return FileResult(path)
    severity, message = Severity.ERROR, text.message
    if reading.unfinished(reading.decoded(source), text.row, text.message):
        if not reading.has_gradients(source):
            return FileResult(path)
        severity, message = Severity.ADVICE, "This file has a blank to be filled in here, and was not read"
    place = Position(max(1, text.row), max(1, text.column))
    return FileResult(path, (syntax_error(message, place, settings, severity),))


def syntax_error(message: str, place: Position, settings: Settings, severity: Severity = Severity.ERROR) -> Finding:
    """What is told of a text that does not parse."""
    finding = Finding(SYNTAX_ERROR, "syntax-error", severity, harmless(message), Span(place, place))
    return settings.with_severity(finding)


def worth_reading(source: bytes, settings: Settings, path: str, project: Project | None = None) -> bool:
    """Whether a rule that is on for this file could have anything to say about it."""
    if not settings.prefilter:
        return True
    chosen = prefilter(settings.enabled_for(path))
    if chosen.accepts(source):
        return True
    if project is None or not holds_objects(source):
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
    text = words.Text(source, _STEMS)
    if any(map(text.has, _OBJECTS)):
        return True
    return _MODELS in source and any(text.has(stem) and _begins_word(stem, source) for stem in _TRAINING)


def _begins_word(stem: bytes, source: bytes) -> bool:
    """Whether a word, or a part of one behind `_`, begins so; a regular expression takes three times as long."""
    place = source.find(stem)
    while place >= 0:
        if not source[place - 1 : place].isalpha() and (stem != b"step" or _WHOLE.match(source, place)):
            return True
        place = source.find(stem, place + 1)
    return False
