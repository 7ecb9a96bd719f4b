"""GL308 accumulation-off-by-one."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Step, Zero
from gradlint.machine.state import GradientState
from gradlint.machine.trace import Window, same_turn
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta


class AccumulationOffByOne(Rule):
    """The accumulation boundary is true for the very first micro-batch."""

    meta = RuleMeta("GL308", Category.ACCUMULATION, Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{boundary}` is true for the first micro-batch already: the first window has one, all are shifted by one"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if not step.modulo or not step.exact or state.steps or len(state.pending) != 1:
            return
        first = state.pending[0]
        later = next((w for w in state.life.windows if w.number > 0 and w.step and w.step.site == step.site), None)
        if later is None or not same_turn(first, step) or any(f.turn for f in step.frames):
            return
        if sum(b.site == first.site for b in later.of(Backward)) >= 2 and not any(later.of(Zero)):
            yield self._off(step, first)
        elif sum(b.site == first.site for b in later.of(Backward)) >= 2 and _cleared_behind(later):
            yield self._off(step, first)

    def _off(self, step: Step, first: Backward) -> Draft:
        return self.finding(step, boundary=step.boundary, related=[(first, "one micro-batch only before the first step")])


def _cleared_behind(window: Window) -> bool:
    """All zeroing of the window comes before its first backward: behind the last step."""
    first = next(window.of(Backward))
    return all(z.index < first.index for z in window.of(Zero))
