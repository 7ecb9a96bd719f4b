"""GL102 clip-before-backward."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Clip, Opaque
from gradlint.machine.state import GradientState, Phase
from gradlint.machine.trace import same_turn
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class ClipBeforeBackward(Rule):
    """Gradients are clipped before any backward has made them."""

    meta = RuleMeta("GL102", Category.CLIPPING, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{clip}` runs before `{backward}`: there are no gradients to clip yet, so nothing is clipped"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if clip.before_managed_backward:
            yield self.finding(clip, clip=short(clip), backward="Lightning's backward")
            return
        if state.pending or clip.exhausted_by is not None:
            return
        backward = next(state.window.after(clip, Backward), None)
        if backward is None or any(state.window.between(clip, backward, Opaque)):
            return
        if state.last_step is not None and same_turn(clip, state.last_step):
            return  # behind the step of its own turn: GL101
        at_setup = len(clip.frames) < len(backward.frames)
        if at_setup and (any(state.window.after(backward, Clip)) or len(state.life.windows) < 2):
            return
        if state.phase in (Phase.EMPTY, Phase.CONSUMED) or (at_setup and not state.pending):
            if at_setup or same_turn(clip, backward):
                yield self.finding(
                    clip, clip=short(clip), backward=short(backward), related=[(backward, "the gradients are made here")]
                )
