"""GL208 backward-under-autocast."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Step
from gradlint.rule import Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class BackwardUnderAutocast(Rule):
    """The backward runs inside the autocast block.

    ## What it does
    Finds a `backward()` that is indented into `with torch.autocast(...)`.

    ## Why is this bad?
    PyTorch advises against it. The backward needs no autocast, because each of its operations runs in the dtype that
    the forward chose. Whatever else runs in the block, such as the backward of a custom autograd function, can be
    autocast too, to a dtype it was not written for.

    ## Example
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
            scaler.scale(loss).backward()  # one indent too deep
        scaler.step(optimizer)
        scaler.update()
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
    The fix takes the backward, and what follows it, out of the block. It is safe: the forward and its loss stay
    under autocast, and PyTorch's own backward takes the dtypes of the forward wherever it runs, so the gradients
    are the same to the bit. Only the `backward` of an autograd function that you wrote yourself may compute in
    another dtype, the one you gave it. No fix is offered where autocast is a decorator, shares its `with` with
    another context, has a name (`with ctx:`) or holds the whole loop, or where something that may be a forward
    would leave the block, too.

    ## Known limits
    An autocast that is entered in another file, or by a decorator there, is not seen with `--no-project`. Frameworks
    that run the backward for you take care of this and are left alone, but for Accelerate: its `autocast()` is one
    where `mixed_precision` is given, and its backward is an ordinary one.

    ## References
    - [torch.amp: autocasting](https://pytorch.org/docs/stable/amp.html#autocasting)
    - [AMP: typical mixed precision training](https://pytorch.org/docs/stable/notes/amp_examples.html)
    """

    meta = RuleMeta("GL208", Severity.WARNING, fix=FixSafety.SAFE, runs=True)
    needs = (Step,)
    message = "`{backward}` runs inside autocast: PyTorch asks for the backward outside; only the forward belongs in it"

    def on_backward(self, backward: Backward, state: GradientState) -> Iterator[Draft]:
        if not any(state.path.of(Step)):
            return  # a look at gradients, no training
        autocast = backward.autocast
        if autocast is not None and not backward.framework.casts:
            yield self.finding(
                backward, backward=short(backward), related=[(autocast, "autocast begins here")],
                repairs=[Repair(_LEAVE, lambda bench: bench.leave_autocast(backward, autocast))],
            )  # fmt: skip


_LEAVE = "Take the backward out of the autocast block"
