"""GL301 unscaled-accumulation-loss."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from gradlint.events import Backward, Clip, ClipApi, Edit, EditKind, Norm, Site, Step
from gradlint.knowledge.torch_api import SCALE_FREE
from gradlint.rule import Aspect, Draft, File, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, Window, short


class UnscaledAccumulationLoss(Rule):
    """Micro-batch losses are added up without dividing by their number.

    ## What it does
    Looks for an accumulation window (one `step()` after N backwards) in which the loss is never divided by N, nor
    weighted or normalised in another way, and no framework divides it. It also speaks up when one of two losses is
    divided and the other is not, and when the divisor is the running counter instead of N, or another number than N
    where both are written down (`loss / 4` in a window of 8).

    The division is looked for where it may be: in the criterion, if its class is in the file; in an entry of a
    dictionary; in the gradient that the backward starts with; in hooks; in the gradients at the boundary; in the
    learning rate (`lr=args.lr / args.n`).

    ## Why is this bad?
    `backward()` adds to the gradients that are there. N mean losses add up to N times the gradient of one large
    batch. With SGD that is N times the learning rate. Adam and its relatives hardly notice the scale by itself, but
    gradient clipping does: the clip sees a norm that is N times too large. Either way, changing N silently changes
    the training, and numbers logged for different N cannot be compared.

    ## Example
    ```python
    def train(model, loader, criterion, accum_steps):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            loss.backward()
            if (i + 1) % accum_steps == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    def train(model, loader, criterion, accum_steps):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            (loss / accum_steps).backward()
            if (i + 1) % accum_steps == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Fix safety
    Safe. The fix writes `(loss / N).backward()` with the N of the boundary, under a scaler too, and puts N in the
    place of a running counter. The gradients at the step become the mean over the window: with SGD the effective
    learning rate drops by N, so one that was tuned to the larger gradients may have to go up again; with AdamW hardly
    anything changes unless you clip, and then the clip acts less often. The loss that you log stays what it was,
    unless the counter divided it. No fix is offered where N is not written in the boundary, or has no value yet where
    the backward stands, or where a batch is cut into parts of a given size (`range(0, len(x), size)`): the last part
    may be smaller. Putting N in the place of another number is unsafe, for that may be a mean over several terms.

    ## Known limits
    A loss that comes out of a function gradlint cannot see is left alone: it may be divided there. So is one whose
    criterion, or a helper that gets the model at the boundary, is handed N, or a weight made of it. A loss of an
    imported criterion that is not seen may be a sum: it gets a warning and an unsafe fix. A learning rate that is
    divided later, in `optimizer.param_groups`, is not seen. A loss that is summed on purpose (`reduction="sum"`, a mean
    times the size of the batch) is not flagged. Dividing by N is exact when every micro-batch's mean is over equally
    many items; see `token-mean-accumulation` for text. A last, shorter window that is divided by N counts a bit less.

    ## References
    - [Gradient accumulation](https://pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    - [torch.Tensor.backward](https://pytorch.org/docs/stable/generated/torch.Tensor.backward.html)
    """

    meta = RuleMeta("GL301", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.DIVISION,)
    needs = (Backward,)
    message = "`{backward}` adds up {n} micro-batches, but `{loss}` is {what}: {impact}"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        window = state.window
        if not window.closes or self.file.once(_steps_inside) or step.framework.divides:
            return
        if any(e.kind in _NORMALISE for e in window.of(Edit)) or _in_the_rate(state):
            return  # the gradients, or the learning rate, are normalised instead
        if any(clip.api is ClipApi.OWN for clip in window.of(Clip)):
            return  # made of one length each time, perhaps
        n = window.size_shown
        seen: set[Site] = set()
        counts = Counter(b.site for b in state.pending)
        for backward in state.pending:
            if backward.site in seen or counts[backward.site] < 2 or self._handled(backward, window):
                continue
            seen.add(backward.site)
            related = [(step, f"the window of {n} ends here")]
            place = backward.beside(window.counted_in)  # a helper of another file need not know N
            if backward.norm in _BY_NUMBERS:
                impact = _impact(state.optimizer.kind, *_off(backward, window))
                yield self.finding(
                    backward, message=_OTHER_NUMBER, backward=short(backward), n=str(window.size),
                    loss=backward.loss, by=f"{max(backward.divisors):g}", impact=impact,
                    related=related, repairs=[_redivided(backward, step, n)] if backward.divisor else [], place=place,
                )  # fmt: skip
                continue
            unseen = backward.unseen if backward.norm is Norm.RAW else ""  # it may be a sum over the items
            what = "never divided" if backward.norm is Norm.RAW else f"divided by the running `{backward.divisor}`"
            yield self.finding(
                backward, message=_UNSEEN if unseen else None, severity=Severity.WARNING if unseen else None,
                backward=short(backward), n=n, loss=backward.loss, what=what, maker=unseen.rpartition(".")[2],
                impact=_impact(state.optimizer.kind, n), related=related, place=place,
                repairs=[_divided(backward, step, n, unseen)],
            )  # fmt: skip

    @staticmethod
    def _handled(backward: Backward, window: Window) -> bool:
        if backward.managed_division or backward.framework.divides:
            return True
        if _among(window.size, backward.handed):
            return True  # what made the loss was given N
        if backward.norm in _BY_NUMBERS and backward.divisors and window.size is not None:
            return window.size < 2 or _among(window.size, backward.divisors) or _divides_more(backward, window)
        return backward.norm not in (Norm.RAW, Norm.DIVIDED_BY_COUNTER)


def _steps_inside(file: File) -> bool:
    """An optimizer that runs inside the backward is none of this rule's business."""
    return any("in_bwd" in word or "in_backward" in word for word in file.words.seen)


def _divided(backward: Backward, step: Step, n: str, unseen: str) -> Repair:
    safety = FixSafety.UNSAFE if unseen else None
    return Repair(f"Divide the loss by {n}", lambda bench: bench.divide_by_window(backward, step), safety)


def _redivided(backward: Backward, step: Step, n: str) -> Repair:
    """Not safe: the divisor that is there may be that of a mean over several terms."""
    message = f"Divide the loss by {n} instead of `{backward.divisor}`"
    return Repair(message, lambda bench: bench.redivide(backward, step), FixSafety.UNSAFE)


def _divides_more(backward: Backward, window: Window) -> bool:
    """A multiple of N: the mean over several losses of a micro-batch, or N is a factor that is written out."""
    if all(by % (window.size or 1) for by in backward.divisors):
        return False
    several = len({b.site for b in window.of(Backward)}) > 1
    return several or str(window.size) in _NUMBERS.findall(backward.divisor) or not backward.divisor.isdecimal()


def _in_the_rate(state: GradientState) -> bool:
    """`SGD(…, lr=args.lr / args.n)`: a step with the sum and a smaller rate is a step with the mean."""
    over = state.optimizer.rate_over
    try:
        number: float | None = float(over)
    except ValueError:
        number = None
    return bool(over) and ("accum" in over.lower() or state.window.counts(over, number))


def _among(size: int | None, numbers: Iterable[float]) -> bool:
    return size is not None and any(abs(number - size) < 1e-6 * size for number in numbers)


def _off(backward: Backward, window: Window) -> tuple[str, str]:
    """How far the gradients are off: (times, which way)."""
    ratio = (window.size or 1) / max(backward.divisors)
    return (f"{ratio:g}", "large") if ratio > 1 else (f"{1 / ratio:g}", "small")


def _impact(kind: str, n: str, way: str = "large") -> str:
    """Adam's update hardly depends on the scale of the gradient; what does is clipping."""
    if SCALE_FREE.search(kind):
        return f"gradients are {n} times too {way}, which any clipping then sees"
    if kind:
        return f"gradients, and so the learning rate, are {n} times too {way}"
    return f"gradients are {n} times too {way}"


_NUMBERS = re.compile(r"\d+")
_NORMALISE = (EditKind.DIVIDE, EditKind.SCALE, EditKind.OTHER, EditKind.PERHAPS)
#: a loss that was divided; what by is compared with N where both are known
_BY_NUMBERS = (Norm.DIVIDED, Norm.WEIGHTED)
_UNSEEN = "if `{maker}` gives a mean: `{backward}` adds up {n} micro-batches, but `{loss}` is never divided"
_OTHER_NUMBER = "`{backward}` adds up {n} micro-batches, but `{loss}` is divided by {by}: {impact}"
