"""GL108 missing-clip."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import PLAIN, Backward, Clip, Edit, EditKind, Step
from gradlint.knowledge import architectures, frameworks
from gradlint.rule import (
    Aspect,
    Draft,
    Evidence,
    File,
    FixSafety,
    GradientState,
    Repair,
    Rule,
    RuleMeta,
    Severity,
    in_user_words,
    short,
)


class MissingClip(Rule):
    """A Transformer, recurrent network or policy is trained with no clip.

    ## What it does
    Finds a step of an optimizer whose model is known for sudden large gradients, in a file that clips nowhere. The
    model is taken apart as far as the file shows it: attention, LSTM, GRU or RNN layers in its class, in the classes
    that it holds and in what builds it; pretrained language models; names like `BiLSTM` or `GPT` of classes from other
    files. A policy is known by its loss: log-probabilities weighted with returns, rewards or advantages. A model that
    is handed in is taken for one of those that the file defines, if all of these are of the kind. The message says what
    it went by.

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
    Off by default: many small models train well without a clip. A model that another file builds under a name that says
    nothing is not seen. Nothing is said where gradients are clipped or rescaled anywhere in the file, by a helper whose
    name speaks of it, by an argument like `max_grad_norm`, or by DeepSpeed, which clips by its own configuration; where
    the optimizer limits its updates itself (Adafactor, LAMB, Lion, LBFGS); in tests, and in loops of a few steps.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    - [On the difficulty of training recurrent neural networks](https://arxiv.org/abs/1211.5063)
    """

    meta = RuleMeta("GL108", Severity.ADVICE, fix=FixSafety.UNSAFE, default=False)
    mends = (Aspect.CLIPS,)
    needs = (Backward,)
    message = "`{step}` trains {evidence} without gradient clipping: one bad batch can undo hours of training"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if self.file.once(_clips) or not state.pending or not step.frames or step.framework.clips:
            return
        if architectures.SELF_LIMITING.search(state.optimizer.kind) or _is_limited(state):
            return
        evidence = self._evidence(step, state)
        if evidence is None:
            return
        owners = [in_user_words(owner) for owner in sorted(state.optimizer.params.owners)]
        # of several models, which to clip? and one may be known by its name in __init__
        repairs = [_clipped(step, f"{of}{owners[0]}") for of in ("", "self.")] if len(owners) == 1 else []
        if step.framework is not PLAIN:
            repairs = []  # frameworks have clips of their own, which unscale
        yield self.finding(
            step, step=short(step), evidence=evidence.text, related=[(evidence.site, evidence.said)], repairs=repairs
        )

    def _evidence(self, step: Step, state: GradientState) -> Evidence | None:
        models, params = self.file.models, state.optimizer.params

        def found() -> Evidence | None:
            turns = models.turns(step)
            toy = models.in_test(step) or (turns is not None and turns <= _TOY)
            return None if toy else models.delicate(params, step, state.pending)

        return self.once((step.site.node, params.owners), found)


def _clipped(step: Step, model: str) -> Repair:
    return Repair("Clip the norm to 1.0 before the step", lambda bench: bench.insert_clip(step, model))


def _clips(file: File) -> bool:
    return any(architectures.CLIPS.search(x) or frameworks.speaks_of_clipping(x) for x in file.words.seen)


#: so few steps are a demonstration, not a training
_TOY = 100


def _is_limited(state: GradientState) -> bool:
    """The gradients are clipped or rescaled by hand on this path."""
    edits = (EditKind.SCALE, EditKind.CLAMP, EditKind.OTHER)
    return bool(state.life.events(Clip)) or any(e.kind in edits for e in state.life.events(Edit))
