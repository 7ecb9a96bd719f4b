"""GL108 missing-clip."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.events import Manager, Step
from gradlint.frontend.program import Program
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.remedy import insert_clip
from gradlint.rule import Draft, Rule, RuleMeta, in_user_words, short


class MissingClip(Rule):
    """A Transformer, recurrent network or policy is trained with no clip.

    ## What it does
    Finds a training loop over a model that is known for sudden large gradients (attention, LSTM, GRU or RNN layers, a
    pretrained `AutoModelFor...`, a loss made of `log_prob`) in a file that clips nowhere.

    ## Why is this bad?
    In these models one unlucky batch can make a gradient a thousand times longer than usual. A single step with it
    can undo hours of training. A clip costs little and acts only on such steps.

    ## Example
    ```python
    import torch

    model = torch.nn.Transformer(d_model=64, nhead=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    for source, target in loader:
        optimizer.zero_grad()
        loss = criterion(model(source, target), target)
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    import torch

    model = torch.nn.Transformer(d_model=64, nhead=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    for source, target in loader:
        optimizer.zero_grad()
        loss = criterion(model(source, target), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
    ```

    ## Fix safety
    The fix inserts a clip with `max_norm=1.0` in front of the step, and unscales first if a scaler is used. It is
    unsafe: 1.0 is a common choice but not your choice. Every update whose norm was above 1.0 becomes shorter, and
    early in training that may be most of them. No fix is offered where the step has a closure, or where the one model
    of the optimizer is not known at the step.

    ## Known limits
    Off by default: many small models train well without a clip. The kind of model is read from the names in this
    file, so a model built elsewhere is not seen. A helper whose name speaks of clipping gradients counts as a clip,
    and so does DeepSpeed, which clips by its own configuration.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    - [On the difficulty of training recurrent neural networks](https://arxiv.org/abs/1211.5063)
    """

    meta = RuleMeta("GL108", Category.CLIPPING, Severity.ADVICE, fix=FixSafety.UNSAFE, default=False)
    message = "`{step}` trains {evidence} without gradient clipping: one bad batch can undo hours of training"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        evidence = self._evidence
        if evidence and not self._clips and state.pending and step.frames and step.manager is not Manager.DEEPSPEED:
            owners = [in_user_words(owner) for owner in sorted(state.optimizer.params.owners)]
            # of several models, which to clip? and one may be known by its name in __init__
            fix = [insert_clip(step, f"{of}{owners[0]}") for of in ("", "self.")] if len(owners) == 1 else []
            if step.manager is not Manager.NOBODY:
                fix = []  # frameworks have clips of their own, which unscale
            yield self.finding(step, step=short(step), evidence=evidence, fix=fix)

    def on_program(self, program: Program) -> Iterator[Draft]:
        """Remembers what is trained here, for the steps that follow."""
        words = program.all_words
        self._clips = any("clip" in w.lower() and ("grad" in w.lower() or "norm" in w.lower()) for w in words.seen)
        self._evidence = next((f"a model with `{w}`" for w in sorted(words.seen) if _RISKY.search(w)), "")
        yield from ()

    _clips = False
    _evidence = ""


_RISKY = re.compile(
    r"^(nn\.)?(Transformer\w*|MultiheadAttention|LSTM|GRU|RNN|LSTMCell|GRUCell|log_prob|AutoModelFor\w+)$"
)
