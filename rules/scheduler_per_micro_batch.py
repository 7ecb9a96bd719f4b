"""GL305 scheduler-per-micro-batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gradlint.events import PLAIN, Backward, Schedule, Step, Update
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class SchedulerPerMicroBatch(Rule):
    """The learning-rate scheduler moves on with every micro-batch.

    ## What it does
    Looks for a `scheduler.step()` that runs N times while the optimizer steps once.

    ## Why is this bad?
    A schedule that was laid out in updates is over after 1/N of the training: warm-up is N times too short, and the
    decay ends early. What comes then depends on the schedule: most stay at their final, tiny learning rate,
    `CosineAnnealingLR` climbs back to where it began, and `OneCycleLR` raises.

    ## Example
    ```python
    def train(model, optimizer, loader, criterion, accum_steps, updates):
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=updates)
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y) / accum_steps
            loss.backward()
            if (i + 1) % accum_steps == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
            scheduler.step()
    ```

    ## Use instead
    ```python
    def train(model, optimizer, loader, criterion, accum_steps, updates):
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=updates)
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y) / accum_steps
            loss.backward()
            if (i + 1) % accum_steps == 0 or i + 1 == len(loader):
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
    ```

    ## Fix safety
    Safe. The fix moves the call, with its comments and its condition, into the boundary, behind the optimizer's step
    and the scaler's update. The learning rate then changes once per update, so warm-up and decay last N times as many
    batches. Have a look at the lengths you gave the schedule (`T_max`, `total_steps`, warm-up): they must be counted
    in updates, too. No fix is offered where a length is plainly a number of batches (`epochs * len(loader)`), or
    where the call stands alone in a `try` or in a function that does something else.

    ## Known limits
    gradlint does not know in which unit the schedule was laid out. If you counted its length in micro-batches on
    purpose, it ends in time, and you may ignore the finding on that line. Schedulers prepared by Accelerate or stepped
    by Lightning and DeepSpeed are left to them.

    ## References
    - [How to adjust the learning rate](https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
    - [CosineAnnealingLR](https://pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.CosineAnnealingLR.html)
    """

    meta = RuleMeta("GL305", Severity.WARNING, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.SCHEDULES,)
    needs = (Backward, Schedule)
    message = "`{schedule}` runs on every micro-batch, but `{step}` once per {n}: the schedule ends {n} times too early"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        window = state.window
        if not window.closes and not (window.inner_loop and window.accumulates):
            return
        # a loop of its own, over schedulers or to catch up, is no loop over micro-batches
        loops = {frame.loop for backward in window.of(Backward) for frame in backward.frames}
        turns = {(e.site, tuple(f for f in e.frames if f.loop in loops)) for e in window.of(Schedule)}
        counts = Counter(site for site, _ in turns)
        for schedule in window.of(Schedule):
            if counts[schedule.site] < 2 or step.framework is not PLAIN:
                continue
            if schedule.framework is not PLAIN or not schedule.torch:
                continue  # a class of the project has a unit of its own
            if not schedule.text.endswith("()"):
                continue  # `step(epoch + i / n)` says itself where in the schedule it is
            counts[schedule.site] = 0
            counted = schedule.per_batch  # its length is a number of micro-batches: on time, yet uneven
            yield self.finding(
                schedule, schedule=short(schedule), step=short(step), n=window.size_shown,
                message=_COUNTED if counted else None, severity=Severity.ADVICE if counted else None,
                related=[(step, f"the window of {window.size_shown} ends here")],
                # no fix where the length counts micro-batches: it would have to change, too
                repairs=[_moved(schedule, step)] if not counted else [], place=schedule.beside(window.closed_in),
            )  # fmt: skip


def _moved(schedule: Schedule, step: Step) -> Repair:
    past = (Update, Schedule)
    return Repair("Move the scheduler into the boundary", lambda bench: bench.move(schedule, after=step, past=past))


_COUNTED = (
    "`{schedule}` runs on every micro-batch, but `{step}` once per {n}: most of its learning rates are never used"
)
