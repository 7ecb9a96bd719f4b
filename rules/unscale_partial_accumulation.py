"""GL205 unscale-partial-accumulation."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Unscale
from gradlint.machine.state import GradientState
from gradlint.machine.trace import same_turn
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class UnscalePartialAccumulation(Rule):
    """Gradients are unscaled on every micro-batch of a window."""

    meta = RuleMeta("GL205", Category.MIXED_PRECISION, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{unscale}` runs on every micro-batch, but `{step}` only once per {n}: the second one raises"

    def on_unscale(self, unscale: Unscale, state: GradientState) -> Iterator[Draft]:
        step = state.window.step
        if step is None or not state.pending:
            return
        sites = {b.site for b in state.pending}
        again = next((b for b in state.window.after(unscale, Backward) if b.site in sites), None)
        if again is None or same_turn(again, unscale):
            return
        if step.window or state.window.micro_loop:
            yield self.finding(
                unscale, unscale=short(unscale), step=short(step), n=f"`{state.window.size_text}`",
                related=[(again, "scaled gradients are added to unscaled ones here"), (step, "used only here")],
            )  # fmt: skip
