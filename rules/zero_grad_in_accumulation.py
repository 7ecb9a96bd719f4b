"""GL402 zero-grad-in-accumulation."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Mark, Step, Zero
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class ZeroGradInAccumulation(Rule):
    """Gradients are cleared on every micro-batch of an accumulation window.

    ## What it does
    Looks for a `zero_grad()` (or `p.grad = None`) that runs between the micro-batches of one window. Under
    `accelerator.accumulate` it flags a `zero_grad()` *before* the backward: it acts on the last micro-batch and erases
    the others.

    ## Why is this bad?
    The step sees the last micro-batch only. You pay for N forwards and backwards and train on a batch N times
    smaller than you think, with a gradient that was divided by N on top.

    ## Example
    ```python
    def train(model, optimizer, loader, criterion, accum_steps):
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(x), y) / accum_steps
            loss.backward()
            if (i + 1) % accum_steps == 0 or i + 1 == len(loader):
                optimizer.step()
    ```

    ## Use instead
    ```python
    def train(model, optimizer, loader, criterion, accum_steps):
        optimizer.zero_grad()
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y) / accum_steps
            loss.backward()
            if (i + 1) % accum_steps == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Fix safety
    Safe. The fix moves the clearing behind the boundary's step; where the loader may end in the middle of a window, it
    also clears in front of the loop. Each update is then made of N micro-batches instead of one: with SGD the steps
    become up to N times longer, with AdamW they keep their length and lose noise. Nothing is offered where the
    gradients are read behind the step, where another loss (a GAN's generator's) leaves gradients in the same
    parameters, or where the boundary is hidden in another function.

    ## Known limits
    Only windows with a visible boundary are judged: a modulo, a counter, an inner loop, Accelerate. With `accumulate`,
    clearing *after* the step on every batch is right, because Accelerate skips it in mid-window. Gradients that are put
    aside before they are cleared (copies in a list, a running sum, `get_grads(model)`) are not lost, and where `.grad`
    is written anew before the step nothing is said: private training and gradient surgery work like that. Whether all
    that was put aside comes back is not followed.

    ## References
    - [torch.optim.Optimizer.zero_grad](https://pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    - [Gradient accumulation](https://pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    - [Accelerate: gradient accumulation](https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation)
    """

    meta = RuleMeta("GL402", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.CLEARS, Aspect.USED)
    needs = (Backward, Zero)
    message = "`{zero}` runs inside the accumulation window: of {n} micro-batches only the last one counts"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if not state.lost or not state.pending or state.window.single or not state.window.steps_late:
            return
        for lost, zero in state.lost:
            if zero.asked_apart(lost):
                continue  # whoever asks when to clear is trusted to ask for the start of a window
            again = next((b for b in state.pending if lost.same_loss(b)), None)
            if again is not None:
                if _between_micro_batches(lost, zero, again, state):
                    yield self.finding(
                        zero, zero=short(zero), n=state.window.size_shown,
                        related=[(lost, "these gradients are thrown away"), (step, "used only here")],
                        # no fix where another loss runs back through the same parameters: this clears after it, too
                        repairs=[] if any(state.foreign_backwards()) else [_moved(zero, step)],
                        place=zero.beside(state.window.closed_in),
                    )  # fmt: skip
                    return


def _moved(zero: Zero, step: Step) -> Repair:
    return Repair("Move the clearing behind the step", lambda bench: bench.clear_behind_window(zero, step))


def _between_micro_batches(lost: Backward, zero: Zero, again: Backward, state: GradientState) -> bool:
    """The zeroing stands in the very loop whose turns are the micro-batches, not round it, and that loop goes on."""
    turns = {f.loop: f.turn for f in again.frames}
    going = {f.loop for f in lost.frames if turns.get(f.loop, f.turn) != f.turn}
    innermost = lost.frames[-1].loop if lost.frames else None
    if any(mark.over and mark.loop == innermost for mark in state.path.between(lost, zero, Mark)):
        return False  # the first micro-batch of another window clears what an earlier one has left
    return innermost in going and any(f.loop == innermost for f in zero.frames)
