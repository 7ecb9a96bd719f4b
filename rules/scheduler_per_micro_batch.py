"""GL305 scheduler-per-micro-batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gradlint.events import Manager, Schedule, Step
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class SchedulerPerMicroBatch(Rule):
    """The learning-rate scheduler moves on with every micro-batch."""

    meta = RuleMeta("GL305", Category.ACCUMULATION, Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{schedule}` runs on every micro-batch, but `{step}` once per {n}: the schedule ends {n} times too early"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        window = state.window
        if not window.closes:
            return
        counts = Counter(e.site for e in window.of(Schedule))
        for schedule in window.of(Schedule):
            if counts[schedule.site] >= 2 and schedule.manager is Manager.NOBODY and step.manager is Manager.NOBODY:
                counts[schedule.site] = 0
                yield self.finding(
                    schedule, schedule=short(schedule), step=short(step), n=f"`{window.size_text}`",
                    related=[(step, f"the window of `{window.size_text}` ends here")],
                )  # fmt: skip
