"""What is wrong with a run whatever its order of events: who is not trained, what is not finite, who disagrees."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gradlint.model import Severity
from gradlint.runtime.measure import APART, Run, number, spread
from gradlint.runtime.recording import BackwardRan, Forwarded, Happening, Met, Parameter, Stepped, Surveyed

#: steps that a run needs before it is said that something never happened in it
ENOUGH = 2
#: backwards whose graphs may be alive at a time: a loop, and what it keeps of the last turns
GRAPHS = 4
#: a loss that grew to so many times what it was, at every one of the last steps
GROWTH, RISING = 1e4, 4
#: steps at which a unit had no gradient, and the share of a layer's units, before it is called dead
LIVELESS, DEAD = 5, 0.5


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing that is wrong."""

    #: `no-gradient`
    name: str
    severity: Severity
    message: str
    filename: str = ""
    line: int = 0
    #: the step of an optimizer at which it was first seen, from 1; 0 where it is about the whole run
    step: int = 0
    #: the parameter or the model that it is about
    subject: str = ""


def symptoms(run: Run | None) -> list[Symptom]:
    """All of them, the worst first."""
    if run is None or not run.recording.steps:
        return []
    found = [
        *_not_finite(run), *_trained(run), *_ranks(run), *_exploding(run), *_rates(run), *_eval(run),
        *_graphs(run), *_dead(run),
    ]  # fmt: skip
    return sorted(found, key=lambda s: -s.severity)


def _symptom(
    name: str,
    severity: Severity,
    message: str,
    at: Happening | Parameter | None,
    step: int = 0,
    subject: str = "",
) -> Symptom:
    place = at.places[0] if at is not None and at.places else None
    return Symptom(name, severity, message, place.file if place else "", place.line if place else 0, step, subject)


def _named(rows: Iterable[Parameter]) -> str:
    """`encoder.weight` and 3 more."""
    names = [row.name for row in rows]
    return f"`{names[0]}`" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


# -- who is trained by whom ----------------------------------------------------------------------------------------


def _trained(run: Run) -> Iterator[Symptom]:
    rows = [row for survey in run.recording.of(Surveyed) for row in survey.rows]
    loose = [row for row in rows if row.fed and row.related and row.awake]
    for optimizer in run.optimizers():
        steps = run.recording.steps_of(optimizer)
        if len(steps) < ENOUGH:
            continue
        mine = [row for row in rows if row.optimizer == optimizer]
        if mine and not any(g.present for s in steps for g in (*s.before, *s.gradients)):
            # gradients that were made, and cleared before the step, are an order of events: a rule's business
            if not any(optimizer in b.optimizers for b in run.recording.of(BackwardRan)):
                yield _idle_optimizer(run, optimizer, mine, [row for row in rows if row.fed], steps[-1])
            continue
        if (left := _left_behind(run, steps)) is not None:
            yield left
            continue
        gone = [row for row in mine if not row.layer]
        new = [row for row in loose if row.layer]
        if gone and new:
            said = f"the optimizer has {len(gone)} parameters that no model uses, and {_named(new)} of the model "
            said += "is in no optimizer: was a layer replaced after the optimizer was made?"
            yield _symptom("stale-optimizer", Severity.ERROR, said, run.recording.met(optimizer), subject=new[0].name)
            loose = []
        yield from _cut(mine, len(steps))
    if loose:
        said = f"{_named(loose)} gets gradients, and no optimizer has it: it stays as it was made"
        yield _symptom("not-optimized", Severity.WARNING, said, loose[0], subject=loose[0].name)


def _idle_optimizer(run: Run, optimizer: str, mine: list[Parameter], others: list[Parameter], last: Stepped) -> Symptom:
    """It has stepped, and never with a gradient."""
    frozen = [row for row in mine if not row.trainable]
    said = f"none of the optimizer's {len(mine)} parameters ever had a gradient in {last.number} steps: "
    if frozen and len(frozen) == len(mine):
        said += f"{_named(frozen)} {'is' if len(frozen) == 1 else 'are'} frozen (requires_grad is False)"
    elif not any(row.layer for row in mine):
        said += "they belong to no model that ran"
    else:
        said += f"what is done with {_named(mine)} never reaches a loss"
    if others:
        said += f"; {_named(others)} got gradients"
    return _symptom("idle-optimizer", Severity.ERROR, said, run.recording.met(optimizer), subject=mine[0].name)


def _left_behind(run: Run, steps: list[Stepped]) -> Symptom | None:
    """From some step on it steps without any gradient, and backwards go by it: the model is another one by now."""
    last = next((s for s in reversed(steps) if any(g.present for g in s.before)), None)
    after = [s for s in steps if last is not None and s.index > last.index]
    if last is None or len(after) < ENOUGH or any(s.skipped for s in after):
        return None
    backwards = [b for b in run.recording.of(BackwardRan) if b.index > last.index]
    frozen = any(g.total <= s.frozen for s in after for g in s.before)
    if frozen or len(backwards) < ENOUGH or any(last.owner in b.optimizers for b in backwards):
        return None
    said = (
        f"none of the optimizer's parameters has had a gradient since step {after[0].number}, though backwards go on: "
    )
    said += "was the model replaced (by a copy, a new one with a checkpoint in it) after the optimizer was made?"
    return _symptom("stale-optimizer", Severity.ERROR, said, after[0], after[0].number)


def _dead(run: Run) -> Iterator[Symptom]:
    """Units that no batch of the run has excited."""
    found = [row for survey in run.recording.of(Surveyed) for row in survey.units]
    for row in found:
        if row.steps >= LIVELESS and row.awake and (DEAD <= row.dead < 1 or (row.dead == 1 and row.first)):
            name = row.name.removesuffix(".bias")
            said = (
                f"{row.dead:.0%} of the units of `{name}` ({row.layer}) had no gradient at any of {row.steps} steps: "
            )
            said += "dead, as behind a ReLU that is never above 0"
            yield _symptom("dead-units", Severity.ADVICE, said, row, subject=name)


def _cut(mine: list[Parameter], steps: int) -> Iterator[Symptom]:
    """Layers that ran, are to be trained, and never got a gradient. A branch whose result nobody uses is no mistake:
    only where the data comes in must something come back."""
    ran = [row for row in mine if row.trainable and row.ran and row.awake]
    if not any(row.first for row in ran):
        return
    without = [row for row in ran if row.ran == "without a graph"]
    cut = [row for row in ran if row.ran == "with a graph"]
    for rows, why in (
        (without, "its layer runs under no_grad"),
        (cut, "the graph is cut between it and the loss (detach(), .data, no_grad, numpy)"),
    ):
        if rows:
            said = f"{_named(rows)} is in the optimizer and ran, but had no gradient in {steps} steps: {why}"
            yield _symptom("no-gradient", Severity.WARNING, said, rows[0], subject=rows[0].name)


# -- numbers ---------------------------------------------------------------------------------------------------------


def _not_finite(run: Run) -> Iterator[Symptom]:
    """The first step that used, or left, what is not finite. What is skipped, or thrown away, does no harm."""
    for optimizer in run.optimizers():
        for window in run.windows(optimizer):
            step = run.step(window)
            if step is None or step.skipped:
                continue
            used = step.before_of(optimizer)
            losses = [b.loss for b in run.used(window) if b.loss is not None]
            if (used is not None and not used.finite) or not all(map(math.isfinite, losses)):
                yield _cause(run.used(window), step)
                return
            if step.weights is not None and not math.isfinite(step.weights[0]):
                said = f"the weights are not finite after step {step.number}, though its gradients were (norm "
                said += f"{number(used.norm if used else None)}, learning rate {number(max(step.rates, default=None))})"
                yield _symptom("not-finite", Severity.ERROR, said, step, step.number)
                return


def _cause(backwards: list[BackwardRan], step: Stepped) -> Symptom:
    for backward in backwards:
        if backward.loss is not None and not math.isfinite(backward.loss):
            by = f": {backward.made_by} made it" if backward.made_by and "was given" not in backward.made_by else ""
            by = by or (f": {backward.made_by}" if backward.made_by else "")
            said = f"the loss was {number(backward.loss)} before step {step.number}, the first that was not finite{by}"
            return _symptom("not-finite", Severity.ERROR, said, backward, step.number)
        gradient = backward.gradient_of(step.owner)
        if gradient is not None and not gradient.finite:
            said = f"the gradients of a finite loss ({number(backward.loss)}) were not finite before step {step.number}"
            if backward.made_by:
                said += f": the derivative of one of these may be infinite: {backward.made_by}"
            return _symptom("not-finite", Severity.ERROR, said, backward, step.number)
    said = f"step {step.number} used gradients that are not finite, and that no backward had made so"
    return _symptom("not-finite", Severity.ERROR, said, step, step.number)


def _exploding(run: Run) -> Iterator[Symptom]:
    for optimizer in run.optimizers():
        windows = run.full_windows(optimizer)
        losses = [(w, abs(b.loss)) for w in windows for b in run.used(w)[-1:] if b.loss is not None]
        if len(losses) <= RISING or any(not math.isfinite(loss) for _, loss in losses):
            continue
        last = [loss for _, loss in losses[-RISING - 1 :]]
        rising = all(after > 2 * before for before, after in itertools.pairwise(last))
        first = losses[0][1]
        if rising and last[-1] > GROWTH * max(first, 1e-12) and last[-1] > GROWTH:
            step = run.step(losses[-RISING][0])
            said = f"the loss explodes: {number(first)} at the first step, {number(last[-1])} at step {len(losses)}"
            yield _symptom("exploding", Severity.WARNING, said, step, step.number if step else 0)


def _rates(run: Run) -> Iterator[Symptom]:
    for optimizer in run.optimizers():
        steps = [s for s in run.recording.steps_of(optimizer) if not s.skipped]
        if len(steps) > ENOUGH and all(s.rates and not any(s.rates) for s in steps):
            said = f"the learning rate was 0 at each of the {len(steps)} steps: nothing is trained"
            yield _symptom("zero-rate", Severity.WARNING, said, steps[0], 1)


# -- modes, graphs, ranks ----------------------------------------------------------------------------------------------


def _eval(run: Run) -> Iterator[Symptom]:
    """From some step on every forward that was trained on was made in eval mode."""
    happened = [h for h in run.recording.happenings if isinstance(h, Forwarded | BackwardRan | Stepped)]
    for model in dict.fromkeys(h.model for h in happened if isinstance(h, Forwarded) and h.asleep):
        modes: list[tuple[Forwarded, int]] = []
        waiting: list[Forwarded] = []
        trained, steps = False, 0
        for h in happened:
            if isinstance(h, Forwarded):
                waiting = [*waiting, h] if h.model == model else waiting
            elif isinstance(h, BackwardRan):
                trained = trained or bool(h.optimizers and waiting)
            else:
                steps += 1
                modes += [(f, steps) for f in waiting if trained]
                waiting, trained = [], False
        asleep = [(f, step) for f, step in modes if f.asleep]
        since = next((i for i, (f, _) in enumerate(modes) if f.asleep), len(modes))
        if len({step for _, step in asleep}) >= ENOUGH and all(f.asleep for f, _ in modes[since:]):
            forward, step = modes[since]
            when = "while it is trained" if not since else f"from step {step} on, though it is still trained"
            said = f"the model ({forward.type}) is in eval mode {when}: {' and '.join(forward.asleep)} do not act"
            yield _symptom("eval-mode", Severity.WARNING, f"{said}; call train()", forward, step, forward.type)


def _graphs(run: Run) -> Iterator[Symptom]:
    """Each loss that is kept with its graph keeps what made it, too."""
    backwards = [b for b in run.recording.of(BackwardRan) if b.optimizers]
    if len(backwards) <= GRAPHS:
        return
    last = backwards[-1]
    windows = {id(w) for o in last.optimizers for w in run.full_windows(o)}
    if last.alive > GRAPHS and last.alive >= 0.75 * (len(backwards) - 1) and len(windows) > GRAPHS:
        said = f"the graphs of {last.alive} earlier backwards are still alive, and one more with each: "
        said += "what is added up or kept of the loss wants .item() or .detach()"
        yield _symptom("graphs-kept", Severity.WARNING, said, last)


def _ranks(run: Run) -> Iterator[Symptom]:
    """The ranks began with the same weights, and no longer have the same after a step."""
    if len(run.ranks) < 2:
        return
    for optimizer in run.optimizers():
        common = run.together(optimizer)
        if not common or not _alike([s.start for s in common[0]]):
            continue
        apart = [steps for steps in common if not _alike([s.weights for s in steps])]
        if not apart or apart[-1] is not common[-1]:
            continue  # they have found together again: that is how they are meant to train
        step = apart[0][run.ranks.index(run.recording)]
        said = f"the {len(run.ranks)} ranks have different weights after step {step.number}, with the same before it: "
        wrapped = any(b.wrap for b in run.recording.of(BackwardRan))
        met = any(m.role == "model" for m in run.recording.of(Met))
        if wrapped:
            said += "not all gradients were averaged (no_sync, a clip or an edit of local ones)"
        elif met:
            said += "the model is wrapped, but the backward did not go through the wrapper"
        else:
            said += "no model is distributed: each rank trains for itself"
        yield _symptom("ranks-apart", Severity.ERROR, said, step, step.number)


def _alike(weights: list[tuple[float, float] | None]) -> bool:
    difference = spread(weights)
    return difference is not None and difference <= APART
