"""GL207 unscale-after-clip."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Clip, ClipApi, Unscale
from gradlint.machine.state import GradientState
from gradlint.machine.trace import same_turn
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class UnscaleAfterClip(Rule):
    """Gradients are unscaled, but only after the clip."""

    meta = RuleMeta("GL207", Category.MIXED_PRECISION, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{unscale}` comes after `{clip}`: scaled gradients are clipped, the true limit is max_norm / scale"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if state.scaled is None or clip.api in (ClipApi.MANAGED, ClipApi.APEX):
            return
        later = next(state.window.after(clip, Unscale), None)
        if later is not None and same_turn(clip, later):
            yield self.finding(clip, clip=short(clip), unscale=short(later), related=[(later, "unscaled only here")])
