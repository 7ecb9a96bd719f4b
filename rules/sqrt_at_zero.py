"""GL603 sqrt-at-zero."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.rule import Draft, FixSafety, Kind, Low, Operation, Repair, Rule, RuleMeta, Severity


class SqrtAtZero(Rule):
    """A square root whose argument can be zero under backward.

    ## What it does
    Finds a square root (`sqrt`, `** 0.5`) on the way to a loss whose argument is 0 for inputs that do occur: a square,
    a sum of squared differences, an absolute value, something clamped at 0. What is 0 only at a perfect fit, when all
    values agree or for a vector of zeros (a mean squared error, a variance, a sum of squares) is advice.

    ## Why is this bad?
    The slope of the square root at 0 is infinite. The chain rule multiplies it by the slope of what is inside, which
    for a square is 0 at the same place, and infinite times 0 is NaN. The loss looks fine (it is 0 there), and after
    the step all weights are NaN. It happens with two equal embeddings, a padded row, a perfect fit.

    A clamp at 0 does not help: `sqrt(clamp(x ** 2, min=0))` has the same NaN. Neither does an eps behind the root,
    `sqrt(s) + eps`, nor a `where` or a mask behind it. What helps:

    - `x.abs()` instead of `sqrt(x ** 2)`: the same value, and gradient 0 at 0.
    - An eps *inside* the root, `sqrt(mse + eps)`. It must fit the dtype: 1e-8 is 0 in float16. The slope at 0 is then
      `0.5 / sqrt(eps)`, 500 for 1e-6.
    - `torch.linalg.vector_norm(x, dim=-1)` or `x.norm(dim=-1)` instead of `sqrt((x ** 2).sum(-1))`, and `x.std()`
      instead of `sqrt(x.var())`: torch defines their gradient as 0 at 0.

    ## Example
    ```python
    import torch

    def distance_loss(a, b):
        return torch.sqrt((a - b) ** 2).mean()
    ```

    ## Use instead
    ```python
    import torch

    def distance_loss(a, b):
        return (a - b).abs().mean()
    ```

    ## Fix safety
    The fix makes `x.abs()` of the root of a square. It is safe: the value is the same (and stays right where the square
    overflows), and so is the gradient wherever there was one. Other roots get no fix: how large an eps is harmless
    depends on the size of the numbers.

    ## Known limits
    Only sums of non-negative parts are seen to reach 0, not `1 - x ** 2` or a determinant. Inside a model, norms of
    activations, and of what two of its layers differ by, are left alone: they are not 0 in practice. Any `+ eps`,
    `clamp` above 0, `where` or `masked_fill` inside the root counts as a guard. Roots of data, schedules and buffers
    have no gradient.

    ## References
    - [torch.sqrt](https://pytorch.org/docs/stable/generated/torch.sqrt.html)
    - [torch.linalg.vector_norm](https://pytorch.org/docs/stable/generated/torch.linalg.vector_norm.html)
    - [Gradients for non-differentiable functions](https://pytorch.org/docs/stable/notes/autograd.html#gradients-for-non-differentiable-functions)
    """

    meta = RuleMeta("GL603", Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{operand}` is {what} and can be 0, where the gradient of its root is {gradient}; {instead}"

    operations = frozenset({Kind.ROOT})

    def on_operation(self, operation: Operation) -> Iterator[Draft]:
        fact = operation.fact
        if not operation.exposed or fact.low is not Low.ZERO or not fact.zero:
            return
        if fact.prob is not None or fact.zero == "a ReLU":
            return  # the derivative of a sigmoid goes to 0 with it
        if not operation.near and fact.zero in _RARELY_ZERO:
            return  # the norm of activations, somewhere in a model
        at, operand, tensor = operation.site, operation.operand_site, fact.grad is True
        yield self.finding(
            at, operand=operation.operand_shown(), what=_what(operation), gradient=_gradient(fact.zero),
            instead=_instead(operation), severity=Severity.ADVICE if fact.zero in _RARELY_ZERO else None,
            # other roots get no fix: which eps is harmless depends on the size of the numbers
            repairs=[Repair(_ABSOLUTE, lambda bench: bench.root_to_absolute(at, operand, tensor=tensor))]
            if fact.zero in _SQUARES else [],
        )  # fmt: skip


def _what(operation: Operation) -> str:
    """A square that was summed with another, indexed or clamped is made of squares."""
    fact = operation.fact
    return "made of squares" if fact.zero in _SQUARES and fact.square is None else fact.zero


def _gradient(zero: str) -> str:
    return "infinite" if zero == "clamped at 0" else "NaN"


def _instead(operation: Operation) -> str:
    if operation.absolute:
        return f"use `{operation.absolute}`"
    return _REMEDIES.get(operation.fact.zero, "add an eps inside the root")


_ABSOLUTE = "Take the absolute value"
_SQUARES = frozenset({"a square", "a squared difference"})
#: zero only where the fit is perfect, all values agree, or a whole vector is zero
_RARELY_ZERO = frozenset({"a mean squared error", "a variance", "a sum of squares", "a norm"})
_NORM = "add an eps inside the root, or use `torch.linalg.vector_norm`"
_REMEDIES = {
    "a sum of squares": _NORM, "a sum of squared differences": _NORM,
    "a variance": "add an eps inside the root, or use `.std()`",
}  # fmt: skip
