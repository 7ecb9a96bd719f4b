"""GL111 gradient-edit-after-clip."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.events import Clip, Edit, EditKind, Step
from gradlint.rule import Aspect, Draft, File, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class GradientEditAfterClip(Rule):
    """Gradients are changed between the clip and the step.

    ## What it does
    Finds code that writes into `.grad` behind the clip: added noise or weight decay, a factor, an all-reduce.

    ## Why is this bad?
    The clip promises that no step uses a gradient longer than `max_norm`. An edit behind it breaks the promise.
    Clipping before an all-reduce has a second effect: each rank clips by its own norm, so ranks with large gradients
    lose weight in the average.

    ## Example
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        for p in model.parameters():
            p.grad.add_(torch.randn_like(p.grad), alpha=0.01)  # the norm grows again
        optimizer.step()
    ```

    ## Use instead
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        for p in model.parameters():
            p.grad.add_(torch.randn_like(p.grad), alpha=0.01)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
    ```

    ## Fix safety
    The fix moves the clip, with the condition round it, behind the last of the edits that follow it. It is safe: the
    limit then holds for the gradients that the step really uses. Expect shorter updates wherever the edit had
    lengthened a gradient beyond the limit; a norm that the clip returns is now that of the edited gradients, and
    after an all-reduce it is the same on all ranks. No fix is offered where the edit is made from the norm that the
    clip returns.

    ## Known limits
    Edits that cannot lengthen a gradient (division, clamping, a constant factor of at most 1, clearing some of them)
    are left alone; of a factor with a name, gradlint does not work out how large it is. Differentially
    private training clips first and adds noise afterwards on purpose; it is recognised by its names (`privacy`,
    `noise_multiplier`, `dp_...`). A `.grad` that is written anew, from a sum or from anything but itself, is another
    gradient, for which the clip promised nothing. Edits of parameters that were not clipped are left alone.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    meta = RuleMeta("GL111", Severity.WARNING, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.CLIPS,)
    needs = (Clip, Step)
    message = "`{edit}` changes gradients after `{clip}`: the step may use a norm above the limit"

    def on_edit(self, edit: Edit, state: GradientState) -> Iterator[Draft]:
        clip = state.clip
        if clip is None or edit.kind in _ALLOWED or _shrinks(edit) or self.file.once(_is_private):
            return
        if edit.kind is EditKind.PERHAPS:
            return
        if not edit.params.may_meet(clip.params):
            return  # another network's
        if state.window.step is not None and edit.same_turn(clip):
            yield self.finding(
                edit, edit=short(edit), clip=short(clip), related=[(clip, "clipped here")],
                repairs=[Repair(_MOVE, lambda bench: bench.move(clip, after=edit, past=(Edit,)))],
            )  # fmt: skip


def _is_private(file: File) -> bool:
    """Differentially private training clips first and adds noise then, on purpose."""
    return any(_PRIVATE.search(name) for name in file.words.seen)


def _shrinks(edit: Edit) -> bool:
    """A constant factor of at most 1 cannot lengthen a gradient."""
    try:
        return edit.kind is EditKind.SCALE and abs(float(edit.by)) <= 1
    except ValueError:
        return False  # a name, an expression


_MOVE = "Move the clip behind the last change of the gradients"
#: what cannot lengthen a gradient, and another gradient, for which the clip promised nothing
_ALLOWED = (EditKind.CLAMP, EditKind.DIVIDE, EditKind.NEW)
_PRIVATE = re.compile(r"(?i)privacy|noise_mult|(^|_)dp_")
