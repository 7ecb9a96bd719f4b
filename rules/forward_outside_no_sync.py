"""GL502 forward-outside-no-sync."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Sync, Wrap
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta


class ForwardOutsideNoSync(Rule):
    """Only the backward is inside no_sync, the forward is not."""

    meta = RuleMeta("GL502", Category.DISTRIBUTED, Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{forward}` runs outside no_sync: DDP decides there, so every backward still synchronises"

    def on_backward(self, backward: Backward, state: GradientState) -> Iterator[Draft]:
        if backward.wrap in (Wrap.FSDP, Wrap.FSDP2) or backward.forward is None:
            return  # FSDP reads its flag in the backward
        if backward.no_sync is not None and backward.sync is Sync.OFF and backward.forward_sync is Sync.ON:
            yield self.finding(backward.forward, forward=backward.forward.text, related=[(backward.no_sync, "no_sync begins only here")])
