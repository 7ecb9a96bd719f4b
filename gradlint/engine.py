"""Lints one file: bytes in, a plain result out. No I/O, no printing, never an exception."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gradlint.frontend.bytescan import may_hold_events
from gradlint.model import FileResult, Finding, Position, Related, RuleCrash, Severity, Span, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gradlint.config import Settings
    from gradlint.events import Recipe
    from gradlint.frontend.program import Program
    from gradlint.frontend.source import Broken, Source
    from gradlint.frontend.syntax import Stmt
    from gradlint.rule import Draft, Rule

#: long chains of calls and sums nest deeply in a syntax tree
_RECURSION = 5000


def lint(source: bytes, path: str, settings: Settings) -> FileResult:
    """All findings of one file."""
    from gradlint.frontend import source as reading

    enabled = settings.enabled_for(path)
    if sys.getrecursionlimit() < _RECURSION:
        sys.setrecursionlimit(_RECURSION)
    text = reading.read(source)
    if isinstance(text, Unreadable):
        return FileResult(path, unreadable=text)
    try:
        if isinstance(text, reading.Broken):
            return _broken(text, path, settings, enabled)
        return _judged(text, path, settings, enabled)
    except RecursionError:
        return FileResult(path, unreadable=Unreadable("it is nested too deeply"))
    except Exception as error:  # the promise of this function: a crash is a value
        return FileResult(path, crashes=(_crash("engine", error),))


def _broken(text: Broken, path: str, settings: Settings, enabled: frozenset[str]) -> FileResult:
    if "GL900" not in enabled:
        return FileResult(path)
    place = Position(max(1, text.row), max(1, text.column))
    finding = Finding("GL900", "syntax-error", Severity.ERROR, text.message, Span(place, place))
    return FileResult(path, (_severe(finding, settings),))


def _judged(text: Source, path: str, settings: Settings, enabled: frozenset[str]) -> FileResult:
    from gradlint import suppress
    from gradlint.registry import all_rules

    crashes: dict[str, RuleCrash] = {}
    findings: list[Finding] = []
    if may_hold_events(text.data):
        rules = [r(settings.options_for(r.meta.code)) for r in all_rules() if r.meta.code in enabled]
        findings = _findings(text, rules, settings, crashes)
    known = frozenset(rule.meta.code for rule in all_rules())
    kept, suppressed = suppress.apply(text.text, findings, enabled, known)
    kept = [_severe(f, settings) for f in kept]
    kept.sort(key=lambda f: (f.span.start, f.code, f.message))
    return FileResult(path, tuple(kept), tuple(crashes.values()), suppressed=suppressed)


def _findings(text: Source, rules: Sequence[Rule], settings: Settings, crashes: dict[str, RuleCrash]) -> list[Finding]:
    """The scout reads Python's own tree, which is quick; only a file with something to say is read by libcst."""
    inquiry = _Inquiry(rules, settings.target_torch, crashes)
    if text.tree is not None:
        from gradlint.frontend import scout
        from gradlint.frontend.quick import QuickLowering

        if not inquiry.drafts(QuickLowering(scout.empty(text.tree, text.text)).body):
            return []
    from gradlint.frontend.lower import Lowering

    lowered = Lowering(text.parse())
    drafts = inquiry.drafts(lowered.body, again=text.tree is not None)
    if not drafts:
        return []
    spans = lowered.spans({s.node for d in drafts for s in (d.site, *(r[0] for r in d.related))})
    return [_finding(draft, spans) for draft in drafts]


class _Inquiry:
    """Asks all rules about a program."""

    def __init__(
        self, rules: Sequence[Rule], target_torch: tuple[int, int] | None, crashes: dict[str, RuleCrash]
    ) -> None:
        self._rules = rules
        self._target = target_torch
        self._crashes = crashes
        self._recipes: set[Recipe] = set()

    def drafts(self, body: list[Stmt], *, again: bool = False) -> list[Draft]:
        """What the rules have to say, once for each place; `again`: only on the paths where they spoke before."""
        from gradlint.frontend.paths import Explorer
        from gradlint.frontend.program import Program
        from gradlint.machine.judge import Judge

        program = Program(body, self._target)
        found: dict[tuple[str, int], Draft] = {}
        for draft in self._about_program(program):
            found.setdefault((draft.rule.meta.code, draft.site.node), draft)
        judge = Judge(self._rules, self._on_crash)
        explorer = Explorer(program)
        for path in explorer.again(frozenset(self._recipes)) if again else explorer.paths():
            for draft in judge.judge(path):
                if found.setdefault((draft.rule.meta.code, draft.site.node), draft) is draft:
                    self._recipes.add(path.recipe)
        return list(found.values())

    def _about_program(self, program: Program) -> Iterator[Draft]:
        for rule in self._rules:
            try:
                yield from list(rule.on_program(program))
            except Exception as error:  # a rule's crash is one reported error; the rest goes on
                self._on_crash(rule, error)

    def _on_crash(self, rule: Rule, error: Exception) -> None:
        self._crashes.setdefault(rule.meta.code, _crash(rule.meta.code, error))


def _finding(draft: Draft, spans: dict[int, Span]) -> Finding:
    meta = draft.rule.meta
    related = tuple(Related(spans[site.node], said) for site, said in draft.related)
    severity = draft.severity if draft.severity is not None else meta.severity
    return Finding(meta.code, draft.rule.rule_name(), severity, draft.message, spans[draft.site.node], related)


def _severe(finding: Finding, settings: Settings) -> Finding:
    severity = settings.severity_of(finding.code)
    return finding if severity is None else finding.with_severity(severity)


def _crash(rule: str, error: BaseException) -> RuleCrash:
    import traceback

    shown = "".join(traceback.format_exception(error, limit=-8))
    return RuleCrash(rule, f"{type(error).__name__}: {error}", shown)
