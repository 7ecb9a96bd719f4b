"""Asks the rules about a run: the same machine and the same codes as for source code, on what really happened."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from gradlint.config import Settings
from gradlint.model import Severity
from gradlint.rule import Draft, File, Rule
from gradlint.runtime.lines import Files
from gradlint.runtime.recording import Recording, Stepped
from gradlint.runtime.replay import Replay, replay


@dataclass(frozen=True, slots=True)
class Heard:
    """What a rule said of the run, at which line."""

    code: str
    name: str
    severity: Severity
    message: str
    file: str
    line: int
    #: the lines of its story, with their files
    related: tuple[tuple[str, int], ...] = ()


def heard(recording: Recording, files: Files, settings: Settings, codes: Iterable[str]) -> list[Heard]:
    """What the rules say, once for each place."""
    from gradlint.machine.judge import Judge

    played = replay(recording, files)
    rules = _rules(recording, files, settings, frozenset(codes))
    judge = Judge(rules, lambda rule, error: None)  # a rule that needs the text has nothing to say of a run
    said: dict[tuple[str, str, int], Heard] = {}
    for draft in judge.judge(played.path):
        found = _placed(draft, played, files)
        if found is not None:
            said.setdefault((found.code, found.file, found.line), found)
    return list(said.values())


def _placed(draft: Draft, played: Replay, files: Files) -> Heard | None:
    place = played.places.get(draft.site.node)
    if place is None:
        return None
    meta = draft.rule.meta
    related = tuple((p.file, p.line) for site, _ in draft.related if (p := played.places.get(site.node)) is not None)
    severity = draft.severity if draft.severity is not None else meta.severity
    return Heard(meta.code, draft.rule.rule_name(), severity, draft.message, place.file, place.line, related)


def _rules(recording: Recording, files: Files, settings: Settings, codes: frozenset[str]) -> list[Rule]:
    """Those that judge by the order of events, told of the file that steps: some keep still because of its text."""
    from gradlint.registry import all_rules

    rules = [
        rule(settings.options_for(rule.meta.code)) for rule in all_rules() if rule.meta.runs and rule.meta.code in codes
    ]
    file = _file(recording, files, settings)
    for rule in rules:
        rule.file = file
    return rules


def _file(recording: Recording, files: Files, settings: Settings) -> File:
    """The file that steps; without one, or if it cannot be read, a file that says nothing."""
    from gradlint.frontend.file import File
    from gradlint.frontend.lower import Lowering
    from gradlint.frontend.program import Program

    step = next((s.place for s in recording.of(Stepped) if s.place is not None), None)
    try:
        tree = ast.parse(files[step.file].text if step is not None else "")
        return File(Program(Lowering(tree).body, settings.target_torch))
    except (SyntaxError, ValueError, RecursionError):
        return File(Program([], settings.target_torch))
