"""GL604 exp-of-logits."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.frontend import syntax as s
from gradlint.frontend.cited import cited
from gradlint.frontend.names.written import last
from gradlint.frontend.numerics.operations import Kind, Operation
from gradlint.frontend.program import Program
from gradlint.knowledge import tensor_api as api
from gradlint.model import Category, FixSafety, Severity
from gradlint.remedy.numerics import fuse
from gradlint.rule import Draft, Rule, RuleMeta


class ExpOfLogits(Rule):
    """The exponential of numbers without a limit.

    ## What it does
    Finds, on the way to a loss, `log(sum(exp(x)))`, `log(1 + exp(x))` and a softmax written by hand,
    `exp(x) / exp(x).sum()`, and `exp()` of what is called logits, where nothing keeps x small.

    ## Why is this bad?
    float32 ends at 3.4e38, so `exp(x)` is inf for every x above 88.7 (in float16 above 11). The logarithm behind it
    comes too late: `log(exp([100, 0]).sum())` is inf with a NaN gradient, where the right answer is just 100. A softmax
    by hand gives inf / inf, which is NaN. Very negative numbers do the same from below: `log(exp([-200, -201]).sum())`
    is -inf. One such batch and every weight is NaN.

    `logsumexp`, `softplus` and `softmax` subtract the maximum first, so that nothing overflows.

    ## Example
    ```python
    import torch

    def energy_loss(scores):
        return torch.log(torch.exp(scores).sum(dim=-1)).mean()
    ```

    ## Use instead
    ```python
    import torch

    def energy_loss(scores):
        return torch.logsumexp(scores, dim=-1).mean()
    ```

    ## Fix safety
    Safe: `log(sum(exp(x), d))` becomes `logsumexp(x, d)`, `log(1 + exp(x))` becomes `softplus(x)`, and
    `exp(x) / exp(x).sum(d, keepdim=True)` becomes `softmax(x, d)`. The values are the same up to rounding wherever
    the old code had one.

    No fix is offered where the sum has more in it (a mask, a constant, an eps, several exponentials), for a mean, for a
    softmax over all dimensions, or for an exponential that stands alone.

    ## Known limits
    What is shifted first (`x - x.max()`), clamped, a negative distance, bounded by tanh or by normalisation, a
    difference of log-probabilities (a ratio), or the logarithm of a scale that a model predicts (`logvar`, `log_std`)
    is meant to be exponentiated and not reported.

    ## References
    - [torch.logsumexp](https://pytorch.org/docs/stable/generated/torch.logsumexp.html)
    - [torch.nn.functional.softplus](https://pytorch.org/docs/stable/generated/torch.nn.functional.softplus.html)
    - [torch.softmax](https://pytorch.org/docs/stable/generated/torch.softmax.html)
    """

    meta = RuleMeta("GL604", Category.NUMERICS, Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{exp}` is inf for numbers above 88.7 (in float16 above 11): {instead}"

    def on_operation(self, operation: Operation, program: Program) -> Iterator[Draft]:
        match operation.kind:
            case Kind.LOG | Kind.LOG1P:
                yield from self._logged(operation, program)
            case Kind.DIVIDE:
                yield from self._softmax_by_hand(operation, program)
            case Kind.EXP if api.LOGITS.search(last(operation.operand)) and _unbounded(operation):
                # no fix: what is meant by it, and how large it may become, only the author knows
                yield self.finding(program.site(operation.node), exp=cited(operation.node), instead="bound it")
            case _:
                pass

    def _logged(self, log: Operation, program: Program) -> Iterator[Draft]:
        instead = "F.softplus" if _is_softplus(log) else "torch.logsumexp"
        for exp in log.fact.exps:
            if _unbounded(exp):
                yield self._at(exp, program, instead, log, "its logarithm is taken here, too late")

    def _softmax_by_hand(self, division: Operation, program: Program) -> Iterator[Draft]:
        if division.other is None:
            return
        above = {s.render(exp.operand) for exp in division.other.exps}
        for exp in division.fact.exps:
            if s.render(exp.operand) in above and _unbounded(exp):
                yield self._at(exp, program, "torch.softmax", division, "inf / inf is NaN here")

    def _at(self, exp: Operation, program: Program, instead: str, user: Operation, story: str) -> Draft:
        # where it is not exactly that function (a mask, a mean, an eps), the fixer refuses
        return self.finding(
            program.site(exp.node), exp=cited(exp.node), instead=f"use `{instead}`",
            related=[(program.site(user.node), story)], fix=[fuse(user, f"Use `{instead}`", exp=exp)],
        )  # fmt: skip


def _is_softplus(log: Operation) -> bool:
    """The logarithm of 1 plus one exponential, not of a sum of them."""
    one_more = log.kind is Kind.LOG1P or (isinstance(log.operand, s.Bin) and log.operand.op == "+")
    return one_more and len(log.fact.exps) == 1 and "sum(" not in s.render(log.operand)


def _cooled(operand: s.Bin) -> bool:
    """`exp(similarity / temperature)`, as contrastive losses have it, of embeddings that were normalised elsewhere."""
    below = last(operand.right) if operand.op == "/" else ""
    return bool(api.TEMPERATURE.search(below)) and not api.SCORES.search(last(operand.left))


def _unbounded(exp: Operation) -> bool:
    """Not shifted, not a distance or a similarity, not the logarithm of a scale that a model predicts."""
    name = last(exp.operand)
    if any(isinstance(part, s.Name) and api.UNIT.search(part.id) for part in s.walk_expr(exp.operand)):
        return False
    if isinstance(exp.operand, s.Call) and last(exp.operand.func) == "lgamma":
        return False  # the gamma function is meant
    if isinstance(exp.operand, s.Bin) and _cooled(exp.operand):
        return False
    if (
        isinstance(exp.operand, s.Unary)
        and not exp.fact.difference
        and api.NEVER_BELOW_ZERO.search(s.render(exp.operand.value).partition("(")[0])
    ):
        return False
    return (
        not exp.fact.capped
        and exp.fact.grad is not False
        and (not api.LOG_SCALE.search(name) or bool(api.LOGITS.search(name)))
    )
