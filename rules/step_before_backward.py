"""GL404 step-before-backward."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Event, Schedule, Step, Update, Zero
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Phase, Repair, Rule, RuleMeta, Severity, short


class StepBeforeBackward(Rule):
    """The optimizer steps before any backward has made gradients.

    ## What it does
    Looks for a `step()` between the clearing of the gradients and the first backward of the same iteration.

    ## Why is this bad?
    At that moment there are no gradients, so the step does nothing. The gradients that the backward makes afterwards
    are cleared at the head of the next iteration, before any step has seen them: the model never learns.

    ## Example
    ```python
    def train(model, optimizer, loader, criterion):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            optimizer.step()
            loss.backward()
    ```

    ## Use instead
    ```python
    def train(model, optimizer, loader, criterion):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    ## Fix safety
    Safe. The fix moves the step behind the backward and behind the clip that follows it; the scaler's update and the
    scheduler's step go with it. The model begins to learn, and a `GradScaler` no longer raises an `AssertionError`.
    Nothing is offered where the step's result is used before the backward, or where the step shares the `if` of its
    window with the clearing.

    ## Known limits
    Loops that step first on purpose, with the gradients of the iteration before, clear behind the step and are not
    flagged. Optimizers that are given a closure make their gradients inside the step.

    ## References
    - [torch.optim.Optimizer.step](https://pytorch.org/docs/stable/generated/torch.optim.Optimizer.step.html)
    - [Taking an optimization step](https://pytorch.org/docs/stable/optim.html#taking-an-optimization-step)
    """

    meta = RuleMeta("GL404", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    #: the step, with what belongs to it
    mends = (Aspect.STEPS, Aspect.UNSCALES, Aspect.CLIPS, Aspect.UPDATES, Aspect.SCHEDULES, Aspect.USED)
    needs = (Backward, Zero)
    message = "`{step}` runs before `{backward}`: there are no gradients, the step does nothing"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if state.pending or state.phase is not Phase.EMPTY or state.last_zero is None or not step.frames:
            return
        if not state.last_zero.frames or state.last_zero.frames[-1].loop != step.frames[-1].loop:
            return  # cleared before the loop: later turns step with the gradients of the turn before
        if any(lost.same_turn(step) for lost, _ in state.own_losses()) or step.framework.waits:
            return  # cleared too early: GL403
        index = state.window.number + 1
        following = state.life.windows[index] if index < len(state.life.windows) else None
        backward = next(following.of(Backward), None) if following else None
        if state.path.happened and state.path.events[-1] is step:
            # no fix: the run ended here, before the backward
            yield self.finding(step, message=_LAST, step=short(step), related=[(state.last_zero, "cleared here")])
        if backward is not None and step.same_turn(backward) and step.shares_loop(backward):
            followers = [e for e in state.path.between(step, backward, Event) if isinstance(e, Update | Schedule)]
            # no fix where it is not sure whose backward the step waits for
            sure = not any(state.path.between(step, backward, Backward))
            yield self.finding(
                step, step=short(step), backward=short(backward), related=[(backward, "gradients are made only here")],
                repairs=[Repair(_MOVE, lambda bench: bench.step_behind(step, backward, followers))]
                if sure else [],
            )  # fmt: skip


#: of a run that ended there
_LAST = "`{step}` finds no gradients: no backward has come before it"
_MOVE = "Move the step behind the backward"
