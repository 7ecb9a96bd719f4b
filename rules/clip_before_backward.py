"""GL102 clip-before-backward."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import PLAIN, Backward, Clip, Framework, Opaque, Step
from gradlint.rule import (
    Aspect,
    ClipSetting,
    Draft,
    FixSafety,
    GradientState,
    Phase,
    Repair,
    Rule,
    RuleMeta,
    Severity,
    short,
)


class ClipBeforeBackward(Rule):
    """Gradients are clipped before any backward has made them.

    ## What it does
    Finds a clip that runs before the backward: between `zero_grad()` and `backward()`, at the head of the iteration,
    once at set-up as if it were a setting of the model, or in Lightning's `training_step`, whose backward comes
    later.

    ## Why is this bad?
    There is nothing to clip yet. `zero_grad()` sets gradients to `None` by default, so the clip sees no gradients,
    returns 0 and does nothing. The gradients that the step uses are never limited.

    ## Example
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)  # no gradients yet
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
    ```

    ## Fix safety
    The fix moves the clip behind the backward, as close to the step as it can, with the condition round it, and
    unscales first if a scaler is used. It is safe: a clip before the backward has no effect at all. The clip acts
    from now on: expect shorter updates wherever the norm is above the limit. No fix is offered where the norm is used
    before the backward, where backward and step are in one helper or in both arms of an `if`. In Lightning's
    `training_step` the clip is deleted if a `Trainer` of the same file is given `gradient_clip_val`, for that is the
    clip that acts; without one there is no fix: pass `gradient_clip_val` to your `Trainer`.

    ## Known limits
    A clip that stands under the condition of a window, but in front of the window's last backward, is told as well: it
    misses the gradients of the last micro-batch.

    A call that gradlint cannot follow, between the clip and the backward, might make gradients itself: then nothing
    is said. A clip at set-up is reported only when the loop has no clip of its own.

    Of Lightning's hooks only `training_step` runs before the backward. A clip by hand in `on_before_optimizer_step`
    beside `Trainer(gradient_clip_val=...)` clips twice, which is superfluous but not wrong: two clips by norm act as
    the one with the smaller limit. `configure_gradient_clipping` takes the place of Lightning's own clip. Nothing is
    said about either. `on_after_backward` runs on every micro-batch and, with `precision="16-mixed"`, before gradients
    are unscaled; a clip there is not looked at.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    - [Optimizer.zero_grad](https://pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    - [Lightning: gradient clipping](https://lightning.ai/docs/pytorch/stable/advanced/training_tricks.html#gradient-clipping)
    """

    meta = RuleMeta("GL102", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.CLIPS,)
    message = "`{clip}` runs before `{backward}`: there are no gradients to clip yet, so nothing is clipped"

    without_the_last = "`{clip}` runs before `{backward}`: it misses the gradients of the window's last micro-batch"
    in_vain = "`{clip}` runs before {framework}'s backward and clips nothing; `{trainer}` clips behind it"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if clip.before is not PLAIN:
            yield self._in_vain(clip, clip.before)
            return
        if clip.exhausted_by is not None:
            return
        if state.pending:
            yield from self._without_the_last(clip, state)
            return
        backward = next(state.window.after(clip, Backward), None)
        if backward is None or any(state.window.between(clip, backward, Opaque)):
            return
        if state.last_step is not None and clip.same_turn(state.last_step):
            return  # behind the step of its own turn: GL101
        at_setup = len(clip.frames) < len(backward.frames)
        if at_setup and (any(state.window.after(backward, Clip)) or len(state.life.windows) < 2):
            return
        if state.phase in (Phase.EMPTY, Phase.CONSUMED) or (at_setup and not state.pending):
            if at_setup or clip.same_turn(backward):
                yield self.finding(
                    clip,
                    clip=short(clip),
                    backward=short(backward),
                    related=[(backward, "the gradients are made here")],
                    repairs=_repairs(clip, backward, state.window.step),
                )

    def _without_the_last(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        """At the end of a window, but in front of its last backward."""
        window, step = state.window, state.window.step
        backward = next(window.after(clip, Backward), None)
        if backward is None or step is None or not window.accumulates or window.inner_loop:
            return
        if not (clip.same_turn(backward) and step.same_turn(backward)) or any(b.same_turn(clip) for b in state.pending):
            return  # amid several losses of one batch, or in another turn
        again = [e for e in window.of(Clip) if e is not clip]
        between = any(window.between(clip, step, Opaque)) or any(window.after(backward, Backward))
        if not again and not between:
            yield self.finding(
                clip, message=self.without_the_last, clip=short(clip), backward=short(backward),
                related=[(backward, "the last gradients of the window are made here")],
                repairs=reversed([*_repairs(clip, backward, step)]),  # under its own condition if it has one
            )  # fmt: skip

    def _in_vain(self, clip: Clip, framework: Framework) -> Draft:
        name = framework.name
        limits = [x for x in self.file.settings if isinstance(x, ClipSetting) and x.kind is not None]
        own = next((x for x in limits if x.framework is framework), None)
        if own is None or own.site is None:
            # no fix: the backward and the step are the framework's, and its trainer may be built anywhere
            return self.finding(clip, clip=short(clip), backward=f"{name}'s backward")
        message = f"Delete the clip: {name}'s own acts behind the backward"
        return self.finding(
            clip, message=self.in_vain, clip=short(clip), trainer=own.text, framework=name,
            related=[(own.site, f"{name} clips by itself")],
            repairs=[Repair(message, lambda bench: bench.delete(clip))],
        )  # fmt: skip


def _repairs(clip: Clip, backward: Backward, step: Step | None) -> Iterator[Repair]:
    """In front of the step is best: there, a window is complete and gradients are unscaled."""
    if step is not None:
        message = "Move the clip behind the backward, in front of the step"
        yield Repair(message, lambda bench: bench.move(clip, before=step))
    yield Repair("Move the clip behind the backward", lambda bench: bench.move(clip, after=backward))
