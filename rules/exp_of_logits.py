"""GL604 exp-of-logits."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.knowledge import tensor_api as api
from gradlint.rule import Draft, FixSafety, Kind, Operation, Repair, Rule, RuleMeta, Severity


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

    meta = RuleMeta("GL604", Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{exp}` is inf for numbers above 88.7 (in float16 above 11): {instead}"

    operations = frozenset({Kind.LOG, Kind.LOG1P, Kind.DIVIDE, Kind.EXP})
    needs = (Kind.EXP,)

    def on_operation(self, operation: Operation) -> Iterator[Draft]:
        match operation.kind:
            case Kind.LOG | Kind.LOG1P:
                yield from self._logged(operation)
            case Kind.DIVIDE:
                yield from self._softmax_by_hand(operation)
            case Kind.EXP if api.LOGITS.search(operation.plain_name) and operation.unbounded:
                # no fix: what is meant by it, and how large it may become, only the author knows
                yield self.finding(operation.site, exp=operation.shown(), instead="bound it")
            case _:
                pass

    def _logged(self, log: Operation) -> Iterator[Draft]:
        instead = "F.softplus" if log.softplus else "torch.logsumexp"
        for exp in log.fact.exps:
            if exp.unbounded:
                yield self._at(exp, instead, log, "its logarithm is taken here, too late")

    def _softmax_by_hand(self, division: Operation) -> Iterator[Draft]:
        if division.other is None:
            return
        for exp in division.fact.exps:
            if exp.unbounded and any(_is_of_the_same(division, exp, below) for below in division.other.exps):
                yield self._at(exp, "torch.softmax", division, "inf / inf is NaN here")

    def _at(self, exp: Operation, instead: str, user: Operation, story: str) -> Draft:
        # where it is not exactly that function (a mask, a mean, an eps), the fixer refuses
        return self.finding(
            exp.site, exp=exp.shown(), instead=f"use `{instead}`",
            related=[(user.site, story)],
            repairs=[Repair(f"Use `{instead}`", lambda bench: bench.fuse(user, exp))],
        )  # fmt: skip


def _is_of_the_same(division: Operation, exp: Operation, other: Operation) -> bool:
    """The exponentials of one thing; what a helper takes of two models at one place are two."""
    return exp.shares_function(division) if exp.site == other.site else exp.operand_text == other.operand_text
