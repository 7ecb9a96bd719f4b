"""GL204 missing-scaler-update."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Step, Unscale, Update
from gradlint.knowledge.naming import last
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


class MissingScalerUpdate(Rule):
    """The scaler is never updated between two steps.

    ## What it does
    Finds `scaler.step(optimizer)` that runs again with no `scaler.update()` in between, and
    `scaler.unscale_(optimizer)` on a path that skips both the step and the update (a `continue` for a bad batch, for
    example).

    ## Why is this bad?
    `update()` adapts the scale, and it tells the scaler that the iteration is over. Without it the second
    `scaler.step` raises a RuntimeError, and so does an `unscale_` that follows one of a skipped iteration.

    ## Example
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)  # raises the second time
    ```

    ## Use instead
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Fix safety
    The fix inserts `scaler.update()` behind the step, with several optimizers behind the last one, or moves one
    that comes too late there. It is safe: the loop cannot run a second time without it, so there is a RuntimeError
    less, and the scale adapts from now on. No fix is offered for an `unscale_` on a skipped turn, as whether that
    turn should step, clear or only update is your choice.

    ## Known limits
    An `update()` inside a function that gradlint cannot follow silences the rule. With several optimizers, one
    `update()` after the last step is right and is not reported.

    ## References
    - [AMP: typical mixed precision training](https://pytorch.org/docs/stable/notes/amp_examples.html)
    - [torch.amp: gradient scaling](https://pytorch.org/docs/stable/amp.html#gradient-scaling)
    """

    meta = RuleMeta("GL204", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.UPDATES,)
    needs = (Backward,)
    message = "`{step}` is never followed by `{scaler}.update()`: the next one raises a RuntimeError"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        waiting = state.waiting_update
        if waiting is None or step.scaler is None or waiting.scaler is None or waiting.scaler.id != step.scaler.id:
            return
        if not any(state.path.between(waiting, step, Backward)):
            return  # `for opt in optimizers: scaler.step(opt)`: one update follows them all
        if _callers_may_update(waiting, step, state):
            return
        if waiting.site == step.site:
            scaler = in_user_words(step.scaler.text)
            repairs = [*_updated([waiting, *_others(waiting, state)], scaler)]
            late = next(state.path.after(step, Update), None)
            if late is not None:
                repairs.append(_moved(late, waiting))
            yield self.finding(step, step=short(step), scaler=scaler, repairs=repairs)

    def on_unscale(self, unscale: Unscale, state: GradientState) -> Iterator[Draft]:
        """A turn that unscales and then skips both step and update; in a run, the call that torch refused."""
        waiting, first = state.waiting_update, state.unscaled
        if waiting is not None and state.path.happened and waiting.scaler == unscale.scaler and state.pending:
            scaler = unscale.scaler.text if unscale.scaler else "scaler"
            told = [(unscale, "and this one raises")]
            yield self.finding(waiting, step=short(waiting), scaler=scaler, related=told)
            return
        if first is None or unscale.scaler is None or first.site != unscale.site or first.same_turn(unscale):
            return
        if _callers_may_update(first, unscale, state):
            return
        if not state.path.happened and not any(state.path.between(first, unscale, Backward)):
            return  # `for opt in optimizers: scaler.unscale_(opt)`
        skipped = state.path.unusual or (state.path.happened and len(state.pending) < 2)  # two of them: GL205
        if state.window.step is None and state.has_backward and not state.life.events(Step) and skipped:
            # no fix: whether the skipped turn should step, clear or only update is the author's choice
            yield self.finding(
                unscale, message="`{unscale}` runs again after a turn that skipped `{scaler}.update()`: it raises",
                unscale=short(unscale), scaler=unscale.scaler.text,
            )  # fmt: skip


def _callers_may_update(early: Step | Unscale, late: Step | Unscale, state: GradientState) -> bool:
    """Between two calls of a function, whoever made the scaler may update it, and so may another part of the file."""
    turns = {f.loop: f.turn for f in early.frames}
    apart = next((f.loop for f in late.frames if turns.get(f.loop, f.turn) != f.turn), None)
    if late.scaler is None or apart != state.path.entry_loop:
        return False
    name = last(late.scaler.text)
    return not late.scaler.born or any(last(text) == name for text in state.path.file_updates)


def _updated(steps: list[Step], scaler: str) -> Iterator[Repair]:
    """Behind the last step, behind its condition, behind the call that leads there."""
    message = f"Insert `{scaler}.update()`"
    near = outward(message, steps[-1], lambda bench, outer: bench.insert_update(steps, outer=outer))
    wide = outward(message, steps[-1], lambda bench, outer: bench.insert_update(steps, outer=outer, wide=True))
    for pair in zip(near, wide, strict=True):
        yield from pair


def _moved(late: Update, step: Step) -> Repair:
    return Repair(f"Move `{short(late)}` behind the step", lambda bench: bench.move(late, after=step))


def _others(first: Step, state: GradientState) -> list[Step]:
    """The steps of other optimizers through the same scaler, later in the same turn: one update follows them all."""
    later = state.path.after(first, Step)
    return [s for s in later if s.scaler == first.scaler and s.same_turn(first) and s.frames == first.frames]
