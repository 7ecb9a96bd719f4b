"""GL208 backward-under-autocast."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Manager
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class BackwardUnderAutocast(Rule):
    """The backward runs inside the autocast block."""

    meta = RuleMeta("GL208", Category.MIXED_PRECISION, Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{backward}` runs inside autocast: PyTorch asks for the backward outside; only the forward belongs in it"

    def on_backward(self, backward: Backward, state: GradientState) -> Iterator[Draft]:
        if backward.autocast is not None and backward.manager in (Manager.NOBODY, Manager.FABRIC):
            yield self.finding(backward, backward=short(backward), related=[(backward.autocast, "autocast begins here")])
