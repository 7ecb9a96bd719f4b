"""GL307 token-mean-accumulation."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Norm, Step
from gradlint.frontend.knowledge import naming
from gradlint.frontend.program import Program
from gradlint.machine.state import GradientState
from gradlint.model import Category, Severity
from gradlint.rule import Draft, Rule, RuleMeta


class TokenMeanAccumulation(Rule):
    """Per-token means of unequal micro-batches are averaged with equal weight.

    ## What it does
    Looks for a loss that is a mean over the tokens of one micro-batch and is divided by N, in a file whose batches are
    padded (`ignore_index`, `attention_mask`, `pad_sequence`, `pad_token_id`). Off by default: it is a matter of degree.

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

    ## Fix safety
    There is no automatic fix: the window's tokens must be counted before its first backward, and only you know how
    your batches come in. With several ranks, count the tokens of all of them: DDP averages over ranks.

    ## Known limits
    gradlint sees only that the file pads. If all sequences are packed to one length, the means are over equally many
    tokens and the finding does not apply.

    ## References
    - [torch.nn.CrossEntropyLoss](https://pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html)
    - [pad_sequence](https://pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_sequence.html)
    """

    meta = RuleMeta("GL307", Category.ACCUMULATION, Severity.ADVICE, default=False)
    message = (
        "`{loss}` is a mean over the tokens of one micro-batch: those with few tokens weigh too much in the window"
    )

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if not state.window.closes or not self._padded:
            return
        for backward in state.pending[:1]:
            by_number = backward.divisor == state.window.size_text or bool(naming.MICRO.search(backward.divisor))
            if backward.norm is Norm.DIVIDED and by_number:
                yield self.finding(backward, loss=backward.loss, related=[(step, "the window ends here")])

    def on_program(self, program: Program) -> Iterator[Draft]:
        """Remembers whether batches are padded to a common length here."""
        self._padded = bool(program.all_words.seen & {"ignore_index", "attention_mask", "pad_token_id", "pad_sequence"})
        yield from ()

    _padded = False
