"""GL209 scaler-with-bfloat16."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.frontend import syntax as s
from gradlint.frontend.program import Program
from gradlint.model import Category, Severity
from gradlint.rule import Draft, Rule, RuleMeta


class ScalerWithBfloat16(Rule):
    """A gradient scaler is used though autocast computes in bfloat16."""

    meta = RuleMeta("GL209", Category.MIXED_PRECISION, Severity.ADVICE)
    message = "`{scaler}` scales losses that autocast computes in bfloat16: its range is that of float32, no scaler is needed"

    def on_program(self, program: Program) -> Iterator[Draft]:
        dtypes = [_dtype(call) for call in program.calls() if program.dotted(call.func).endswith("autocast")]
        if not dtypes or any(d != "bfloat16" for d in dtypes):
            return
        for call in program.calls():
            name = program.dotted(call.func).rpartition(".")[2]
            if name in ("GradScaler", "ShardedGradScaler") and "enabled" not in call.kwargs:
                yield self.finding(program.site(call), scaler=s.render(call))


def _dtype(call: s.Call) -> str:
    """The dtype as it stands in the call; anything that is computed is unknown."""
    value = call.kwargs.get("dtype") or (call.args[1] if len(call.args) > 1 else None)
    return s.render(value).rpartition(".")[2] if isinstance(value, s.Attr) else ""
