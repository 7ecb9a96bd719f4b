"""GL306 loss-divided-twice."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Norm
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta


class LossDividedTwice(Rule):
    """The loss is divided by hand and by the framework."""

    meta = RuleMeta("GL306", Category.ACCUMULATION, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{loss}` is divided by `{divisor}`, and {manager} divides it again: gradients are 1/N of what was meant"

    def on_backward(self, backward: Backward, state: GradientState) -> Iterator[Draft]:
        if backward.norm is not Norm.DIVIDED or not backward.managed_division:
            return
        name = backward.divisor.rpartition(".")[2]
        if "accum" in name.lower():
            yield self.finding(
                backward, loss=backward.loss, divisor=backward.divisor, manager=backward.manager.value
            )
