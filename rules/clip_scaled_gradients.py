"""GL201 clip-scaled-gradients."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Clip, ClipApi, Opaque, Step, Unscale
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, outward, short


class ClipScaledGradients(Rule):
    """Gradients are clipped while they are still multiplied by the scale.

    ## What it does
    Finds a clip behind `scaler.scale(loss).backward()` with no `scaler.unscale_(optimizer)` before it.

    ## Why is this bad?
    The scaled gradients are huge (the scale starts at 65536), so the clip cuts nearly every step. `scaler.step` then
    divides by the scale, and the true limit turns out to be `max_norm / scale`. With `max_norm=1.0` that is 0.000015:
    no gradient, however large, reaches the optimizer with a longer norm. And the limit moves whenever the scale does.

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
    The fix inserts `scaler.unscale_(optimizer)` in front of the clip (or of the loop or the call that it is in),
    under your own flag where the scaler has one. It is safe: `scaler.step` sees that the gradients are unscaled
    already and does not divide them again. The clip now acts at `max_norm` instead of `max_norm / scale`: with SGD
    expect updates larger by orders of magnitude. Adam hardly feels a constant factor while gradients stay well above
    its `eps` (1e-8), but in a large model they had sunk to that: expect larger updates there, too. A `max_norm` that
    was tuned with the bug in place wants tuning again. No fix is offered where a turn is skipped behind the clip
    (`continue`, a handler), as it would need an `update()` of its own, nor where the scaler may be None and no
    condition can be taken over, nor in a file with neither backward nor scaler: whoever has them may unscale, too.

    ## Known limits
    Clips that unscale by themselves (Accelerate, Fabric, apex's `master_params`) and scalers built with
    `enabled=False` are left alone. When the backward is in another file, the clip is reported only if this file steps
    through a scaler and unscales nowhere.

    ## References
    - [AMP: gradient clipping](https://pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping)
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    meta = RuleMeta("GL201", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.UNSCALES,)
    needs = (Clip,)
    message = "`{clip}` clips gradients that are still multiplied by the scale: the true limit is max_norm / scale"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if state.window.step is None and state.path.unusual:
            return  # a turn that skips the step may skip the unscale_ with it
        if clip.at_scale or clip.api in (ClipApi.MANAGED, ClipApi.MASTER) or clip.exhausted_by is not None:
            return
        inside = next((b for b in state.pending if b.managed_scale), None)
        if inside is not None and not self.file.words.called & {"unscale_gradients", "get_scale"}:
            if not any(c.framework.windows for c in state.window.before(clip, Clip)):
                # its own clip knows of the scaler; whether that may take this one's place hangs on the window
                story = [(inside, f"{inside.framework.name} scales the loss here")]
                yield self.finding(clip, clip=short(clip), related=story)
            return
        if state.scaled is None:
            return
        if any(state.window.after(clip, Unscale)):
            return  # the unscale_ comes too late: GL207
        yield self.finding(
            clip, clip=short(clip), related=[(state.scaled, "scaled gradients are made here")],
            repairs=_repairs(clip, state.scaled, state),
        )  # fmt: skip

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        """The backward is in another file, but scaler.step says that its gradients are scaled."""
        if step.scaler is None or state.has_backward or state.path.file_unscales:
            return
        if any(state.window.of(Unscale)) or any(state.window.of(Opaque)):
            return
        here = self.file.words.called & {"backward", "GradScaler"}
        for clip in state.window.of(Clip):
            if clip.api in (ClipApi.TORCH, ClipApi.MODEL) and clip.same_turn(step) and not clip.at_scale:
                yield self.finding(
                    clip, clip=short(clip), related=[(step, "stepped through the scaler here")],
                    # whoever makes the gradients elsewhere may unscale them, too: a second unscale_ would raise
                    repairs=_repairs(clip, None, state) if here else (),
                )  # fmt: skip


def _repairs(clip: Clip, backward: Backward | None, state: GradientState) -> Iterator[Repair]:
    """One unscale_ serves all clips of a turn: it goes in front of the first; all that one clip touches need it."""
    if any(b.same_turn(clip) for b in state.window.after(clip, Backward)):
        return  # what it makes is scaled, and would be added to what is not any more
    clips = [c for c in state.window.of(Clip) if c.same_turn(clip)]
    wide = len({c.site for c in clips}) > 1
    first = clips[0] if wide and clips else clip
    own = state.window.step
    yield from _unscaled(first, backward, [own] if own else [], wide)
    later = (e for e in state.path.after(clip, Step) if e.same_turn(clip) and e.scaler is not None)
    steps = list({e.optimizer: e for e in later}.values())
    if len(steps) > 1:
        yield from _unscaled(first, backward, steps, wide)


def _unscaled(first: Clip, backward: Backward | None, steps: list[Step], wide: bool) -> list[Repair]:
    """`wide`: outside of the condition round it, because something behind that needs true gradients, too."""
    return outward(
        "Unscale the gradients first", first,
        lambda bench, outer: bench.insert_unscale(first, backward, steps, outer=outer, wide=wide),
    )  # fmt: skip
