"""GL112 norm-measured-after-clip."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import ClipKind, Read
from gradlint.machine.state import GradientState
from gradlint.machine.trace import same_turn
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class NormMeasuredAfterClip(Rule):
    """Gradient norms are logged after the clip, where they say little."""

    meta = RuleMeta("GL112", Category.CLIPPING, Severity.ADVICE, fix=FixSafety.SAFE)
    message = "`{read}` looks at gradients after `{clip}`: it shows the threshold, not the gradients"

    def on_read(self, read: Read, state: GradientState) -> Iterator[Draft]:
        clip = state.clip
        if clip is not None and clip.kind is ClipKind.NORM and state.pending and same_turn(read, clip):
            yield self.finding(read, read=short(read), clip=short(clip), related=[(clip, "clipped here")])
