"""GL207 unscale-after-clip."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Clip, ClipApi, Read, Unscale
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class UnscaleAfterClip(Rule):
    """Gradients are unscaled, but only after the clip.

    ## What it does
    Finds a clip of scaled gradients where `scaler.unscale_(optimizer)` exists but stands behind the clip.

    ## Why is this bad?
    The clip works on gradients that are multiplied by the scale, and cuts nearly all of them. After the division the
    true limit is `max_norm / scale`: at scale 65536 and `max_norm=1.0`, no gradient reaches the optimizer with a norm
    above 0.000015. The right line is there, one line too low.

    ## Example
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.unscale_(optimizer)  # one line too low
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
    The fix moves `unscale_` in front of the clip, with its comments and its condition. It is safe: it is the order
    that PyTorch documents, and `scaler.step` does not divide a second time. The clip now acts at `max_norm`
    instead of `max_norm / scale`: with SGD expect updates larger by orders of magnitude. Adam hardly feels a constant
    factor while gradients stay well above its `eps` (1e-8), but in a large model they had sunk to that: expect larger
    updates there, too. No fix is offered where a turn is skipped between the two (`continue`, a handler), as it would
    need an `update()` of its own, nor where the scaler may be None at the clip.

    ## Known limits
    Both calls must be in the same iteration and in sight. Clips that unscale by themselves (Accelerate, Fabric, apex)
    are left alone.

    ## References
    - [AMP: gradient clipping](https://pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping)
    """

    meta = RuleMeta("GL207", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.UNSCALES,)
    needs = (Backward, Unscale)
    message = "`{unscale}` comes after `{clip}`: scaled gradients are clipped, the true limit is max_norm / scale"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if state.scaled is None or clip.api in (ClipApi.MANAGED, ClipApi.MASTER):
            return
        later = next(state.window.after(clip, Unscale), None)
        if later is not None and clip.same_turn(later):
            clips = [c for c in state.window.of(Clip) if c.site == clip.site]
            once = not any(True for c in clips for _ in state.window.between(c, later, Backward))
            # a clip of one's own, or one that is handed the norm, goes by what was measured before
            measured = state.window.between(state.scaled, clip, Read) if clip.api is ClipApi.CUSTOM else iter(())
            first = next((read for read in measured if read.same_turn(clip)), None)
            where = "the clip" if first is None else f"`{short(first)}`"
            message = f"Move `{short(later)}` in front of {where}"
            yield self.finding(
                clip, clip=short(clip), unscale=short(later), related=[(later, "unscaled only here")],
                # no fix where the clip runs on every micro-batch: it is the clip that has to move (GL103)
                repairs=[Repair(message, lambda bench: bench.move(later, before=first or clip))] if once else [],
            )  # fmt: skip
