"""What is told of a text: what its rules say becomes findings with their fixes, and nothing is said twice."""

from __future__ import annotations

import os
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from gradlint import comments
from gradlint.inquiry import Inquiry
from gradlint.model import FileResult, Finding, FixSafety, Related, RuleCrash, Severity, harmless, in_order
from gradlint.prefilter import prefilter
from gradlint.python import syntax as s
from gradlint.python.project import Words
from gradlint.records import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gradlint.config import Settings
    from gradlint.inquiry import Reading
    from gradlint.python.project import Project
    from gradlint.python.source import Source
    from gradlint.repair.trial import Trial
    from gradlint.rule import Draft

#: how a text is read
Read: TypeAlias = "Callable[[Inquiry, Source], Reading]"


def judged(
    text: Source, path: str, settings: Settings, project: Project | None, *, worth: bool, repeats: bool,
    read: Read | None,
) -> FileResult:  # fmt: skip
    """The result of a text; `worth`: a rule could have something to say about it."""
    crashes: dict[str, RuleCrash] = {}
    asked: list[Inquiry] = []
    reading: Reading | None = None
    imported: frozenset[str] = frozenset()
    drafted: list[tuple[Finding, Draft]] = []
    enabled = settings.enabled_for(path)
    if worth:
        inquiry = Inquiry.of(enabled, settings, crashes, project, os.path.abspath(path))
        reading = inquiry.read(text) if read is None else read(inquiry, text)
        if read is None:  # else somebody may remember what was read
            asked.append(inquiry)
        project, imported = reading.project, _imported(reading, settings)
        drafts = (draft for draft in reading.drafts if not draft.site.path or draft.site.path in imported)
        drafted = [(_finding_of(draft, reading), draft) for draft in drafts]
    found = [finding for finding, _ in drafted if finding.path]
    elsewhere = _elsewhere(found, settings, project)
    drafted = [(finding, draft) for finding, draft in drafted if not finding.path]
    kept, suppressed = [finding for finding, _ in drafted], 0
    if not settings.ignore_noqa:
        kept, suppressed = comments.apply(text.text, kept, enabled)
    notes: list[str] = []
    if reading is not None and kept:
        again = _repeated(drafted, reading.lowering.body, settings) if not repeats else ()
        kept = [finding for finding in kept if id(finding) not in again]
        kept = _Offering(reading, path, settings, asked).with_fixes(kept, drafted, notes)
    kept = [f if f.fix is None or settings.fixable(f.code) else replace(f, fix=None) for f in kept]
    exhausted: tuple[str, ...] = ()
    reached: list[tuple[str, int, bool]] = []
    if reading is not None:
        exhausted, reached = reading.exhausted, [row for row in reading.reached if row[0] in imported]
    if project is not None:
        exhausted += tuple(project.exhausted)
        notes += [f"{missing} is imported, and is not there" for missing in sorted(project.missing)]
    probes = sorted(project.probes.items()) if project is not None else ()
    for one in asked:
        one.let_go()
    return FileResult(
        path,
        tuple(in_order(map(settings.with_severity, kept))),
        tuple(crashes.values()),
        suppressed=suppressed,
        notes=tuple(notes),
        exhausted=exhausted,
        elsewhere=elsewhere,
        reached=tuple(sorted(reached)),
        silenced=_silenced(found, elsewhere),
        probes=tuple(probes),
    )


def _imported(reading: Reading, settings: Settings) -> frozenset[str]:
    """The other files of which it counts what an analysis knows: those that its file imports and uses, so that whoever
    asks for one of them alone is told the same."""
    project = reading.project
    paths = {draft.site.path for draft in reading.drafts} | {path for path, _, _ in reading.reached}
    files = [file for path in paths if path and project is not None and (file := project.file(path)) is not None]
    if project is None or not files:
        return frozenset()
    words = Words.of(reading.source.data)
    return frozenset(
        file.path for file in files
        if project.is_used_by(file.path, words)
        and prefilter(settings.enabled_for(file.path)).holds_any(file.source.data)
    )  # fmt: skip


def _elsewhere(findings: Sequence[Finding], settings: Settings, project: Project | None) -> tuple[Finding, ...]:
    """What was found in other files, as far as the rules are on there and no comment of theirs silences it."""
    kept: list[Finding] = []
    for path in dict.fromkeys(finding.path for finding in findings):
        file = project.file(path) if project is not None else None
        here = [finding for finding in findings if finding.path == path]
        enabled = settings.enabled_for(path)
        if file is not None:
            told = here if settings.ignore_noqa else comments.apply(file.whole, here, enabled)[0]
            kept += [f for f in told if f.path and f.code in enabled]
    return tuple(sorted(kept, key=lambda f: (f.path, f.span.start, f.code, f.message)))


def _silenced(found: Sequence[Finding], told: Sequence[Finding]) -> tuple[tuple[str, int, int], ...]:
    """Where in other files something was found that is not told."""
    known = {(f.code, f.path, f.span) for f in told}
    hidden = (f for f in found if (f.code, f.path, f.span) not in known)
    return tuple(sorted({(f.path, f.span.start.row, f.span.end.row) for f in hidden}))


def _finding_of(draft: Draft, reading: Reading) -> Finding:
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


class _Offering:
    """Looks for the fixes of a file's findings; all that it needs is made when the first rule proposes one."""

    def __init__(self, reading: Reading, path: str, settings: Settings, asked: list[Inquiry]) -> None:
        """`asked` gets who is asked about the texts that are tried."""
        self._reading = reading
        self._path = path
        self._settings = settings
        self._asked = asked
        self._trial: Trial | None = None

    def with_fixes(
        self, findings: Sequence[Finding], drafted: Sequence[tuple[Finding, Draft]], notes: list[str]
    ) -> list[Finding]:
        """The findings with what can be offered for them; `notes` gets the reasons where nothing can."""
        draft_of = {id(finding): draft for finding, draft in drafted}
        # there are not steps for trials without end: what is most severe comes first
        order = sorted(findings, key=lambda finding: -finding.severity)
        return [self._with_fix(finding, draft_of.get(id(finding)), notes) for finding in order]

    def _with_fix(self, finding: Finding, draft: Draft | None, notes: list[str]) -> Finding:
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
        if self._trial is None:
            from gradlint.repair.trial import Trial

            reading, settings = self._reading, self._settings
            watched = settings.watched_for(self._path)
            inquiry = Inquiry.of(watched, settings, {}, reading.project, os.path.abspath(self._path))
            self._asked.append(inquiry)
            # with the usual rules the first reading has said it already
            known = reading if watched <= settings.enabled_for(self._path) else None
            self._trial = Trial(reading, inquiry, known)
        return self._trial


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a finding stands: its function, or the statement of the module; and the arms of the `if`s round it."""

    home: int
    arms: dict[int, bool] = field(default_factory=dict)
    #: what stands there goes through a scaler
    scaled: bool = False

    def is_other_arm(self, other: _Place) -> bool:
        """The same with mixed precision and without: `if amp: scaler.step(optimizer) else: optimizer.step()`."""
        apart = any(other.arms.get(each, arm) is not arm for each, arm in self.arms.items())
        return apart and self.scaled is not other.scaled


def _repeated(
    drafted: Sequence[tuple[Finding, Draft]], body: list[s.Stmt], settings: Settings
) -> frozenset[int]:  # fmt: skip
    """The (ids of the) findings that say again what another one says.

    Advice is given once a function, and what is wrong with a step (or a backward) through the scaler and without it, in
    two arms of one `if`, is told in the first of them. The others are judged as ever: what a fix leaves behind is seen
    by its trial, and told in the next round.
    """
    codes = Counter(finding.code for finding, _ in drafted)
    several = [each for each in drafted if codes[each[0].code] > 1]
    if not several:
        return frozenset()
    places = dict(_places(body, {draft.site.node for _, draft in several}, _Place(-1)))
    told: dict[tuple[str, Severity, int], list[_Place]] = {}
    again = set()
    for finding, draft in sorted(several, key=lambda each: each[0].span.start):
        place = places.get(draft.site.node)
        if place is None:
            continue
        place = _Place(place.home, place.arms, "scale" in draft.site.text)
        severity = settings.severity_of(finding.code) or finding.severity
        before = told.setdefault((finding.code, severity, place.home), [])
        if any(severity is Severity.ADVICE or place.is_other_arm(p) for p in before):
            again.add(id(finding))
        elif place not in before:
            before.append(place)
    return frozenset(again)


def _places(body: list[s.Stmt], wanted: set[int], here: _Place) -> Iterator[tuple[int, _Place]]:
    for stmt in body:
        inner = _Place(stmt.node if here.home < 0 or isinstance(stmt, s.Def) else here.home, here.arms)
        if stmt.node in wanted:
            yield stmt.node, inner
        for expr in s.expressions(stmt):
            for part in s.walk_expr(expr):
                if part.node in wanted:
                    yield part.node, inner
        if isinstance(stmt, s.If):
            yield from _places(stmt.body, wanted, _Place(inner.home, {**here.arms, stmt.node: True}))
            yield from _places(stmt.orelse, wanted, _Place(inner.home, {**here.arms, stmt.node: False}))
            continue
        for block in s.blocks(stmt):
            yield from _places(block, wanted, inner)
