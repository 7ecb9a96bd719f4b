"""GL304 dropped-last-window."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Clip, Mark, Opaque, Step, Unscale
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class DroppedLastWindow(Rule):
    """The last, shorter accumulation window of an epoch is never stepped."""

    meta = RuleMeta("GL304", Category.ACCUMULATION, Severity.ADVICE, fix=FixSafety.UNSAFE)
    message = "`{step}` never uses the last, shorter window of the loader: its gradients {fate}"

    def on_mark(self, mark: Mark, state: GradientState) -> Iterator[Draft]:
        if not mark.over or not mark.loader or not state.pending:
            return
        steps = [w.step for w in state.life.windows if w.step and w.accumulates and w.step.index < mark.index]
        step = next((x for x in steps if x.modulo and any(f.loop == mark.loop for f in x.frames)), None)
        if step is None or not any(f.loop == mark.loop for f in state.pending[-1].frames):
            return
        following = next((e for e in state.window.events if e.index > mark.index and not isinstance(e, Mark)), None)
        if isinstance(following, Step | Clip | Unscale | Opaque):
            return  # the rest is stepped behind the loop
        fate = "leak into the next epoch" if isinstance(following, Backward) else "are thrown away"
        yield self.finding(step, step=short(step), fate=fate)
