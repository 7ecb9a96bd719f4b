"""GL103 clip-partial-accumulation."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Clip, Step, Zero
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class ClipPartialAccumulation(Rule):
    """Gradients are clipped on every micro-batch of an accumulation window.

    ## What it does
    Finds a clip that runs on each micro-batch while the optimizer steps only once per window.

    ## Why is this bad?
    The sum of the first micro-batches is clipped, then more is added, then all of it is clipped again. Early
    micro-batches are shrunk many times, late ones once. The update no longer points where the large batch would have
    pointed.

    ## Example
    ```python
    import torch

    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / 4
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)  # clips a partial sum
        if (i + 1) % 4 == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    import torch

    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / 4
        loss.backward()
        if (i + 1) % 4 == 0 or i + 1 == len(loader):
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## Fix safety
    The fix moves the clip into the boundary, in front of the step, with the condition round it and a log of its norm;
    with Accelerate, it puts `if accelerator.sync_gradients:` above it. It is safe: accumulation stands for one large
    batch, and a large batch is clipped once. The limit stays the same, but updates turn: early micro-batches now
    weigh as much as late ones. No fix is offered where the norm is used on every micro-batch.

    ## Known limits
    The window must be recognised: a modulo of a counter, an inner loop over micro-batches, or Accelerate's
    `accumulate` block. DeepSpeed clips by itself at its own boundary and is left alone.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    - [AMP: gradient accumulation](https://pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    meta = RuleMeta("GL103", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.CLIPS,)
    needs = (Backward, Step)
    message = (
        "`{clip}` runs on every micro-batch, but `{step}` only once per {n}: partial sums are clipped again and again"
    )

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        step = state.window.step
        if step is None or step.framework.waits or not state.pending:
            return
        again = state.added_behind(clip)
        if again is None or any(state.window.between(clip, again, Zero)) or clip.same_turn(again):
            return
        if state.window.steps_late:
            yield self.finding(
                clip, clip=short(clip), step=short(step), n=state.window.size_shown,
                related=[(again, "the next micro-batch adds to what was clipped"), (step, "used only here")],
                repairs=_repairs(clip, step), place=clip.beside(state.window.closed_in),
            )  # fmt: skip


def _repairs(clip: Clip, step: Step) -> Iterator[Repair]:
    """Where a framework counts, there is no branch for the boundary: the clip gets a condition."""
    if step.framework.windows:
        framework = step.framework
        message = f"Clip only where {framework.name} steps"
        yield Repair(message, lambda bench: bench.clip_when_synced(clip, framework))
        return  # there is nowhere to move it: out of the context that counts it would stay what it was
    message = "Move the clip into the boundary, in front of the step"
    yield Repair(message, lambda bench: bench.move(clip, before=step))
