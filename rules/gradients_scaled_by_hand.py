"""GL302 gradients-scaled-by-hand."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Edit, EditKind
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class GradientsScaledByHand(Rule):
    """Gradients are divided by hand instead of the loss."""

    meta = RuleMeta("GL302", Category.ACCUMULATION, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{edit}` divides gradients on every micro-batch: earlier ones are divided again and again"

    def on_edit(self, edit: Edit, state: GradientState) -> Iterator[Draft]:
        step = state.window.step
        if edit.kind is not EditKind.DIVIDE or step is None or not state.pending:
            return
        sites = {b.site for b in state.pending}
        again = next((b for b in state.window.after(edit, Backward) if b.site in sites), None)
        if again is not None and (step.window or state.window.micro_loop):
            yield self.finding(edit, edit=short(edit), related=[(again, "the next micro-batch is added here")])
        elif again is None and state.window.accumulates and step.modulo and edit.by == step.window:
            yield self.finding(
                edit, message="`{edit}` divides gradients by hand: dividing the loss by `{n}` does the same for free",
                severity=Severity.ADVICE, edit=short(edit), n=step.window,
            )  # fmt: skip
