"""GL601 log-of-unbounded."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.knowledge import tensor_api as api
from gradlint.rule import Draft, FixSafety, Kind, Operation, Prob, Repair, Rule, RuleMeta, Severity


class LogOfUnbounded(Rule):
    """The logarithm of a prediction that may be zero.

    ## What it does
    Finds a logarithm on the way to a loss whose operand can be 0: the output of a softmax or a sigmoid (picked,
    summed, weighted, or taken from 1), of a ReLU or of a `clamp(min=0)`, or a prediction that nothing keeps above 0.

    ## Why is this bad?
    Probabilities reach 0 by rounding. In float32 the softmax of a class is 0 once its logit is 104 below the largest,
    and `1 - sigmoid(x)` once `x` is above 17; in float16 that is 18 and 9. The logarithm is -inf there, its
    gradient infinite, and infinite times the zero slope of the softmax is NaN. One such value makes the mean, and with
    it every weight of the model, NaN.

    Best is to take no logarithm of a probability at all: `log_softmax(logits, -1)` (then `gather`), `logsigmoid(x)`,
    `logsigmoid(-x)` for `log(1 - sigmoid(x))`, and the `…_with_logits` losses never leave the safe range, and keep a
    gradient for the worst predictions. Where only the probability is at hand, keep it above an eps that its dtype can
    hold:

    - 1e-8 is none under autocast: a sigmoid stays in float16 there, whose smallest number is 6e-8, so `p + 1e-8` and
      `p.clamp_min(1e-8)` are 0 where `p` is.
    - In float32, 1e-8 vanishes beside 1.0: in `p.clamp(1e-8, 1 - 1e-8)` the upper bound is 1.0, and `log(1 - p)` is
      -inf as before. Clamp what is logged, `(1 - p).clamp_min(1e-6)`.
    - The slope of the logarithm at eps is 1 / eps, and must fit, too: float16 ends at 65504, so 1e-4 is about the
      smallest eps there.

    ## Example
    ```python
    import torch

    def likelihood_loss(logits, y):
        picked = torch.softmax(logits, dim=-1).gather(1, y)
        return -torch.log(picked).mean()
    ```

    ## Use instead
    ```python
    import torch

    def likelihood_loss(logits, y):
        picked = torch.softmax(logits, dim=-1).gather(1, y)
        return -torch.log(picked.clamp_min(1e-6)).mean()
    ```

    ## Fix safety
    The fix puts `.clamp_min(1e-6)` on the operand; `1e-4` in a file that works with float16 (autocast, a `GradScaler`,
    `.half()`; bfloat16 has float32's range and gets 1e-6). It is unsafe because it chooses a number: below the eps
    the loss is constant, and the prediction gets no gradient any more. A logarithm taken in place is left alone.

    ## Known limits
    What cannot be followed is not flagged: arguments of a function that nobody in the file calls, unless their name
    says that they are predictions; models from elsewhere; values behind `where`, `masked_fill`, `nan_to_num` or an
    assignment to some of the entries. Any `+ eps` or `clamp` counts as a guard, also one that is too small for the
    dtype. `log(softmax(x))` and `log(sigmoid(x))` in one function are GL605, `log(sum(exp(x)))` is GL604.

    A policy gradient takes the logarithm of the probability of an action that was just drawn with it, which is above 0.
    This is advice, without a fix: `clamp_min` would take the gradient of rare actions. Actions that are replayed, or
    used once more after the weights have changed, can have a probability of 0 by then.

    ## References
    - [torch.nn.functional.log_softmax](https://pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html)
    - [Autocast: which operations run in which dtype](https://pytorch.org/docs/stable/amp.html#autocast-op-reference)
    - [torch.finfo](https://pytorch.org/docs/stable/type_info.html)
    """

    meta = RuleMeta("GL601", Severity.WARNING, fix=FixSafety.UNSAFE)
    message = "`{operand}` {why}: one such value makes the log, the loss and every gradient inf or NaN"
    drawn = (
        "`{operand}` is 0 only for an action that is never drawn, but small ones lose digits: use `log_softmax`, or "
        "`Categorical.log_prob` of the logits"
    )

    operations = frozenset({Kind.LOG})

    def on_operation(self, operation: Operation) -> Iterator[Draft]:
        if not operation.exposed or operation.fact.exps or operation.fused:
            return
        why = _reaches_zero(operation)
        if why and operation.sampled:
            if operation.fact.prob is None:
                return  # only its name says that it is a probability
            # no fix: clamp_min takes the gradient of rare actions, and the logits may be anywhere
            yield self.finding(
                operation.site, message=self.drawn, operand=operation.operand_shown(), severity=Severity.ADVICE
            )
        elif why:
            yield self.finding(
                operation.site, operand=operation.operand_shown(), why=why,
                related=[(operation.origin, "the probability is made here")],
                repairs=[Repair(_CLAMP, lambda bench: bench.clamp_operand(operation.site, operation.operand_site))],
            )  # fmt: skip


def _reaches_zero(operation: Operation) -> str:
    """What says that the operand is a prediction which can be zero, as the end of a sentence."""
    fact, name = operation.fact, operation.name
    if fact.prob is not None and fact.prob is not Prob.LOG:
        return _PROBABILITY[fact.prob]
    if fact.grad and fact.zero in _TOUCHES_ZERO and not operation.determinant:
        return f"{_TOUCHES_ZERO[fact.zero]} and can be 0"
    if api.NO_PREDICTION.search(name) or (fact.zero and fact.zero not in _TOUCHES_ZERO):
        return ""
    if fact.raw or api.PREDICTION.search(name):
        return "is a prediction that nothing keeps above 0"
    return ""


_CLAMP = "Keep it above 0 with `clamp_min`"
_PROBABILITY = {
    Prob.SOFTMAX: "comes out of a softmax, which gives 0 for unlikely classes",
    Prob.SIGMOID: "comes out of a sigmoid, which can round to 0",
    Prob.ONE_MINUS_SIGMOID: "is 0 where the sigmoid rounds to 1, in float32 for logits above 17",
    Prob.PIECE: "is made of probabilities that can be 0",
}
_TOUCHES_ZERO = {
    "a ReLU": "comes out of a ReLU", "an absolute value": "is an absolute value", "clamped at 0": "is clamped at 0",
    "a square": "is a square",
}  # fmt: skip
