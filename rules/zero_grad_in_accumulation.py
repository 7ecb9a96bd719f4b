"""GL402 zero-grad-in-accumulation."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Manager, Step
from gradlint.machine.state import GradientState
from gradlint.machine.trace import share_loop
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class ZeroGradInAccumulation(Rule):
    """Gradients are cleared on every micro-batch of an accumulation window."""

    meta = RuleMeta("GL402", Category.LOOP, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{zero}` runs inside the accumulation window: of {n} micro-batches only the last one counts"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if not state.lost or not state.pending:
            return
        if not (step.window or state.window.micro_loop or step.manager is Manager.ACCELERATE):
            return
        sites = {b.site for b in state.pending}
        for lost, zero in state.lost:
            if lost.site in sites and any(state.window.after(zero, Backward)):
                again = next(state.window.after(zero, Backward))
                if again.frames != lost.frames and share_loop(zero, again):
                    yield self.finding(
                        zero, zero=short(zero), n=f"`{state.window.size_text}`",
                        related=[(lost, "these gradients are thrown away"), (step, "used only here")],
                    )  # fmt: skip
                    return
