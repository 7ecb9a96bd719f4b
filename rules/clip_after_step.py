"""GL101 clip-after-step."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Clip, Step
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Phase, Repair, Rule, RuleMeta, Severity, short


class ClipAfterStep(Rule):
    """Gradients are clipped after the optimizer has used them.

    ## What it does
    Finds a clip that stands behind the optimizer's step, with no backward in between.

    ## Why is this bad?
    The step has already used the gradients at their full length. The clip then shortens what is left over, and the
    next `zero_grad()` throws that away. Training runs as if there were no clip, and nothing tells you: even the norm
    that the clip returns is the one you expect.

    ## Example
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)  # too late
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
    The fix moves the clip in front of the step, with the condition round it and the norm that it binds, and unscales
    first if a scaler is used. It is safe: a clip can only act there, so this is what the code meant. The clip acts
    from now on: expect shorter updates wherever the norm is above the limit. No fix is offered where the clip would
    have to stand twice (backward and step in both arms of an `if`), where its norm decides how the loop goes on, or
    where a name that it uses gets its value only behind the step.

    ## Known limits
    The backward and the step must be visible in the file, or in a function that the file defines. A clip at the head
    of the next iteration comes too early rather than too late: that is clip-before-backward (GL102).

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    meta = RuleMeta("GL101", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.CLIPS,)
    needs = (Backward, Step)
    message = "`{clip}` runs after `{step}`: these gradients are already consumed, so nothing is clipped"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        step = state.last_step
        if step is None or state.pending or not state.has_backward or clip.exhausted_by is not None:
            return
        if not clip.same_turn(step):
            return  # a new turn has begun: the clip comes too early (GL102), not too late
        if _is_of_another_step(clip, state):
            return  # what is left over at the end of an epoch is clipped there
        if state.phase is Phase.CONSUMED or state.phase is Phase.EMPTY:
            yield self.finding(
                clip,
                clip=short(clip),
                step=short(step),
                related=[(step, f"gradients consumed here by `{short(step)}`")],
                repairs=[Repair("Move the clip in front of the step", lambda bench: bench.move(clip, before=step))],
            )


def _is_of_another_step(clip: Clip, state: GradientState) -> bool:
    """The next step of this optimizer stands behind the clip, with no backward in between."""
    own = (step for step in state.path.after(clip, Step) if step.optimizer == state.optimizer.id)
    step = next(own, None)
    return step is not None and step.frames == clip.frames and not any(state.path.between(clip, step, Backward))
