"""GL202 double-unscale."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Unscale, Update
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class DoubleUnscale(Rule):
    """The gradients of one optimizer are unscaled twice.

    ## What it does
    Finds a second `scaler.unscale_(optimizer)` for the same optimizer before `scaler.update()`.

    ## Why is this bad?
    It raises: `RuntimeError: unscale_() has already been called on this optimizer since the last update()`. The
    scaler keeps count, so the gradients are not divided twice, but your training stops.

    ## Example
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.unscale_(optimizer)  # raises
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
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Fix safety
    The fix drops the second call, and the condition round it if nothing else is in there. It is safe: the
    gradients are unscaled already, and the call could only raise, so no number changes and there is a RuntimeError
    less. No fix is offered where the first call runs only on some turns and the clip needs the second on the
    others.

    ## Known limits
    Both calls must be in sight, in this file and on one path; two calls in two branches are fine. One call that runs
    on every micro-batch of a window is unscale-partial-accumulation (GL205).

    ## References
    - [Unscaled gradients](https://pytorch.org/docs/stable/notes/amp_examples.html#working-with-unscaled-gradients)
    - [torch.amp: gradient scaling](https://pytorch.org/docs/stable/amp.html#gradient-scaling)
    """

    meta = RuleMeta("GL202", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.UNSCALES,)
    message = "`{unscale}` runs twice before `update()`: the second one raises a RuntimeError"

    def on_unscale(self, unscale: Unscale, state: GradientState) -> Iterator[Draft]:
        first = state.unscaled
        if first is None or first.site == unscale.site or first.scaler != unscale.scaler:
            return
        if not first.same_turn(unscale):
            return
        if first.optimizer is None and first.text != unscale.text:
            return  # of neither is it known which optimizer it is
        if first.optimizer == unscale.optimizer and not any(state.window.between(first, unscale, Update)):
            yield self.finding(
                unscale, unscale=short(unscale), related=[(first, "already unscaled here")],
                repairs=[Repair(f"Drop the second `{short(unscale)}`", lambda bench: bench.delete(unscale))],
            )  # fmt: skip
