"""GL107 clip-misses-parameters."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Clip, Step
from gradlint.rule import Draft, GradientState, Rule, RuleMeta, Severity, short


class ClipMissesParameters(Rule):
    """The clipped parameters are not those that the optimizer updates.

    ## What it does
    Finds a step whose optimizer owns one model while the clip before it was given another one: the teacher instead of
    the student, the averaged copy, the target network.

    ## Why is this bad?
    The gradients that the step uses have no limit. Often the other model has no gradients at all, so the clip does
    nothing and returns 0. Such lines usually come from copying a loop.

    ## Example
    ```python
    import torch

    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
    for x in loader:
        with torch.no_grad():
            wanted = teacher(x)
        optimizer.zero_grad()
        loss = (student(x) - wanted).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(teacher.parameters(), max_norm=1.0)  # not the one that learns
        optimizer.step()
    ```

    ## Use instead
    ```python
    import torch

    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
    for x in loader:
        with torch.no_grad():
            wanted = teacher(x)
        optimizer.zero_grad()
        loss = (student(x) - wanted).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), max_norm=1.0)
        optimizer.step()
    ```

    ## Fix safety
    There is no automatic fix: only you know which parameters the clip was meant for.

    ## Known limits
    Off by default, because two names can share parameters in ways that the code does not show. A model that was given
    to the other one, or that has a part of the same name, counts as sharing; a deep copy does not. The optimizer must
    be built in the same file. Clipping a part of the right model is not reported: it may be meant. So is a clip of what
    another optimizer updates.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    meta = RuleMeta("GL107", Severity.WARNING, default=False)
    needs = (Backward, Clip)
    message = "`{clip}` clips `{target}`, but `{step}` updates other parameters: those are never clipped"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        mine = state.optimizer.params
        if not mine.known or not state.pending or any(state.window.of(Clip)):
            return
        for event in reversed(state.path.events[: step.index]):
            if isinstance(event, Step):
                return
            if isinstance(event, Clip) and event.params.known and not event.params.may_meet(mine):
                if not self._belongs_elsewhere(event, state):
                    yield self.finding(
                        event,
                        clip=short(event),
                        target=event.target,
                        step=short(step),
                        related=[(step, "updated here")],
                    )
                return

    def _belongs_elsewhere(self, clip: Clip, state: GradientState) -> bool:
        """Another optimizer steps what is clipped, or it shares its parameters with what this one steps."""
        others = [r for r in state.path.optimizers.values() if r.id != state.optimizer.id]
        if any(clip.params.may_meet(r.params) for r in others):
            return True
        return self.file.models.may_share(clip.params, state.optimizer.params)
