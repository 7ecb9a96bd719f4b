"""GL206 backward-bypasses-scaler."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Manager, Norm, Opaque, Step
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class BackwardBypassesScaler(Rule):
    """The scaler steps, but the loss was never scaled."""

    meta = RuleMeta("GL206", Category.MIXED_PRECISION, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{backward}` is not scaled, but `{step}` divides by the scale: the update is far too small, or it raises"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if step.scaler is None or step.scaler.enabled is False or not state.pending:
            return
        if any(b.scaler is not None or b.manager is not Manager.NOBODY for b in state.pending):
            return
        for backward in state.pending:
            if backward.norm is Norm.UNKNOWN and not backward.params.known:
                return  # a loss from elsewhere may have been scaled there
            if any(e.optimizers is None for e in state.window.between(backward, step, Opaque)):
                return
        first = state.pending[0]
        yield self.finding(first, backward=short(first), step=short(step), related=[(step, "the scaler unscales here")])
