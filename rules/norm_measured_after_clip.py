"""GL112 norm-measured-after-clip."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Clip, ClipApi, ClipKind, Edit, Read, Save
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class NormMeasuredAfterClip(Rule):
    """Gradient norms are logged after the clip, where they say little.

    ## What it does
    Finds code that measures gradients between the clip and the step.

    ## Why is this bad?
    Behind the clip the norm is never above `max_norm`. Whenever the clip acts, your plot shows the threshold and not
    the gradients: the spikes you are looking for are gone. `clip_grad_norm_` returns the norm from before the clip,
    so the number you want is already there.

    ## Example
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        for name, p in model.named_parameters():
            writer.add_scalar(name, p.grad.norm().item())  # already clipped
        optimizer.step()
    ```

    ## Use instead
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        writer.add_scalar("grad_norm", norm.item())
        optimizer.step()
    ```

    ## Fix safety
    The fix moves the measurement in front of the clip or, if other code stands in the way, the clip behind the
    measurement. It is safe: what you log changes, what you train does not. Only code that decides by the measured
    norm (to skip a step, say) may decide otherwise, since it now sees the true norm. No fix is offered where the norm
    that the clip returns is kept already, or where a `try` is in the way.

    ## Known limits
    Gradients that are measured on both sides of the clip are left alone: somebody wants to see what the clip does. A
    norm behind a clip whose returned norm is kept is reported, without a fix. A check whether gradients are finite is
    no measurement, nor is what is read where gradients are put aside or written anew behind the clip: it is part of a
    calculation with them as they are (an attack, a perturbation of the weights, an update for a server). Helpers are
    followed only inside the file.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    meta = RuleMeta("GL112", Severity.ADVICE, fix=FixSafety.SAFE)
    mends = (Aspect.READS,)
    needs = (Backward, Clip)
    message = "`{read}` looks at gradients after `{clip}`: it shows the threshold, not the gradients"

    def on_read(self, read: Read, state: GradientState) -> Iterator[Draft]:
        clip = state.clip
        if state.path.entry.startswith(("test", "check", "assert")):
            return  # a test of the clip looks at what it did
        if clip is None or read.finite or not read.params.may_meet(clip.params) or _measured_before(read, clip, state):
            return
        if _computed_with(clip, state):
            return
        if clip.kind is ClipKind.NORM and state.pending and read.same_turn(clip):
            yield self.finding(
                read, read=short(read), clip=short(clip), related=[(clip, "clipped here")],
                # whoever keeps the clip's own norm wants both
                repairs=[
                    Repair(_EARLY, lambda bench: bench.move(read, before=clip, unbound=clip)),
                    Repair(_LATE, lambda bench: bench.move(clip, after=read, past=(Read,), unbound=clip)),
                ],
            )  # fmt: skip


def _measured_before(read: Read, clip: Clip, state: GradientState) -> bool:
    """The same is measured in front of the clip, too: somebody wants to see what the clip does."""
    made = state.pending[-1].index if state.pending else 0
    before = [e for e in state.path.events[made : clip.index] if isinstance(e, Read) and not e.finite]
    return any(e.params.may_meet(read.params) and e.params.may_meet(clip.params) for e in before)


def _computed_with(clip: Clip, state: GradientState) -> bool:
    """Behind the clip the gradients are put aside or written anew: what is measured there is part of a calculation
    that wants them as they are, and another order would give other numbers."""
    for event in state.window.events:
        if event.index > clip.index and isinstance(event, Save | Edit | Clip):
            own = not isinstance(event, Clip) or event.api is ClipApi.OWN
            if own and event.params.may_meet(clip.params):
                return True
    return False


_EARLY = "Measure the gradients before they are clipped"
_LATE = "Clip only after the gradients were measured"
