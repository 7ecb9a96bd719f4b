"""GL101 clip-after-step."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Clip
from gradlint.machine.state import GradientState, Phase
from gradlint.machine.trace import same_turn
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class ClipAfterStep(Rule):
    """Gradients are clipped after the optimizer has used them."""

    meta = RuleMeta("GL101", Category.CLIPPING, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{clip}` runs after `{step}`: these gradients are already consumed, so nothing is clipped"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        step = state.last_step
        if step is None or state.pending or not state.has_backward or clip.exhausted_by is not None:
            return
        if not same_turn(clip, step):
            return  # a new turn has begun: the clip comes too early (GL102), not too late
        if state.phase is Phase.CONSUMED or state.phase is Phase.EMPTY:
            yield self.finding(
                clip, clip=short(clip), step=short(step), related=[(step, f"gradients consumed here by `{short(step)}`")]
            )
