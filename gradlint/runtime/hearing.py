"""Asks the rules about a run: the same machine and the same codes as for source code, on what really happened."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gradlint.config import Settings
from gradlint.model import Severity
from gradlint.rule import Draft, File, Rule
from gradlint.runtime.recording import Happening, Stepped
from gradlint.runtime.scene import Scene


@dataclass(frozen=True, slots=True)
class Heard:
    """What a rule said of the run, at which line."""

    code: str
    name: str
    severity: Severity
    message: str
    file: str
    line: int
    #: what it objects to, each time that it happened; and the rest of these stories
    wrong: tuple[Happening, ...] = ()
    story: tuple[Happening, ...] = ()


#: told of a rule and what it raised
OnCrash = Callable[[str, Exception], None]


def heard(scene: Scene, settings: Settings, codes: Iterable[str], on_crash: OnCrash) -> list[Heard]:
    """What the rules say, once for each place."""
    from gradlint.machine.judge import Judge

    rules = _rules(scene, settings, frozenset(codes))
    judge = Judge(rules, lambda rule, error: on_crash(rule.meta.code, error))
    said: dict[tuple[str, str, int], Heard] = {}
    for draft in judge.judge(scene.played.path):
        found = _placed(draft, scene)
        if found is not None:
            key = (found.code, found.file, found.line)
            known = said.get(key)
            said[key] = found if known is None else _together(known, found)
    return list(said.values())


def _together(one: Heard, other: Heard) -> Heard:
    """The same place again."""
    return replace(one, wrong=_once(*one.wrong, *other.wrong), story=_once(*one.story, *other.story))


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


def _rules(scene: Scene, settings: Settings, codes: frozenset[str]) -> list[Rule]:
    """Those that judge by the order of events, told of the file that steps: some keep still because of its text."""
    from gradlint.registry import all_rules

    wanted = [rule for rule in all_rules() if rule.meta.runs and rule.meta.code in codes]
    rules = [rule(settings.options_for(rule.meta.code)) for rule in wanted]
    file = _file(scene, settings)
    for rule in rules:
        rule.file = file
    return rules


def _file(scene: Scene, settings: Settings) -> File:
    """The file that steps; without one, or if it cannot be read, a file that says nothing."""
    from gradlint.facts.file import File
    from gradlint.python.lower import Lowering
    from gradlint.python.module import Program

    step = next((s.place for s in scene.recording.of(Stepped) if s.place is not None), None)
    try:
        tree = ast.parse(scene.files[step.file].text if step is not None else "")
        return File(Program(Lowering(tree).body, settings.target_torch))
    except (SyntaxError, ValueError, RecursionError):
        return File(Program([], settings.target_torch))
