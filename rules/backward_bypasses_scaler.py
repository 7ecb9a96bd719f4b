"""GL206 backward-bypasses-scaler."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import PLAIN, Backward, Norm, Opaque, Step, Unscale
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class BackwardBypassesScaler(Rule):
    """The scaler steps, but the loss was never scaled.

    ## What it does
    Finds `scaler.step(optimizer)` whose gradients come from a plain `loss.backward()`.

    ## Why is this bad?
    `scaler.step` divides the gradients by the scale. If the scaler never scaled anything, it raises an
    AssertionError. If it scaled another loss before, the division happens silently, and these gradients become 65536
    times too small (or whatever the scale is by then). And float16 gradients that needed the scale have become 0.

    ## Example
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()  # not scaled
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Use instead
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Fix safety
    The fix writes `scaler.scale(loss).backward()` for each loss that the step uses, and unscales in front of a
    clip or a log that now needs it. It is safe: the step undoes exactly this scale. Where no loss was scaled at
    all there is an AssertionError less; where another one was, this optimizer stepped with gradients divided by
    the scale: with SGD its updates grow by that factor. Adam hides a constant factor only while gradients stay well
    above its `eps` (1e-8), and divided by 65536 most do not: its updates grow, too. No fix is offered where the
    scaler may be None, or where the backward is in a function that does not know it.

    ## Known limits
    A loss that comes from elsewhere may have been scaled there; gradlint is silent when it cannot see where it was
    made. Scalers built with `enabled=False` are left alone.

    ## References
    - [AMP: typical mixed precision training](https://pytorch.org/docs/stable/notes/amp_examples.html)
    - [torch.amp: gradient scaling](https://pytorch.org/docs/stable/amp.html#gradient-scaling)
    """

    meta = RuleMeta("GL206", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.SCALE,)
    needs = (Backward,)
    message = (
        "`{backward}` is not scaled, but `{step}` unscales: "
        "its gradients are divided by a scale they never had, or it raises"
    )

    def on_unscale(self, unscale: Unscale, state: GradientState) -> Iterator[Draft]:
        """In a run that came no further: torch refuses to unscale what nobody has scaled."""
        if state.path.happened and state.window.step is None and unscale.scaler is not None and state.pending:
            first = state.pending[0]
            if all(b.scaler is None and b.framework is PLAIN for b in state.pending):
                told = [(unscale, "the scaler unscales here")]
                yield self.finding(first, backward=short(first), step=short(unscale), related=told)

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if step.scaler is None or step.scaler.enabled is False or not state.pending:
            return
        if any(b.scaler is not None or b.framework is not PLAIN for b in state.pending):
            return
        for backward in state.pending:
            if backward.norm is Norm.UNKNOWN and not backward.params.known:
                return  # a loss from elsewhere may have been scaled there
            if any(e.optimizers is None for e in state.window.between(backward, step, Opaque)):
                return
        first, backwards = state.pending[0], tuple(state.pending)
        yield self.finding(
            first, backward=short(first), step=short(step), related=[(step, "the scaler unscales here")],
            repairs=[Repair("Scale the loss", lambda bench: bench.scale_losses(backwards, step))],
        )  # fmt: skip
