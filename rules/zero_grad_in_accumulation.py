"""GL402 zero-grad-in-accumulation."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Manager, Step, Zero
from gradlint.machine.state import GradientState
from gradlint.machine.trace import same_loss
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
        for lost, zero in state.lost:
            if any(same_loss(lost, b) for b in state.pending) and any(state.window.after(zero, Backward)):
                again = next(state.window.after(zero, Backward))
                if _between_micro_batches(lost, zero, again):
                    yield self.finding(
                        zero, zero=short(zero), n=f"`{state.window.size_text}`",
                        related=[(lost, "these gradients are thrown away"), (step, "used only here")],
                    )  # fmt: skip
                    return


def _between_micro_batches(lost: Backward, zero: Zero, again: Backward) -> bool:
    """The zeroing stands in the very loop whose turns are the micro-batches, not round it."""
    turns = {f.loop: f.turn for f in again.frames}
    going = {f.loop for f in lost.frames if turns.get(f.loop, f.turn) != f.turn}
    innermost = lost.frames[-1].loop if lost.frames else None
    return innermost in going and any(f.loop == innermost for f in zero.frames)
