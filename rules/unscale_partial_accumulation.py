"""GL205 unscale-partial-accumulation."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Clip, Step, Unscale
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class UnscalePartialAccumulation(Rule):
    """Gradients are unscaled on every micro-batch of a window.

    ## What it does
    Finds `scaler.unscale_(optimizer)` that runs on each micro-batch while the step comes once per window.

    ## Why is this bad?
    The second micro-batch's `unscale_` raises a RuntimeError, because there was no `update()` since the first. If
    there is one, nothing raises and it is worse: the next backward adds scaled gradients to unscaled ones. At scale
    1024, two equal micro-batches then add up to 1025 instead of 2.

    ## Example
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y) / 4
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # raises on the second micro-batch
        if (i + 1) % 4 == 0 or i + 1 == len(loader):
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y) / 4
        scaler.scale(loss).backward()
        if (i + 1) % 4 == 0 or i + 1 == len(loader):
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    ```

    ## Fix safety
    The fix moves `unscale_` into the boundary, in front of its clip; a clip that stands behind it on every
    micro-batch comes along. It is safe: PyTorch asks for one `unscale_` per step, once all gradients of the window
    are there. Mostly there is a RuntimeError less; where none was raised, scaled and unscaled gradients were
    summed, and the updates change to what you meant. No fix is offered where something else reads the unscaled
    gradients, or the norm that the clip returns, on every micro-batch.

    ## Known limits
    The window must be recognised: a modulo of a counter or an inner loop over micro-batches. A boundary hidden in a
    helper of another file is not.

    ## References
    - [AMP: gradient accumulation](https://pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    meta = RuleMeta("GL205", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.UNSCALES, Aspect.CLIPS)
    needs = (Backward, Step)
    message = (
        "`{unscale}` runs on every micro-batch, `{step}` only once per {n}: the second one raises, or sums mixed units"
    )

    def on_unscale(self, unscale: Unscale, state: GradientState) -> Iterator[Draft]:
        step = state.window.step
        if not state.pending or (step is None and not state.path.happened):
            return
        again = state.added_behind(unscale)
        if again is None or again.same_turn(unscale):
            return
        if step is None:
            second = next(state.window.after(again, Unscale), again)
            yield self.finding(unscale, message=_REFUSED, unscale=short(unscale), related=[(second, "the second one")])
        elif step.window or state.window.inner_loop:
            yield self.finding(
                unscale, unscale=short(unscale), step=short(step), n=state.window.size_shown,
                related=[(again, "scaled gradients are added to unscaled ones here"), (step, "used only here")],
                repairs=_repairs(unscale, step, state), place=unscale.beside(state.window.closed_in),
            )  # fmt: skip


#: of a run that ended there
_REFUSED = "`{unscale}` runs on every micro-batch: the second one raises, before any step"


def _repairs(unscale: Unscale, step: Step, state: GradientState) -> Iterator[Repair]:
    """In front of the boundary's clip if it has one."""
    clips = [c for c in state.window.of(Clip) if c.same_turn(step)]
    message = f"Move `{short(unscale)}` into the boundary"
    along = [c for c in state.window.after(unscale, Clip) if c.same_turn(unscale)]
    if along:
        # a clip that runs on every micro-batch as well comes along: it needs the unscaled gradients
        yield Repair(message, lambda bench: bench.move_all([unscale, *along], step))
    if clips:
        yield Repair(message, lambda bench: bench.move(unscale, before=clips[0]))
    yield Repair(message, lambda bench: bench.move(unscale, before=step))
