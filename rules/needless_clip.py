"""GL109 needless-clip."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Clip
from gradlint.frontend.program import Program
from gradlint.machine.state import GradientState
from gradlint.model import Category, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class NeedlessClip(Rule):
    """A plain convolutional network is clipped though nothing asks for it."""

    meta = RuleMeta("GL109", Category.CLIPPING, Severity.ADVICE, default=False)
    message = "`{clip}` clips a plain convolutional network trained with SGD: normalisation layers make it needless"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if self._plain and state.optimizer.kind == "SGD" and state.pending:
            yield self.finding(clip, clip=short(clip))

    def on_program(self, program: Program) -> Iterator[Draft]:
        """Remembers whether the file trains a plain CNN and nothing else."""
        seen = program.all_words.seen
        convolutional = any(w.startswith(("Conv2d", "resnet", "vgg", "BatchNorm2d")) for w in seen)
        delicate = any(w.startswith(("Transformer", "LSTM", "GRU", "RNN", "Multihead", "log_prob", "GradScaler")) for w in seen)
        self._plain = convolutional and not delicate
        yield from ()

    _plain = False
