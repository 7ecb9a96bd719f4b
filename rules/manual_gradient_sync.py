"""GL504 manual-gradient-sync."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Edit, EditKind, Sync, Wrap
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class ManualGradientSync(Rule):
    """Gradients of a DDP model are all-reduced a second time by hand."""

    meta = RuleMeta("GL504", Category.DISTRIBUTED, Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{edit}` averages gradients that DDP has averaged already"

    def on_edit(self, edit: Edit, state: GradientState) -> Iterator[Draft]:
        if edit.kind is not EditKind.REDUCE or edit.wrap is not Wrap.DDP or not state.pending:
            return
        if all(b.sync is Sync.ON and b.wrap is Wrap.DDP for b in state.pending):
            yield self.finding(edit, edit=short(edit), related=[(state.pending[-1], "DDP reduces in this backward")])
