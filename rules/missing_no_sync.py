"""GL501 missing-no-sync."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Manager, Step, Sync, Wrap
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class MissingNoSync(Rule):
    """A distributed model synchronises on every micro-batch of a window."""

    meta = RuleMeta("GL501", Category.DISTRIBUTED, Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{backward}` synchronises gradients on every micro-batch: {n} all-reduces per `{step}` where one would do"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if not state.window.closes or step.manager is not Manager.NOBODY:
            return
        for backward in state.pending[:-1]:
            if backward.wrap is Wrap.NONE or backward.sync is not Sync.ON or backward.forward_sync is not Sync.ON:
                continue
            if sum(b.site == backward.site for b in state.pending) > 1:
                yield self.finding(
                    backward, backward=short(backward), n=f"`{state.window.size_text}`", step=short(step),
                    related=[(step, f"the window of `{state.window.size_text}` ends here")],
                )  # fmt: skip
                return
