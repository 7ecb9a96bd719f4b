"""GL503 no-sync-on-boundary."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Edit, EditKind, Manager, Opaque, Step, Sync
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class NoSyncOnBoundary(Rule):
    """no_sync is active on the very micro-batch that the step uses."""

    meta = RuleMeta("GL503", Category.DISTRIBUTED, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{backward}` does not synchronise on the micro-batch before `{step}`: the ranks drift apart"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if not state.pending or step.manager not in (Manager.NOBODY, Manager.FABRIC):
            return
        last = state.pending[-1]
        if last.forward_sync is not Sync.OFF or last.sync is not Sync.OFF:
            return
        if any(e.kind is EditKind.REDUCE for e in state.window.of(Edit)) or any(state.window.of(Opaque)):
            return  # reduced by hand instead
        related = [(last.no_sync, "no_sync is active here")] if last.no_sync else []
        yield self.finding(last, backward=short(last), step=short(step), related=[*related, (step, "the step uses local gradients")])
