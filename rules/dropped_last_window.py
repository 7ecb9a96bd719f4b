"""GL304 dropped-last-window."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import WINDOW, Backward, Clip, Edit, Event, Mark, Opaque, Read, Step, Unscale, Zero
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, Window, short


class DroppedLastWindow(Rule):
    """The last, shorter accumulation window of an epoch is never stepped.

    ## What it does
    Looks for a step behind `(i + 1) % N == 0` in a loop over a loader, with nothing that steps once more for what is
    left when the loader ends.

    ## Why is this bad?
    When the loader's length is no multiple of N, up to N - 1 micro-batches are left at the end of the epoch. Their
    gradients are thrown away where a `zero_grad()` comes first, so this work was for nothing. Where none does, they
    stay in `.grad` and leak into the first window of the next epoch, or of the next call, which is then larger than all
    others. The message says which of the two the code shows.

    ## Example
    ```python
    def train(model, optimizer, loader, criterion, epochs, accum_steps):
        for epoch in range(epochs):
            optimizer.zero_grad()
            for i, (x, y) in enumerate(loader):
                loss = criterion(model(x), y) / accum_steps
                loss.backward()
                if (i + 1) % accum_steps == 0:
                    optimizer.step()
                    optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    def train(model, optimizer, loader, criterion, epochs, accum_steps):
        for epoch in range(epochs):
            optimizer.zero_grad()
            for i, (x, y) in enumerate(loader):
                loss = criterion(model(x), y) / accum_steps
                loss.backward()
                if (i + 1) % accum_steps == 0 or i + 1 == len(loader):
                    optimizer.step()
                    optimizer.zero_grad()
    ```

    ## Fix safety
    Unsafe. The fix adds `or i + 1 == len(loader)` to the boundary, and to a `no_sync` that asks the same. That is one
    more update per epoch, made of fewer micro-batches but still divided by N, so a smaller one; a scheduler in the
    boundary moves on once more, too, and `OneCycleLR` raises if its `total_steps` was counted without it. Only you
    can say whether you want that, or would rather drop the rest (`drop_last`, a length that is a multiple of N). No
    fix is offered where the counter is not the index of an `enumerate` over a loader, as with `zip` or a loader that
    is made in the loop's own line.

    ## Known limits
    gradlint does not know the loader's length: if it is always a multiple of N, nothing is dropped. Streams without
    a `len()` need a step behind the loop instead. Boundaries that count with a variable of their own are not flagged,
    nor is an N that the file itself sets to 1. It is told once a function, also where a flag for mixed precision has a
    step in each arm.

    ## References
    - [torch.utils.data.DataLoader](https://pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader)
    - [Gradient accumulation](https://pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    meta = RuleMeta("GL304", Severity.ADVICE, fix=FixSafety.UNSAFE)
    mends = (Aspect.BOUNDARY,)
    needs = (Backward, Step)
    message = "`{step}` never uses the last, shorter window of the loader: its gradients {fate}"

    def on_mark(self, mark: Mark, state: GradientState) -> Iterator[Draft]:
        if not mark.over or not mark.loader or not state.pending:
            return
        steps = [w.step for w in state.life.windows if w.step and w.accumulates and w.step.index < mark.index]
        step = next((x for x in steps if x.modulo and any(f.loop == mark.loop for f in x.frames)), None)
        if step is None or not any(f.loop == mark.loop for f in state.pending[-1].frames):
            return
        following = next((e for e in state.window.events if e.index > mark.index and not isinstance(e, Mark)), None)
        if isinstance(following, Step | Clip | Unscale | Edit | Read | Opaque):
            return  # the rest is stepped behind the loop
        if step.framework.windows and "accumulate" in self.file.words.called:
            return  # the framework closes the window at the loader's last batch by itself
        if following is None and any(_ended(e, mark) for e in state.path.events[: mark.index]):
            return  # earlier epochs would have shown it
        if isinstance(following, Backward) and _goes_on(state.window, steps):
            return  # the counter runs on: the window is filled up in the next epoch
        if (step.site.path and step.size == 1) or self.file.is_one(step.window):
            return  # every batch is stepped
        repair = Repair("Step at the end of the loader, too", lambda bench: bench.step_at_the_end(step))
        place = step.beside(step.counted_in)
        yield self.finding(step, step=short(step), fate=_fate(following, state), repairs=[repair], place=place)


def _fate(following: Event | None, state: GradientState) -> str:
    """What becomes of the rest: they are thrown away only where a zero_grad is seen to come first."""
    if isinstance(following, Zero):
        return "are thrown away"
    if isinstance(following, Backward):
        return "leak into the next epoch"
    first = next((e for w in state.life.windows for e in w.events if not isinstance(e, Mark)), None)
    if isinstance(first, Zero):
        return "are thrown away"  # so does the next call begin
    return "are lost" if state.path.start == MODULE else "leak into the next call"


#: the number of the path that starts with the file's first line
MODULE = -1


def _ended(event: Event, mark: Mark) -> bool:
    return isinstance(event, Mark) and event.over and event.loop == mark.loop


def _goes_on(window: Window, steps: list[Step]) -> bool:
    """The window that spans the end of the epoch has as many backwards as the others."""
    if window.step is None or not steps or not window.number:
        return False
    return sum(1 for _ in window.of(Backward)) == WINDOW
