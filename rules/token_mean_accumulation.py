"""GL307 token-mean-accumulation."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Norm, Step
from gradlint.knowledge import naming
from gradlint.rule import Draft, Evidence, GradientState, Rule, RuleMeta, Severity


class TokenMeanAccumulation(Rule):
    """Per-token means of unequal micro-batches are averaged with equal weight.

    ## What it does
    Finds a loss that is a mean over the tokens of one micro-batch and is divided by N, by hand or by Accelerate, though
    the micro-batches have unequal numbers of tokens. What it goes by: `cross_entropy` that leaves out padding
    (`ignore_index`), a mean over a mask (`(loss * mask).sum() / mask.sum()`), cross-entropy over padded sequences, or
    the `loss` of a pretrained language model in a file that pads. The message says which.

    ## Why is this bad?
    Dividing by N is exact only when every mean is over equally many tokens. With padding it is not: a token in
    a micro-batch of 50 real tokens weighs ten times as much as one in a micro-batch of 500. The gradient differs from
    the one of the large batch, and the result depends on how the batch happened to be cut.

    ## Example
    ```python
    def train(model, optimizer, loader, accum_steps):
        criterion = torch.nn.CrossEntropyLoss(ignore_index=-100)
        for i, (ids, labels) in enumerate(loader):
            loss = criterion(model(ids).flatten(0, 1), labels.flatten()) / accum_steps
            loss.backward()
            if (i + 1) % accum_steps == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    def train(model, optimizer, windows):
        criterion = torch.nn.CrossEntropyLoss(ignore_index=-100, reduction="sum")
        for micro_batches in windows:
            tokens = sum(int((labels != -100).sum()) for _, labels in micro_batches)
            optimizer.zero_grad()
            for ids, labels in micro_batches:
                loss = criterion(model(ids).flatten(0, 1), labels.flatten()) / tokens
                loss.backward()
            optimizer.step()
    ```

    This gives the large batch's gradient exactly. With DDP, which averages gradients over ranks, count the tokens of
    all of them and undo the average: `dist.all_reduce(tokens)` and `loss = criterion(...) * world_size / tokens`.
    Models of Hugging Face take the count themselves: `model(**batch, num_items_in_batch=tokens).loss`; their Trainer
    hands it over.

    ## Fix safety
    There is no automatic fix: the window's tokens must be counted before its first backward, and only you know how
    your batches come in.

    ## Known limits
    Off by default: it is a matter of degree. Files that pack sequences to one length, that pad to a fixed length and
    count the padding, or that count tokens on the way to the loss are left alone, and so is a loss over examples
    (sequence classification). A loss that another file computes is not seen. How unequal your batches really are, no
    linter can know: if they all have about as many tokens, little is lost.

    ## References
    - [torch.nn.CrossEntropyLoss](https://pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html)
    - [Fixing gradient accumulation](https://huggingface.co/blog/gradient_accumulation)
    """

    meta = RuleMeta("GL307", Severity.ADVICE, default=False)
    needs = (Backward,)
    message = "`{loss}` is a mean over one micro-batch's tokens ({evidence}): those with few tokens weigh too much"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if not state.window.closes or self.file.models.in_test(step):
            return
        for backward in state.pending[:1]:
            evidence = self._evidence(backward) if _is_averaged(backward, state) else None
            if evidence is None:
                continue
            if self._told_at(evidence, backward) == backward.site.node:
                yield self.finding(
                    backward, loss=backward.loss, evidence=evidence.text,
                    related=[(evidence.site, evidence.said), (step, "the window ends here")],
                )  # fmt: skip

    def _evidence(self, backward: Backward) -> Evidence | None:
        return self.once(backward.site.node, lambda: self.file.token_means.of(backward))

    def _told_at(self, evidence: Evidence, backward: Backward) -> int:
        """The backward that this mean is told of: the arms of `if fp16: … else: …` take the same loss backward."""
        return self.once(("told", evidence.site.node), lambda: backward.site.node)


def _is_averaged(backward: Backward, state: GradientState) -> bool:
    """The loss is divided by N, by hand or by the framework."""
    if backward.norm is Norm.DIVIDED:
        return backward.divisor == state.window.size_text or bool(naming.MICRO.search(backward.divisor))
    return backward.managed_division and backward.norm in (Norm.RAW, Norm.UNKNOWN)
