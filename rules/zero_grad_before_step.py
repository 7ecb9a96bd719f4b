"""GL403 zero-grad-before-step."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.events import Step
from gradlint.machine.state import GradientState, Phase
from gradlint.machine.trace import same_turn, share_loop
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class ZeroGradBeforeStep(Rule):
    """Gradients are cleared between the backward and the step."""

    meta = RuleMeta("GL403", Category.LOOP, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{zero}` clears the gradients of `{backward}` before `{step}` can use them: the step does nothing"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if not state.lost or state.pending or state.phase is not Phase.EMPTY:
            return
        lost, zero = state.lost[-1]
        if not same_turn(lost, step) or not same_turn(zero, step) or not share_loop(lost, zero):
            return  # thrown away in an earlier turn: this step comes too early (GL404)
        if _WARM_UP.search(state.path.entry):
            return  # one step without gradients makes the optimizer's buffers
        if step.frames or state.path.whole:
            yield self.finding(
                zero, zero=short(zero), backward=short(lost), step=short(step),
                related=[(lost, "gradients are made here"), (step, "and missed here")],
            )  # fmt: skip


_WARM_UP = re.compile(r"(?i)warm_?up|init|dummy|setup|materiali[sz]e")
