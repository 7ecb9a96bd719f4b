"""GL406 scheduler-before-optimizer."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Manager, Opaque, Schedule, Step
from gradlint.machine.state import GradientState
from gradlint.machine.trace import same_turn, share_loop
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class SchedulerBeforeOptimizer(Rule):
    """The learning-rate scheduler steps before the optimizer."""

    meta = RuleMeta("GL406", Category.LOOP, Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{schedule}` runs before `{step}`: the first learning rate of the schedule is skipped"

    def on_schedule(self, schedule: Schedule, state: GradientState) -> Iterator[Draft]:
        if not schedule.torch or schedule.manager is not Manager.NOBODY or state.steps or not schedule.frames:
            return
        step = next(state.window.after(schedule, Step), None)
        if step is None or step.manager is Manager.DEEPSPEED or not share_loop(schedule, step) or not same_turn(schedule, step):
            return
        if any(state.window.between(schedule, step, Opaque)) or any(state.window.before(schedule, Opaque)):
            return
        yield self.finding(schedule, schedule=short(schedule), step=short(step), related=[(step, "the optimizer steps here")])
