"""GL605 unfused-log."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.rule import Draft, FixSafety, Kind, Operation, Repair, Rule, RuleMeta, Severity


class UnfusedLog(Rule):
    """A logarithm is taken in two steps where torch has one function that loses nothing in between.

    ## What it does
    Finds, on the way to a loss, `log(softmax(x))`, `log(sigmoid(x))`, `log(1 - sigmoid(x))`, `log(1 + x)`, and a
    sigmoid that is handed to `BCELoss` or `binary_cross_entropy`.

    ## Why is this bad?
    The number in between cannot hold what the logarithm asks for. `softmax([200, 0])` is `[1, 0]`, so its log is
    `[0, -inf]` and the gradient NaN; `log_softmax` gives `[0, -200]` and the right gradient. In float32 a softmax has
    lost the smaller one at a difference of 104, `log(sigmoid(x))` is -inf below -88, and `log(1 - sigmoid(x))` is so
    from 17 on, because a float32 close to 1 has no room for the rest. float16 is much worse.

    `BCELoss` cuts its logarithm off at -100. The loss stays finite, but the gradient is gone: for a logit of 17 with
    label 0 (a clear mistake, to be corrected) the loss is 100 and the gradient exactly 0. With
    `binary_cross_entropy_with_logits` it is 17 and 1. Under CUDA's autocast `BCELoss` raises.

    `1 + x` rounds a small x away: `log(1 + 1e-9)` is 0, `log1p(1e-9)` is 1e-9. The gradient does not suffer, so this
    one is advice.

    ## Example
    ```python
    import torch

    def policy_loss(logits, advantages):
        return -(torch.log(torch.softmax(logits, dim=-1)) * advantages).mean()
    ```

    ## Use instead
    ```python
    import torch

    def policy_loss(logits, advantages):
        return -(torch.log_softmax(logits, dim=-1) * advantages).mean()
    ```

    ## Fix safety
    Safe: the new function computes the same, and differs only where the old code had lost the number. What the softmax
    was given besides (a dimension, a dtype) stays, and so do `weight` and `reduction` of a loss. A variable that held
    the probabilities goes if nothing else uses it. Where the probabilities of a `BCELoss` have another use, the fix is
    unsafe: it leaves them, but whoever reads them may expect the loss to be theirs.

    No fix is offered if a name changes between the softmax and the logarithm, if the probabilities are made in another
    function or by a layer of `nn.Sequential`, or if the `BCELoss` object is called with something else, too.

    ## Known limits
    The softmax or sigmoid and the logarithm must be in one function. Numbers that are made by hand and have no gradient
    are left alone. A model whose `forward` ends in a sigmoid and whose output goes straight into `BCELoss` is advice,
    without a fix: whoever else uses the model may rely on its probabilities. Where the sigmoid is the last layer of an
    `nn.Sequential`, or the model is the discriminator of a GAN, nothing is said. `log(softmax(x) + eps)` is left alone,
    too; `log_softmax` would still be better.

    ## References
    - [torch.nn.functional.log_softmax](https://pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html)
    - [torch.nn.BCEWithLogitsLoss](https://pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html)
    - [torch.log1p](https://pytorch.org/docs/stable/generated/torch.log1p.html)
    """

    meta = RuleMeta("GL605", Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{operation}` is -inf where {prob} rounds to 0: use `{fused}`, which keeps it"

    operations = frozenset({Kind.LOG, Kind.BCE})

    def on_operation(self, operation: Operation) -> Iterator[Draft]:
        fused, made = operation.fused, operation.made_at
        if operation.kind is Kind.BCE and not fused and operation.ends_model:
            yield self._model_ends(operation)
        if not fused:
            return
        message = severity = None
        if operation.kind is Kind.BCE:
            message = "`{operation}` gives a saturated sigmoid no gradient: use `{fused}`, which does"
            fused = "nn.BCEWithLogitsLoss" if operation.criterion is not None else fused
        elif fused.endswith("log1p"):
            message = "`{operation}` is 0 where the small number beside 1 is rounded away: use `{fused}`"
            severity = Severity.ADVICE  # the gradient is the same, and the loss to seven digits
        told = not fused.endswith("log1p")
        yield self.finding(
            operation.site, message=message, operation=_short(operation), fused=fused, prob=_probability(operation),
            related=[(made, f"the {_kind(operation)} is taken here")] if told else [],
            repairs=_repairs(operation, fused), severity=severity,
        )  # fmt: skip

    def _model_ends(self, operation: Operation) -> Draft:
        """There is no fix: whoever else calls the model gets its probabilities, too."""
        message = (
            "`{operation}` gets the sigmoid that the model ends in, and where that saturates there is no gradient: "
            "let the model give logits and use `{fused}`"
        )
        fused = "nn.BCEWithLogitsLoss" if operation.criterion is not None else "binary_cross_entropy_with_logits"
        return self.finding(
            operation.site, message=message, operation=_short(operation), fused=fused,
            related=[(operation.made_at, "the model's sigmoid")], severity=Severity.ADVICE,
        )  # fmt: skip


def _repairs(operation: Operation, fused: str) -> Iterator[Repair]:
    yield Repair(f"Use `{fused}`", lambda bench: bench.fuse(operation))
    if operation.kind is Kind.BCE:
        # where the probabilities have another use, too
        yield Repair(f"Use `{fused}`", lambda bench: bench.fuse(operation, elsewhere=True), FixSafety.UNSAFE)


def _probability(operation: Operation) -> str:
    prob = operation.fact.prob.value if operation.fact.prob is not None else ""
    return prob if prob.startswith("1") else f"the {prob}"


def _kind(operation: Operation) -> str:
    """The layer or function that is followed by the logarithm."""
    return "softmax" if operation.fused == "log_softmax" else "sigmoid"


def _short(operation: Operation) -> str:
    text, function = operation.text, operation.function_shown(len(operation.text))
    if len(text) <= 60 or function == text:
        return text
    return f"{function}(…)" if len(function) <= 58 else f"….{function.rpartition('.')[2]}()"
