"""GL202 double-unscale."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Unscale, Update
from gradlint.machine.state import GradientState
from gradlint.machine.trace import same_turn
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class DoubleUnscale(Rule):
    """The gradients of one optimizer are unscaled twice."""

    meta = RuleMeta("GL202", Category.MIXED_PRECISION, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{unscale}` runs twice before `update()`: the second one raises a RuntimeError"

    def on_unscale(self, unscale: Unscale, state: GradientState) -> Iterator[Draft]:
        first = state.unscaled
        if first is None or first.site == unscale.site or first.scaler != unscale.scaler:
            return
        if not same_turn(first, unscale):
            return
        if first.optimizer == unscale.optimizer and not any(state.window.between(first, unscale, Update)):
            yield self.finding(unscale, unscale=short(unscale), related=[(first, "already unscaled here")])
