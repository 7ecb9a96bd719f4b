"""GL606 softmax-before-cross-entropy."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.rule import Draft, FixSafety, Kind, Operation, Prob, Repair, Rule, RuleMeta, Severity


class SoftmaxBeforeCrossEntropy(Rule):
    """Probabilities are handed to a loss that takes logits, or log-probabilities.

    ## What it does
    Finds the output of a softmax or sigmoid as the input of `cross_entropy`, `CrossEntropyLoss`, `nll_loss` or
    `NLLLoss`: at once, through variables, tuples and records, through the last layer of an `nn.Sequential`, and through
    what a model's `forward` returns in the same file.

    ## Why is this bad?
    `cross_entropy` applies `log_softmax` itself. Probabilities lie between 0 and 1, so the second softmax can make
    hardly any difference of them. With 10 classes the loss of a perfect prediction is 1.46, that of a completely wrong
    one 2.46, and a confident mistake is hardly corrected: for the logits `[20, 0, 0]` and label 1 the gradient is 3e-9
    instead of 1. Training runs, the loss falls a little and then stays; nothing says why.

    `nll_loss` takes *log*-probabilities and only picks and negates them. Of probabilities it is `-p`: the loss is
    negative, and the gradient of the same confident mistake is 2e-9. It wants `log_softmax`.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def training_loss(logits, labels):
        probs = torch.softmax(logits, dim=-1)
        return F.cross_entropy(probs, labels)
    ```

    ## Use instead
    ```python
    import torch.nn.functional as F

    def training_loss(logits, labels):
        return F.cross_entropy(logits, labels)
    ```

    ## Fix safety
    For `cross_entropy` the fix hands over what the softmax was taken of; for `nll_loss` it writes `log_softmax`. A
    variable that held the probabilities goes if nothing else uses it. This restores what the loss is made for, and is
    safe; expect larger gradients, and perhaps another learning rate. For a sigmoid the fix is unsafe: if several
    classes may be right at once, `binary_cross_entropy_with_logits` is meant.

    No fix is offered where the softmax is a part of a model, in `forward` or in `nn.Sequential`: whoever uses the model
    may rely on its probabilities. Return logits from it, and take the softmax where probabilities are needed.

    ## Known limits
    Models from other files are not looked into. A softmax that is taken on some paths only (`if not self.training`, a
    flag) is not reported. Log-probabilities may be handed to `cross_entropy`: a second `log_softmax` changes nothing.

    ## References
    - [torch.nn.CrossEntropyLoss](https://pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html)
    - [torch.nn.NLLLoss](https://pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html)
    """

    meta = RuleMeta("GL606", Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{operand}` is the output of a {prob}, and `{loss}` {takes}"

    operations = frozenset({Kind.CROSS_ENTROPY, Kind.NLL})

    def on_operation(self, operation: Operation) -> Iterator[Draft]:
        prob, made = operation.fact.prob, operation.made_at
        if prob not in (Prob.SOFTMAX, Prob.SIGMOID) or operation.fact.grad is False:
            return
        yield self.finding(
            operation.site, operand=operation.operand_shown(40), prob=prob.value,
            loss=operation.function_shown(40), takes=_TAKES[operation.kind],
            related=[(made, f"the {prob.value} is here")], repairs=_repairs(operation),
        )  # fmt: skip


_TAKES = {
    Kind.CROSS_ENTROPY: "applies log_softmax itself: hardly any gradient is left",
    Kind.NLL: "takes log-probabilities: hand it those of log_softmax",
}


def _repairs(operation: Operation) -> Iterator[Repair]:
    """Only in the function that takes the softmax: what a model returns, others may rely on."""
    if not operation.local:
        return
    if operation.kind is Kind.NLL:
        yield Repair("Use `log_softmax`", lambda bench: bench.fuse(operation))
    else:
        # whoever wrote a sigmoid may have meant one decision for each class
        safety = FixSafety.UNSAFE if operation.fact.prob is Prob.SIGMOID else None
        yield Repair("Hand over the logits", lambda bench: bench.fuse(operation), safety)
