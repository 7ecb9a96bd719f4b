"""GL602 division-by-prediction."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.knowledge import tensor_api as api
from gradlint.rule import Draft, Kind, Operation, Prob, Rule, RuleMeta, Severity


class DivisionByPrediction(Rule):
    """A division by a prediction that may be zero.

    ## What it does
    Finds a division on the way to a loss by something that the model predicts and that can be 0: a probability, a norm,
    a sum of squares, a raw output.

    ## Why is this bad?
    `1 / x` grows without bound as `x` goes to 0, and its gradient, `-1 / x ** 2`, even faster: 1e-4 below the line is a
    gradient of 1e8. At 0 the result is inf, or NaN for 0 / 0, as when a vector of zeros is divided by its norm. One
    such value makes the loss and every gradient NaN.

    Keep the divisor away from 0 with an eps that its dtype can hold (1e-8 is 0 in float16), or use what does so:
    `F.normalize(x, eps=1e-6)` (its own eps of 1e-12 is 0 in float16, and so is the 1e-8 of `F.cosine_similarity`), or a
    `softplus` as the model's last layer.

    The rule is off by default: whether a prediction really comes near 0 is mostly known to the author only.

    ## Example
    ```python
    import torch

    def cosine_loss(pred, target):
        return 1 - (pred / pred.norm(dim=-1, keepdim=True) * target).sum(-1).mean()
    ```

    ## Use instead
    ```python
    import torch

    def cosine_loss(pred, target):
        return 1 - (pred / pred.norm(dim=-1, keepdim=True).clamp_min(1e-6) * target).sum(-1).mean()
    ```

    ## Fix safety
    There is no fix: what should come out where the divisor is 0 (nothing, a large number, another formula) is the
    author's to say.

    ## Known limits
    What cannot be followed is not flagged, nor are divisions by data, counts, sums of masks and Python numbers. Any
    `+ eps`, `clamp`, `where` or `masked_fill` counts as a guard.

    ## References
    - [torch.nn.functional.normalize](https://pytorch.org/docs/stable/generated/torch.nn.functional.normalize.html)
    - [torch.finfo](https://pytorch.org/docs/stable/type_info.html)
    """

    meta = RuleMeta("GL602", Severity.WARNING, default=False)
    message = "`{operand}` {why}: one such value makes the quotient, the loss and every gradient inf or NaN"

    operations = frozenset({Kind.DIVIDE})

    def on_operation(self, operation: Operation) -> Iterator[Draft]:
        why = _prediction(operation) if operation.exposed else ""
        if why:
            # no fix: what should come out where the divisor is 0 is not known
            related = [(operation.origin, "the probability is made here")]
            yield self.finding(operation.site, operand=operation.operand_shown(), why=why, related=related)


def _prediction(operation: Operation) -> str:
    """What says that the divisor is a prediction which can be zero, as the end of a sentence."""
    fact, names = operation.fact, operation.names
    if fact.prob is not None and fact.prob is not Prob.LOG:
        return "is made of probabilities that can be 0"
    if any(_NO_PREDICTION.search(name) or api.TARGET.search(name) for name in names):
        return ""
    predicted = fact.grad or any(api.PREDICTION.search(name) for name in names)
    # the square of what nobody knows is a variance, a distance, a schedule; a norm is one of a vector
    if fact.zero and (predicted or "norm" in fact.zero):
        return f"is {fact.zero} and can be 0"
    alone = operation.plain_name
    if fact.raw or (names == [alone] and api.PREDICTION.search(alone)):
        return "is a prediction that nothing keeps away from 0"
    return ""


#: scales are positive by what they are; `y_true` is as little a prediction as `y` is
_NO_PREDICTION = re.compile(r"(?i)sigma|std|var|scale|snr|beta|alpha|temp|weight|num|count|^y(_(?!hat|pred)|$)")
