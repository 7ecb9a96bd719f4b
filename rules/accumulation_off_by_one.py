"""GL308 accumulation-off-by-one."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Step, Zero
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, Window


class AccumulationOffByOne(Rule):
    """The accumulation boundary is true for the very first micro-batch.

    ## What it does
    Looks for `if i % N == 0: optimizer.step()` behind the backward, with a counter that starts at zero.

    ## Why is this bad?
    `0 % N` is 0: the first update is made of a single micro-batch, divided by N as if it were N of them. All windows
    after it are shifted by one, and where the loader's length is a multiple of N, N - 1 micro-batches are left at
    its end.

    ## Example
    ```python
    def train(model, optimizer, loader, criterion, accum_steps):
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y) / accum_steps
            loss.backward()
            if i % accum_steps == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    def train(model, optimizer, loader, criterion, accum_steps):
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y) / accum_steps
            loss.backward()
            if (i + 1) % accum_steps == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Fix safety
    Safe. The fix writes `(i + 1) % accum_steps == 0`, and the same in a `no_sync` or other condition of the loop that
    must agree with it. Every window then has N micro-batches, as the division says: the first update, which was made
    of a single one, is gone, and all others come one micro-batch earlier. No fix is offered where another function
    asks for the boundary.

    ## Known limits
    Counters that start at one (`enumerate(loader, 1)`), that are incremented before the question, or whose start cannot
    be seen are not flagged. A counter that runs on over epochs is wrong once only, in its first window.

    ## References
    - [Gradient accumulation](https://pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    - [enumerate](https://docs.python.org/3/library/functions.html#enumerate)
    """

    meta = RuleMeta("GL308", Severity.WARNING, fix=FixSafety.SAFE)
    mends = (Aspect.BOUNDARY,)
    needs = (Backward,)
    message = "`{boundary}` ends the first window after one micro-batch already: all windows are shifted by one"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if not step.modulo or not step.exact or state.steps or len(state.pending) != 1:
            return
        first = state.pending[0]
        later = next((w for w in state.life.windows if w.number > 0 and w.step and w.step.site == step.site), None)
        if later is None or not first.same_turn(step) or any(f.turn for f in step.frames):
            return
        if sum(b.site == first.site for b in later.of(Backward)) >= 2 and _cleared_behind(later):
            related = [(first, "one micro-batch only before the first step")]
            repairs = [
                Repair(_COUNT, lambda bench: bench.count_from_one(step)),
                Repair(_COUNT, lambda bench: bench.count_from_one(step, everywhere=True)),
            ]
            place = step.beside(step.counted_in)
            yield self.finding(step, boundary=step.boundary, related=related, repairs=repairs, place=place)


_COUNT = "Count micro-batches from one"


def _cleared_behind(window: Window) -> bool:
    """All zeroing of the window comes before its first backward: behind the last step."""
    first = next(window.of(Backward))
    return all(z.index < first.index for z in window.of(Zero))
