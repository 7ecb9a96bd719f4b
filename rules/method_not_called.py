"""GL405 method-not-called."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.frontend import syntax as s
from gradlint.frontend.knowledge import naming
from gradlint.frontend.program import Program
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta


class MethodNotCalled(Rule):
    """A method of the training loop is named but not called."""

    meta = RuleMeta("GL405", Category.LOOP, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{method}` is not called: the parentheses are missing, so nothing happens"

    def on_program(self, program: Program) -> Iterator[Draft]:
        for stmt in program.statements():
            if isinstance(stmt, s.ExprStmt) and isinstance(stmt.value, s.Attr) and _is_training(stmt.value, program):
                yield self.finding(program.site(stmt.value), method=s.render(stmt.value))


def _is_training(attr: s.Attr, program: Program) -> bool:
    base = naming.last(s.render(attr.base))
    match attr.name:
        case "zero_grad" | "backward" | "unscale_":
            return True
        case "step":
            return bool(naming.OPTIMIZER.search(base) or naming.SCHEDULER.search(base)) or s.render(attr.base) in program.zeroed
        case "update":
            return bool(naming.SCALER.search(base))
        case _:
            return False
