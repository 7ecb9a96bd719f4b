"""GL302 gradients-scaled-by-hand."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Edit, EditKind, Norm, Step
from gradlint.knowledge import naming
from gradlint.rule import (
    Aspect,
    Draft,
    FixSafety,
    GradientState,
    Repair,
    Rule,
    RuleMeta,
    Severity,
    in_user_words,
    outward,
    short,
)


class GradientsScaledByHand(Rule):
    """Gradients are divided by hand instead of the loss.

    ## What it does
    Looks for `.grad` being divided by N, or multiplied by 1/N, in an accumulation loop, in whatever way it is written
    (`p.grad /= n`, `p.grad.data = p.grad.data * (1 / n)`, `torch._foreach_div_(grads, n)`). On every micro-batch this
    is an error. Once, at the boundary, it is right, and gradlint only advises the shorter way.

    ## Why is this bad?
    On every micro-batch the gradients of *all* earlier micro-batches are divided again: the first of four is divided
    four times and counts 1/256, the last one once and counts 1/4. The result is not only too small, it points
    elsewhere: mostly where the last micro-batch does. At the boundary the result is exact, but it walks over all
    parameters for something that `loss / N` does for free.

    ## Example
    ```python
    def train(model, optimizer, loader, criterion, accum_steps):
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            loss.backward()
            for p in model.parameters():
                p.grad /= accum_steps
            if (i + 1) % accum_steps == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    def train(model, optimizer, loader, criterion, accum_steps):
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            (loss / accum_steps).backward()
            if (i + 1) % accum_steps == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Fix safety
    Safe. The fix deletes the division of the gradients and divides the loss by the same N, where its backward is. At
    the boundary no number changes beyond rounding. On every micro-batch the gradient becomes the mean that was meant:
    larger, and in another direction. No fix is offered where the division depends on a flag, where N is not known
    where the backward is, or where the factor is not written as 1/N or as a number.

    ## Known limits
    A factor of its own at the boundary, say `world_size / num_tokens`, is a normalisation in place of `/ N` and is not
    flagged. Only windows with a visible boundary are judged: a modulo, a counter, an inner loop. A plain number that
    gradients are multiplied by is taken for 1/N only where N is a number as well. Hooks are not judged.

    ## References
    - [Gradient accumulation](https://pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    - [torch.Tensor.backward](https://pytorch.org/docs/stable/generated/torch.Tensor.backward.html)
    """

    meta = RuleMeta("GL302", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.DIVISION, Aspect.EDITS)
    needs = (Backward, Step)
    message = "`{edit}` divides gradients on every micro-batch: earlier ones are divided again and again"

    def on_edit(self, edit: Edit, state: GradientState) -> Iterator[Draft]:
        step = state.window.step
        if step is None or not state.pending or not _divides(edit, state):
            return
        if any(other.kind is EditKind.NEW for other in state.window.of(Edit)):
            return  # what is divided is written anew each time: copies of the model's gradients, in float32
        if naming.RANKS.search(edit.by):
            return  # a mean over ranks, not over micro-batches
        if not _by_window(edit, state) and all(b.norm is Norm.DIVIDED for b in state.pending):
            return  # the loss is divided by N already: this is about something else
        again = state.added_behind(edit)
        if again is not None and (
            step.window or state.window.micro_loop or _by_window(edit, state)
        ):  # fmt: skip
            by = f"{edit.number:g}" if edit.kind is EditKind.SCALE and edit.number is not None else edit.by
            repairs = _repairs(edit, state, by)
            yield self.finding(
                edit, edit=short(edit), related=[(again, "the next micro-batch is added here")], repairs=repairs,
                place=edit.beside(state.window.closed_in),
            )  # fmt: skip
        elif again is None and state.window.accumulates and step.modulo and _by_window(edit, state):
            yield self.finding(
                edit, message="`{edit}` divides gradients by hand: dividing the loss by `{n}` does the same for free",
                severity=Severity.ADVICE, edit=short(edit), n=step.window,
                repairs=_repairs(edit, state, step.window),
            )  # fmt: skip


def _repairs(edit: Edit, state: GradientState, by: str) -> Iterator[Repair]:
    """All loops that divide in this window go, and each loss is divided once."""
    divisions = {e.site: e for e in state.window.of(Edit) if _divides(e, state)}
    losses = list({b.site: b for b in state.window.of(Backward)}.values())
    edits = [edit, *(e for e in divisions.values() if e.site != edit.site)]
    message = f"Divide the loss by `{in_user_words(by)}` instead of the gradients"
    act = outward(message, edit, lambda bench, outer: bench.divide_not_gradients(edits, losses, outer))
    yield from reversed(act)  # the call of a function that does nothing else goes, rather than what is in it


def _by_window(edit: Edit, state: GradientState) -> bool:
    return state.window.counts(edit.by, edit.number) or (
        edit.kind is EditKind.DIVIDE and edit.number is None and state.window.counts(edit.words, None)
    )


def _divides(edit: Edit, state: GradientState) -> bool:
    """By anything; or it multiplies by just 1/N: `p.grad *= 0.25`."""
    if edit.kind is EditKind.SCALE:
        return edit.number is not None and state.window.size is not None and state.window.counts("", edit.number)
    return edit.kind is EditKind.DIVIDE
