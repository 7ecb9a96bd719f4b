"""GL203 step-bypasses-scaler."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Manager, Step
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class StepBypassesScaler(Rule):
    """The loss is scaled, but the optimizer steps without the scaler."""

    meta = RuleMeta("GL203", Category.MIXED_PRECISION, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{step}` bypasses the scaler: {consequence}"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if step.scaler is not None or step.manager not in (Manager.NOBODY, Manager.ACCELERATE):
            return
        scaled = next((b for b in state.pending if b.scaler is not None and b.scaler.enabled is not False), None)
        if scaled is None:
            return
        consequence = (
            "inf and NaN gradients reach the weights" if state.scaled is None
            else "the weights are updated with gradients multiplied by the scale"
        )  # fmt: skip
        yield self.finding(
            step, step=short(step), consequence=consequence, related=[(scaled, "scaled gradients are made here")]
        )
