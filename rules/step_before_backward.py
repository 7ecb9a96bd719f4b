"""GL404 step-before-backward."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Manager, Step
from gradlint.machine.state import GradientState, Phase
from gradlint.machine.trace import same_turn, share_loop
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class StepBeforeBackward(Rule):
    """The optimizer steps before any backward has made gradients."""

    meta = RuleMeta("GL404", Category.LOOP, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{step}` runs before `{backward}`: there are no gradients, the step does nothing"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if state.pending or state.phase is not Phase.EMPTY or state.last_zero is None or not step.frames:
            return
        if any(same_turn(lost, step) for lost, _ in state.lost) or step.manager is Manager.DEEPSPEED:
            return  # cleared too early: GL403
        index = state.window.number + 1
        following = state.life.windows[index] if index < len(state.life.windows) else None
        backward = next(following.of(Backward), None) if following else None
        if backward is not None and same_turn(step, backward) and share_loop(step, backward):
            yield self.finding(
                step, step=short(step), backward=short(backward), related=[(backward, "gradients are made only here")]
            )
