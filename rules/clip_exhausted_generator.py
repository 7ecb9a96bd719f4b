"""GL106 clip-exhausted-generator."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Clip
from gradlint.rule import Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class ClipExhaustedGenerator(Rule):
    """A generator of parameters is used twice, and the clip gets none of them.

    ## What it does
    Finds a generator (`model.parameters()` kept under a name, `filter(...)`, `itertools.chain(...)`, a generator
    expression) that goes to an optimizer first and to a clip afterwards.

    ## Why is this bad?
    A generator can be walked through once, and the optimizer has done that. The clip gets an empty one, clips nothing
    and returns 0. For `parameters()` PyTorch at least warns ("empty generator, no gradient clipping will occur"); an
    exhausted `filter` or `map` does not even warn.

    ## Example
    ```python
    import torch

    params = model.parameters()
    optimizer = torch.optim.SGD(params, lr=0.1)

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, max_norm=1.0)  # params is empty by now
        optimizer.step()
    ```

    ## Use instead
    ```python
    import torch

    params = list(model.parameters())
    optimizer = torch.optim.SGD(params, lr=0.1)

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, max_norm=1.0)
        optimizer.step()
    ```

    ## Fix safety
    The fix puts `list(...)` round the generator where it is made, or makes a list of a generator expression. It is
    safe: the optimizer gets the same parameters as before, and the clip gets them too. The clip acts from now on:
    expect shorter updates wherever the norm is above the limit. No fix is offered where the place that makes the
    generator is not found.

    ## Known limits
    A generator that comes out of a function in another file looks like any other value and is not reported.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    - [torch.nn.Module](https://pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    meta = RuleMeta("GL106", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    message = "`{clip}` is given a generator that is used up already: nothing is clipped"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if clip.exhausted_by is not None:
            yield self.finding(
                clip, clip=short(clip), related=[(clip.exhausted_by, "the generator is used up here")],
                repairs=[Repair("Keep the parameters in a list", lambda bench: bench.make_list(clip))],
            )  # fmt: skip
