"""GL406 scheduler-before-optimizer."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import PLAIN, Opaque, Schedule, Step, Update
from gradlint.knowledge.rows import Thing
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class SchedulerBeforeOptimizer(Rule):
    """The learning-rate scheduler steps before the optimizer.

    ## What it does
    Looks for a scheduler of `torch.optim.lr_scheduler` that is stepped before the optimizer in the same iteration.

    ## Why is this bad?
    Since PyTorch 1.1 a scheduler sets the learning rate of the *next* step. Called first, it skips the first value of
    the schedule: a warm-up begins with its second value, and a schedule by epoch trains its first epoch with the
    second epoch's learning rate. PyTorch warns, but only about the very first call, and the warning is easily lost in
    a log.

    ## Example
    ```python
    def train(model, optimizer, loader, criterion):
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.99)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            scheduler.step()
            optimizer.step()
    ```

    ## Use instead
    ```python
    def train(model, optimizer, loader, criterion):
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.99)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
    ```

    ## Fix safety
    Safe. The fix moves the scheduler's step, with its condition, behind the optimizer's and the scaler's update; a
    scheduler of epochs goes behind the whole loop over the batches. The curve stays the same and begins where it
    should: every update gets the rate that the update before it got until now. A batch that is skipped with `continue`
    no longer counts.

    ## Known limits
    Schedulers of your own, or of other libraries, may set the rate of this step by design; only those of
    `torch.optim.lr_scheduler` are judged, without `ReduceLROnPlateau` (it has no first value) and the old form
    `scheduler.step(epoch)` (it sets the rate of this epoch). PyTorch's own warning also fires when a gradient scaler
    skipped the first step because of infinite gradients: then the order is right, and gradlint stays silent.

    ## References
    - [How to adjust the learning rate](https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
    - [ExponentialLR](https://pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ExponentialLR.html)
    """

    meta = RuleMeta("GL406", Severity.WARNING, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.SCHEDULES,)
    needs = (Step, Thing.SCHEDULER)
    message = "`{schedule}` runs before `{step}`: the first learning rate of the schedule is skipped"

    def on_schedule(self, schedule: Schedule, state: GradientState) -> Iterator[Draft]:
        if not schedule.torch or schedule.framework is not PLAIN or state.steps or not schedule.frames:
            return
        if not schedule.text.endswith("()"):
            return  # `step(epoch)` says itself where in the schedule it is
        step = next(state.window.after(schedule, Step), None)
        if step is None or step.framework.waits or not schedule.shares_loop(step) or not schedule.same_turn(step):
            return
        if any(state.window.between(schedule, step, Opaque)) or any(state.window.before(schedule, Opaque)):
            return
        yield self.finding(
            schedule, schedule=short(schedule), step=short(step), related=[(step, "the optimizer steps here")],
            repairs=[_repair(schedule, step)],
        )  # fmt: skip


def _repair(schedule: Schedule, step: Step) -> Repair:
    """A scheduler of epochs stays one: it goes behind the whole loop that steps."""
    outside = len(schedule.frames) < len(step.frames)
    return Repair(
        "Move the scheduler behind the optimizer",
        lambda bench: bench.move(schedule, after=step, past=(Update, Schedule), level=outside),
    )
