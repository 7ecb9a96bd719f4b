"""GL103 clip-partial-accumulation."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Clip, Manager, Zero
from gradlint.machine.state import GradientState
from gradlint.machine.trace import same_turn
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class ClipPartialAccumulation(Rule):
    """Gradients are clipped on every micro-batch of an accumulation window."""

    meta = RuleMeta("GL103", Category.CLIPPING, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{clip}` runs on every micro-batch, but `{step}` only once per {n}: partial sums are clipped again and again"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        step = state.window.step
        if step is None or step.manager is Manager.DEEPSPEED or not state.pending:
            return
        sites = {b.site for b in state.pending}
        again = next((b for b in state.window.after(clip, Backward) if b.site in sites), None)
        if again is None or any(state.window.between(clip, again, Zero)) or same_turn(clip, again):
            return
        if step.window or state.window.micro_loop or step.manager is Manager.ACCELERATE:
            yield self.finding(
                clip, clip=short(clip), step=short(step), n=f"`{state.window.size_text}`",
                related=[(again, "the next micro-batch adds to what was clipped"), (step, "used only here")],
            )  # fmt: skip
