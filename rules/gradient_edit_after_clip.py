"""GL111 gradient-edit-after-clip."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Edit, EditKind
from gradlint.frontend.program import Program
from gradlint.machine.state import GradientState
from gradlint.machine.trace import same_turn
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class GradientEditAfterClip(Rule):
    """Gradients are changed between the clip and the step."""

    meta = RuleMeta("GL111", Category.CLIPPING, Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{edit}` changes gradients after `{clip}`: the step may use a norm above the limit"

    def on_edit(self, edit: Edit, state: GradientState) -> Iterator[Draft]:
        clip = state.clip
        if clip is None or edit.kind in (EditKind.CLAMP, EditKind.DIVIDE) or self._private:
            return
        if state.window.step is not None and same_turn(edit, clip):
            yield self.finding(edit, edit=short(edit), clip=short(clip), related=[(clip, "clipped here")])

    def on_program(self, program: Program) -> Iterator[Draft]:
        """Differentially private training clips first and adds noise then, on purpose."""
        self._private = any(w in name.lower() for name in program.all_words.seen for w in ("privacy", "noise_mult", "dp_"))
        yield from ()

    _private = False
