"""GL211 scaled-gradients-read."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Edit, EditKind, Read
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class ScaledGradientsRead(Rule):
    """Gradients are measured or changed while they are scaled."""

    meta = RuleMeta("GL211", Category.MIXED_PRECISION, Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{what}` works on gradients that are still multiplied by the scale"

    def on_read(self, read: Read, state: GradientState) -> Iterator[Draft]:
        yield from self._while_scaled(read, state)

    def on_edit(self, edit: Edit, state: GradientState) -> Iterator[Draft]:
        if edit.kind is EditKind.NOISE:  # a factor commutes with the scale, noise does not
            yield from self._while_scaled(edit, state)

    def _while_scaled(self, event: Read | Edit, state: GradientState) -> Iterator[Draft]:
        if state.scaled is not None:
            yield self.finding(event, what=short(event), related=[(state.scaled, "scaled gradients are made here")])
