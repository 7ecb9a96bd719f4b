"""GL301 unscaled-accumulation-loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gradlint.events import Backward, Edit, EditKind, Manager, Norm, Site, Step
from gradlint.frontend.knowledge.torch_api import SCALE_FREE
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class UnscaledAccumulationLoss(Rule):
    """Micro-batch losses are added up without dividing by their number."""

    meta = RuleMeta("GL301", Category.ACCUMULATION, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{backward}` adds up {n} micro-batches, but `{loss}` is {what}: {impact}"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        window = state.window
        if not window.closes or step.manager in (Manager.DEEPSPEED, Manager.DIST_AUTOGRAD):
            return
        if any(e.kind in (EditKind.DIVIDE, EditKind.SCALE, EditKind.OTHER) for e in window.of(Edit)):
            return  # the gradients are normalised instead
        n = window.size_text
        seen: set[Site] = set()
        counts = Counter(b.site for b in state.pending)
        for backward in state.pending:
            if backward.site in seen or counts[backward.site] < 2 or self._handled(backward):
                continue
            seen.add(backward.site)
            what = "never divided" if backward.norm is Norm.RAW else f"divided by the running `{backward.divisor}`"
            yield self.finding(
                backward, backward=short(backward), n=f"`{n}`", loss=backward.loss, what=what,
                impact=_impact(state.optimizer.kind, n), related=[(step, f"the window of `{n}` ends here")],
            )  # fmt: skip

    @staticmethod
    def _handled(backward: Backward) -> bool:
        if backward.managed_division or backward.manager in (Manager.DEEPSPEED, Manager.DIST_AUTOGRAD):
            return True
        return backward.norm not in (Norm.RAW, Norm.DIVIDED_BY_COUNTER)


def _impact(kind: str, n: str) -> str:
    """Adam's update hardly depends on the scale of the gradient; what does is clipping."""
    if SCALE_FREE.search(kind):
        return f"gradients are {n} times too large, which any clipping then sees"
    if kind:
        return f"gradients, and so the learning rate, are {n} times too large"
    return f"gradients are {n} times too large"
