"""GL211 scaled-gradients-read."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Clip, ClipApi, Edit, EditKind, Read, Unscale
from gradlint.knowledge.rows import Thing
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, outward, short


class ScaledGradientsRead(Rule):
    """Gradients are measured or changed while they are still scaled.

    ## What it does
    Finds code between `scaler.scale(loss).backward()` and `scaler.unscale_(optimizer)` that measures gradients, or
    that adds something to them.

    ## Why is this bad?
    Every gradient is multiplied by the scale at this point, 65536 at first. A logged norm is that many times too
    large, and it jumps whenever the scale changes. Noise or weight decay that you add here is divided by the scale in
    `scaler.step`, and so all but vanishes.

    ## Example
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        for name, p in model.named_parameters():
            writer.add_scalar(name, p.grad.norm().item())  # norm times scale
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
        for name, p in model.named_parameters():
            writer.add_scalar(name, p.grad.norm().item())
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Fix safety
    The fix moves the lines behind `unscale_`, or inserts `unscale_` in front of them if there is none. It is safe:
    `scaler.step` does not divide gradients that are unscaled already. What is only measured shrinks by the scale,
    to its true size, and training stays as it is; noise or decay that is added acts in full from now on, so expect
    to see it. No fix is offered where gradients are read on every micro-batch of a window, where another
    backward adds to them before the step, or where a turn is skipped behind it (`continue`).

    ## Known limits
    Accelerate with `mixed_precision="fp16"` scales, too, until it clips or steps; there is no fix for that: what it
    has for it, `accelerator.unscale_gradients()`, may be called once for each step only. A factor is left alone:
    halving scaled gradients halves the true ones. So is a measurement that the code divides by `scaler.get_scale()`,
    a question whether gradients are finite, which the scale does not change, and a function that is called on both
    sides of `unscale_`, to see what it does. Helpers are followed only inside the file.

    ## References
    - [Unscaled gradients](https://pytorch.org/docs/stable/notes/amp_examples.html#working-with-unscaled-gradients)
    """

    meta = RuleMeta("GL211", Severity.WARNING, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.READS, Aspect.EDITS, Aspect.UNSCALES)
    needs = (Backward, Thing.SCALER)
    message = "`{what}` works on gradients that are still multiplied by the scale"

    def on_read(self, read: Read, state: GradientState) -> Iterator[Draft]:
        if not read.finite and not _is_compared(read, state) and not _is_for_clip(read, state):
            yield from self._while_scaled(read, state)

    def on_edit(self, edit: Edit, state: GradientState) -> Iterator[Draft]:
        if edit.kind is EditKind.NOISE:  # a factor commutes with the scale, noise does not
            if state.window.step is not None:  # of those that are left out this time, nobody uses them
                yield from self._while_scaled(edit, state)

    def _while_scaled(self, event: Read | Edit, state: GradientState) -> Iterator[Draft]:
        # whoever asks for the scale divides by it
        inside = next((b for b in state.pending if b.managed_scale), None)
        if inside is not None and isinstance(event, Read) and not self._is_unscaled(event, state):
            yield self.finding(
                event, what=short(event), related=[(inside, f"{inside.framework.name} scales the loss here")]
            )
        elif state.scaled is not None and "get_scale" not in self.file.words.called:
            yield self.finding(
                event, what=short(event), related=[(state.scaled, "scaled gradients are made here")],
                repairs=_repairs(event, state),
            )  # fmt: skip

    def _is_unscaled(self, event: Read, state: GradientState) -> bool:
        """A framework's clip unscales first, and so does what it has for this alone."""
        if self.file.words.called & {"unscale_gradients", "get_scale"}:
            return True
        return any(clip.framework.windows for clip in state.window.before(event, Clip))


def _is_compared(read: Read, state: GradientState) -> bool:
    """The same is measured once more behind the unscale_: somebody wants to see both."""
    unscale = next((u for u in state.window.after(read, Unscale) if read.same_turn(u)), None)
    later = state.window.after(unscale, Read) if unscale is not None else iter(())
    return any(other.site == read.site and other.via != read.via and read.same_turn(other) for other in later)


def _is_for_clip(read: Read, state: GradientState) -> bool:
    """A clip that is written out needs the norm: what is wrong with it is told there (GL201), though not in every turn
    the norm is too large."""
    own = (e for e in (*state.path.events, *state.path.usually) if isinstance(e, Clip) and e.api is ClipApi.OWN)
    return any(clip.via == read.via for clip in own)


def _repairs(event: Read | Edit, state: GradientState) -> Iterator[Repair]:
    """Behind the unscale_ that is there, or behind a new one."""
    later = next((u for u in state.window.after(event, Unscale) if event.same_turn(u)), None)
    if later is not None:
        yield Repair(f"Move it behind `{short(later)}`", lambda bench: bench.move(event, after=later))
        yield Repair(f"Move `{short(later)}` in front of it", lambda bench: bench.move(later, before=event))
        return
    if any(b.same_turn(event) for b in state.window.after(event, Backward)):
        return  # what it makes is scaled, and would be added to what is not any more
    scaled, steps = state.scaled, [state.window.step] if state.window.step else []
    yield from outward(
        "Unscale the gradients first", event,
        lambda bench, outer: bench.insert_unscale(event, scaled, steps, outer=outer),
    )  # fmt: skip
