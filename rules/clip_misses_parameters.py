"""GL107 clip-misses-parameters."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Clip, Step
from gradlint.machine.state import GradientState
from gradlint.model import Category, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class ClipMissesParameters(Rule):
    """The clipped parameters are not those that the optimizer updates."""

    meta = RuleMeta("GL107", Category.CLIPPING, Severity.WARNING, default=False)
    message = "`{clip}` clips `{target}`, but `{step}` updates other parameters: those are never clipped"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        mine = state.optimizer.params
        if not mine.known or not state.pending or any(state.window.of(Clip)):
            return
        for event in reversed(state.path.events[: step.index]):
            if isinstance(event, Step):
                return
            if isinstance(event, Clip) and event.params.known and not event.params.may_meet(mine):
                others = [r for r in state.path.optimizers.values() if r.id != step.optimizer]
                if not any(event.params.may_meet(r.params) for r in others):
                    yield self.finding(
                        event, clip=short(event), target=event.target, step=short(step), related=[(step, "updated here")]
                    )
                return
