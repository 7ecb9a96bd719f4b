"""GL401 missing-zero-grad."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Manager, Norm, Step
from gradlint.frontend.program import Program
from gradlint.machine.state import GradientState
from gradlint.machine.trace import share_loop
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class MissingZeroGrad(Rule):
    """Gradients are used again and again without being cleared."""

    meta = RuleMeta("GL401", Category.LOOP, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{backward}` adds to gradients that `{step}` has used already: nothing clears them in between"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        stale = state.stale
        if stale is None or not state.pending or step.manager in (Manager.DEEPSPEED, Manager.DIST_AUTOGRAD, Manager.APEX, Manager.HELPER):
            return
        if self._hooks or not share_loop(stale, step) or not step.frames:
            return
        first = state.pending[0]
        if not state.path.whole and len(step.frames) == 1 and not _own_turn(first, step, state):
            return
        yield self.finding(
            first, backward=short(first), step=short(stale), related=[(stale, "gradients consumed here, and kept")]
        )

    def on_program(self, program: Program) -> Iterator[Draft]:
        """Optimizers that step inside backward hooks clear there as well."""
        hooks = {"register_post_accumulate_grad_hook", "dist_autograd", "_apply_optimizer_in_backward", "fused_backward_pass"}
        self._hooks = bool(program.all_words.seen & hooks)
        yield from ()

    _hooks = False


def _own_turn(first: Backward, step: Step, state: GradientState) -> bool:
    """A function that is called for each batch from elsewhere: it must do everything itself, and nothing clears."""
    return not state.path.file_zeroes and first.norm is not Norm.UNKNOWN and step.scaler is None
