"""What of all that the rules say is told: nothing is said twice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gradlint.model import Severity
from gradlint.python import syntax as s
from gradlint.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gradlint.config import Settings
    from gradlint.model import Finding
    from gradlint.rule import Draft


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


def repeated(
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
