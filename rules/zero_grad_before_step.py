"""GL403 zero-grad-before-step."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.events import Backward, Step, Zero
from gradlint.rule import (
    Aspect,
    Draft,
    FixSafety,
    GradientState,
    Phase,
    Repair,
    Rule,
    RuleMeta,
    Severity,
    Window,
    short,
)


class ZeroGradBeforeStep(Rule):
    """Gradients are cleared between the backward and the step.

    ## What it does
    Looks for a `zero_grad()` (of the optimizer or of its model) behind the backward and before the step that should
    have used its gradients.

    ## Why is this bad?
    The step finds no gradients and does nothing: `zero_grad()` sets them to `None`, and optimizers skip such
    parameters. Nothing fails, the loss just never moves. With `set_to_none=False` the gradients are zeros: the data
    still teaches nothing, while momentum and weight decay go on moving the weights.

    ## Example
    ```python
    def train(model, optimizer, loader, criterion):
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.zero_grad()
            optimizer.step()
    ```

    ## Use instead
    ```python
    def train(model, optimizer, loader, criterion):
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## Fix safety
    Safe. The fix moves the clearing in front of the backward, or behind the step at the end of a window; both are
    right. One that was cleared in front already, it leaves out. The step gets its gradients back: weights that stood
    still begin to move, and a `GradScaler` no longer raises `No inf checks were recorded for this optimizer`. Nothing
    is offered where a move would empty a block of yours (`finally`), or where the gradients are read behind the step
    that they would be cleared at.

    ## Known limits
    Clearing some parameters only (a frozen last layer), clearing one optimizer between the backward and the step of
    another, and warm-up backwards whose gradients are thrown away on purpose are not flagged; nor are gradients that
    are kept and written again (`w.grad = -g`), and a clearing that is asked for by a loss or a norm that went wrong.

    ## References
    - [torch.optim.Optimizer.zero_grad](https://pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    - [torch.optim.Optimizer.step](https://pytorch.org/docs/stable/generated/torch.optim.Optimizer.step.html)
    """

    meta = RuleMeta("GL403", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.CLEARS, Aspect.USED)
    needs = (Backward, Zero)
    message = "`{zero}` clears the gradients of `{backward}` before `{step}` can use them: it steps without gradients"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        losses = state.own_losses()
        if not losses or state.pending or state.phase is not Phase.EMPTY:
            return
        lost, zero = losses[-1]
        if zero.optimizer is None and not zero.params.known:
            return  # perhaps only some of them
        if zero.asked_apart(step) and zero.asked_apart(lost):
            return  # it clears when another window begins
        if not lost.same_turn(step) or not zero.same_turn(step) or not lost.shares_loop(zero):
            return  # thrown away in an earlier turn: this step comes too early (GL404)
        if _WARM_UP.search(state.path.entry):
            return  # one step without gradients makes the optimizer's buffers
        first = next(b for b, cleared in losses if cleared is zero and b.same_turn(step))
        again = any(e.optimizer == zero.optimizer and e.same_turn(first) for e in state.window.before(first, Zero))
        if step.frames or state.path.whole:
            yield self.finding(
                zero, zero=short(zero), backward=short(lost), step=short(step),
                related=[(lost, "gradients are made here"), (step, "and missed here")],
                repairs=_repairs(zero, first, step, windowed=_closes(step, lost, state.window), again=again),
            )  # fmt: skip


def _closes(step: Step, lost: Backward, window: Window) -> bool:
    """The step may be that of several backwards."""
    return bool(step.window) or step.asked_apart(lost) or window.inner_loop or window.accumulates


def _repairs(zero: Zero, first: Backward, step: Step, *, windowed: bool, again: bool) -> Iterator[Repair]:
    """Both are right in a plain loop, where people clear before the backward, the first of several; in a window only
    behind the step. What was cleared in front already is cleared once."""
    early = Repair("Move the clearing in front of the backward", lambda bench: bench.clear_before(zero, first, step))
    once = Repair("Leave out the second clearing", lambda bench: bench.delete(zero))
    late = Repair("Move the clearing behind the step", lambda bench: bench.clear_late(zero, step))
    yield from (late,) if windowed else (once, early, late) if again else (early, late)


_WARM_UP = re.compile(r"(?i)warm_?up|init|dummy|setup|materiali[sz]e")
