"""GL307 token-mean-accumulation."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Norm, Step
from gradlint.frontend.program import Program
from gradlint.machine.state import GradientState
from gradlint.model import Category, Severity
from gradlint.rule import Draft, Rule, RuleMeta


class TokenMeanAccumulation(Rule):
    """Per-token means of unequal micro-batches are averaged with equal weight."""

    meta = RuleMeta("GL307", Category.ACCUMULATION, Severity.ADVICE, default=False)
    message = "`{loss}` is a mean over the tokens of one micro-batch: those with few tokens weigh too much in the window"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if not state.window.closes or not self._padded:
            return
        for backward in state.pending[:1]:
            if backward.norm is Norm.DIVIDED and backward.divisor == state.window.size_text:
                yield self.finding(backward, loss=backward.loss, related=[(step, "the window ends here")])

    def on_program(self, program: Program) -> Iterator[Draft]:
        """Remembers whether batches are padded to a common length here."""
        self._padded = bool(program.all_words.seen & {"ignore_index", "attention_mask", "pad_token_id", "pad_sequence"})
        yield from ()

    _padded = False
