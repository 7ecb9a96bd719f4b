"""GL104 value-clipping."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Clip, ClipKind
from gradlint.frontend import syntax as s
from gradlint.frontend.program import Program
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.remedy import clip_by_norm, rewrite
from gradlint.rule import Draft, Rule, RuleMeta, short


class ValueClipping(Rule):
    """Gradients are clipped value by value, which changes their direction.

    ## What it does
    Finds `clip_grad_value_`, `.grad.clamp_(...)`, Lightning's `gradient_clip_algorithm="value"` and Fabric's
    `clip_gradients(..., clip_val=...)`.

    ## Why is this bad?
    Each entry is cut on its own: large entries shrink, small ones stay. The gradient does not only become shorter, it
    turns, so the step goes where the loss does not fall fastest. Clipping by norm multiplies all entries by one
    factor: same direction, limited length.

    ## Example
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), clip_value=1.0)
        optimizer.step()
    ```

    ## Use instead
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
    ```

    ## Fix safety
    The fix calls `clip_grad_norm_` with the same number, or with 1.0 if that number is tiny for a norm; a loop that
    clamps `.grad` becomes one call. It is unsafe: a limit for each value says little about a limit for the norm. A
    limit of 0.5 per value lets norms of up to 0.5 times the square root of the number of parameters pass, so the same
    number cuts far more: expect shorter updates with SGD. Log the norm that `clip_grad_norm_` returns for a while and
    choose `max_norm` from that.

    ## Known limits
    This is advice, not an error. Some recipes clip by value on purpose (DQN and its relatives do); to reproduce one,
    ignore the rule there. Clamping weights, as a WGAN does, is not reported. There is no fix for a loop that clamps
    only some of the parameters, or does something else, too.

    ## References
    - [torch.nn.utils.clip_grad_value_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_value_.html)
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    meta = RuleMeta("GL104", Category.CLIPPING, Severity.ADVICE, fix=FixSafety.UNSAFE)
    message = "`{clip}` clips each value on its own and so bends the gradient; clipping by norm keeps its direction"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if clip.kind is ClipKind.VALUE:
            # a limit that is sensible for each value may be tiny for the norm of all
            yield self.finding(clip, clip=short(clip), fix=[clip_by_norm(clip), clip_by_norm(clip, "1.0")])

    def on_program(self, program: Program) -> Iterator[Draft]:
        """Lightning's and Fabric's arguments are configuration, not events."""
        for call in program.calls():
            value = call.kwargs.get("gradient_clip_algorithm")
            inside = isinstance(call.func, s.Attr) and call.func.name == "clip_gradients"
            if isinstance(value, s.Const) and value.value == "value" and not inside:
                site = program.site(value, "")
                fix = [rewrite(site, '"norm"', "Clip by norm instead")]
                yield self.finding(site, clip='gradient_clip_algorithm="value"', fix=fix)
