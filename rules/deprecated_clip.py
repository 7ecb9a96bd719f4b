"""GL110 deprecated-clip."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.frontend.program import Program
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta


class DeprecatedClip(Rule):
    """The clip function without the underscore is deprecated."""

    meta = RuleMeta("GL110", Category.CLIPPING, Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{name}` is deprecated and will go: use `{name}_`"

    def on_program(self, program: Program) -> Iterator[Draft]:
        for call in program.calls():
            dotted = program.dotted(call.func)
            home, _, name = dotted.rpartition(".")
            if name in ("clip_grad_norm", "clip_grad_value") and home.startswith("torch.nn.utils"):
                yield self.finding(program.site(call.func), name=name)
