"""GL203 step-bypasses-scaler."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Edit, Step, Update
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Phase, Repair, Rule, RuleMeta, Severity, short


class StepBypassesScaler(Rule):
    """The loss is scaled, but the optimizer steps without the scaler.

    ## What it does
    Finds `optimizer.step()` behind `scaler.scale(loss).backward()`, where `scaler.step(optimizer)` belongs, and an
    `optimizer.step()` in the same block behind `scaler.step(optimizer)`, which steps a second time.

    ## Why is this bad?
    Without `unscale_`, the weights are updated with gradients multiplied by the scale (65536 at first), and
    `scaler.update()` then raises an AssertionError. With `unscale_` it is silent: the size is right, but nobody looks
    for inf and NaN any more, and with float16 the first overflow ruins the weights.

    ## Example
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        optimizer.step()  # gradients are still scaled
        scaler.update()
    ```

    ## Use instead
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Fix safety
    The fix writes `scaler.step(optimizer)`, under the condition of the backward if that has one, and adds
    `scaler.update()` behind it if there is none. It is safe: a scaled loss has no other use than a step through
    the scaler. Steps with inf or NaN gradients are skipped from now on; where `unscale_` was missing, too, the
    updates of SGD shrink by the scale (they were that many times too large), those of Adam, which hardly feels a
    constant factor, change little. A second step behind the scaler's is dropped. No fix is offered for a step
    with a closure, which a scaler cannot take, nor where the step is in a function that does not know the scaler.

    ## Known limits
    Scalers built with `enabled=False` are left alone. Where a flag chooses between the two ways (`if use_amp: ...`),
    each setting of the flag is judged by itself. apex's `scale_loss` is another mechanism and not meant.

    ## References
    - [AMP: typical mixed precision training](https://pytorch.org/docs/stable/notes/amp_examples.html)
    - [torch.amp: gradient scaling](https://pytorch.org/docs/stable/amp.html#gradient-scaling)
    """

    meta = RuleMeta("GL203", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    #: a second step behind the scaler's is dropped
    mends = (Aspect.SCALE, Aspect.UPDATES, Aspect.STEPS, Aspect.USED)
    needs = (Backward,)
    message = "`{step}` bypasses the scaler: {consequence}"

    def _again(self, step: Step, state: GradientState) -> Iterator[Draft]:
        """`scaler.step(optimizer)`, and right behind it, in the same block, `optimizer.step()`."""
        first = state.last_step
        if first is None or first.scaler is None or state.phase is not Phase.CONSUMED or not first.same_turn(step):
            return
        # in one block no flag can choose between them
        row = self.file.block_of(first.site)
        in_one_block = row >= 0 and row == self.file.block_of(step.site)
        if (in_one_block or state.path.happened) and state.has_backward:
            yield self.finding(
                step, step=short(step),
                consequence=f"`{short(first)}` has used these gradients already, so every update is made twice",
                related=[(first, "stepped through the scaler here")],
                repairs=[Repair("Drop the second step", lambda bench: bench.delete(step))],
            )  # fmt: skip

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if step.scaler is not None or step.framework.unscales:
            return
        scaled = next((b for b in state.pending if b.scaled), None)
        if scaled is None:
            yield from self._again(step, state)
            return
        early = list(state.window.between(scaled, step, Update))
        consequence = (
            "inf and NaN gradients reach the weights" if state.scaled is None
            else "the weights are updated with gradients multiplied by the scale"
        )  # fmt: skip
        through = Repair("Step through the scaler", lambda bench: bench.step_through_scaler(step, scaled, early))
        by_hand = any(edit.unscales for edit in state.window.of(Edit))
        yield self.finding(
            step, step=short(step), consequence=consequence, related=[(scaled, "scaled gradients are made here")],
            # what was divided by the scale by hand would be divided twice; and inf may be looked for by hand as well
            repairs=[] if by_hand else [through], severity=Severity.WARNING if by_hand else None,
        )  # fmt: skip
