"""GL108 missing-clip."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.events import Manager, Step
from gradlint.frontend.program import Program
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class MissingClip(Rule):
    """A Transformer, recurrent network or policy is trained with no clip."""

    meta = RuleMeta("GL108", Category.CLIPPING, Severity.ADVICE, fix=FixSafety.UNSAFE, default=False)
    message = "`{step}` trains {evidence} without gradient clipping: one bad batch can undo hours of training"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        evidence = self._evidence
        if evidence and not self._clips and state.pending and step.frames and step.manager is not Manager.DEEPSPEED:
            yield self.finding(step, step=short(step), evidence=evidence)

    def on_program(self, program: Program) -> Iterator[Draft]:
        """Remembers what is trained here, for the steps that follow."""
        words = program.all_words
        self._clips = any("clip" in w.lower() and ("grad" in w.lower() or "norm" in w.lower()) for w in words.seen)
        self._evidence = next((f"a model with `{w}`" for w in sorted(words.seen) if _RISKY.search(w)), "")
        yield from ()

    _clips = False
    _evidence = ""


_RISKY = re.compile(r"^(nn\.)?(Transformer\w*|MultiheadAttention|LSTM|GRU|RNN|LSTMCell|GRUCell|log_prob|AutoModelFor\w+)$")
