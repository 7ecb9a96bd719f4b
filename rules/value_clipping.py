"""GL104 value-clipping."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Clip, ClipKind
from gradlint.frontend import syntax as s
from gradlint.frontend.program import Program
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class ValueClipping(Rule):
    """Gradients are clipped value by value, which changes their direction."""

    meta = RuleMeta("GL104", Category.CLIPPING, Severity.ADVICE, fix=FixSafety.UNSAFE)
    message = "`{clip}` clips each value on its own and so bends the gradient; clipping by norm keeps its direction"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if clip.kind is ClipKind.VALUE:
            yield self.finding(clip, clip=short(clip))

    def on_program(self, program: Program) -> Iterator[Draft]:
        """Lightning's and Fabric's arguments are configuration, not events."""
        for call in program.calls():
            value = call.kwargs.get("gradient_clip_algorithm")
            inside = isinstance(call.func, s.Attr) and call.func.name == "clip_gradients"
            if isinstance(value, s.Const) and value.value == "value" and not inside:
                yield self.finding(program.site(value, ""), clip='gradient_clip_algorithm="value"')
