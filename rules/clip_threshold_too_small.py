"""GL105 clip-threshold-too-small."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Clip, ClipKind
from gradlint.machine.state import GradientState
from gradlint.model import Category, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class ClipThresholdTooSmall(Rule):
    """The clipping threshold is so small that every step is clipped."""

    meta = RuleMeta("GL105", Category.CLIPPING, Severity.WARNING)
    message = "`{clip}` limits the norm to {threshold:g}: nearly every step is clipped, training becomes very slow"
    options = {"threshold": 0.05}

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        limit = float(self.settings["threshold"])
        if clip.kind is ClipKind.NORM and clip.threshold is not None and 0 < clip.threshold < limit:
            yield self.finding(clip, clip=short(clip), threshold=clip.threshold)
