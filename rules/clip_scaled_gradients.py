"""GL201 clip-scaled-gradients."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Clip, ClipApi, Opaque, Step, Unscale
from gradlint.machine.state import GradientState
from gradlint.machine.trace import same_turn
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class ClipScaledGradients(Rule):
    """AMP-scaled gradients are clipped."""

    meta = RuleMeta("GL201", Category.MIXED_PRECISION, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{clip}` clips gradients that are still multiplied by the scale: the true limit is max_norm / scale"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if state.scaled is None or clip.api in (ClipApi.MANAGED, ClipApi.APEX) or clip.exhausted_by is not None:
            return
        later = next(state.window.after(clip, Unscale), None)
        if later is not None and same_turn(clip, later):
            return  # the unscale_ comes too late: GL207
        yield self.finding(clip, clip=short(clip), related=[(state.scaled, "scaled gradients are made here")])

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        """The backward is in another file, but scaler.step says that its gradients are scaled."""
        if step.scaler is None or state.has_backward or state.path.file_unscales:
            return
        if any(state.window.of(Unscale)) or any(state.window.of(Opaque)):
            return
        for clip in state.window.of(Clip):
            if clip.api in (ClipApi.TORCH, ClipApi.MODEL) and same_turn(clip, step):
                yield self.finding(clip, clip=short(clip), related=[(step, "stepped through the scaler here")])
