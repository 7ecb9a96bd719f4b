"""GL106 clip-exhausted-generator."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Clip
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class ClipExhaustedGenerator(Rule):
    """A generator of parameters is used twice; the clip sees none."""

    meta = RuleMeta("GL106", Category.CLIPPING, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{clip}` is given a generator that is used up already: nothing is clipped"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if clip.exhausted_by is not None:
            yield self.finding(clip, clip=short(clip), related=[(clip.exhausted_by, "the generator is used up here")])
