"""GL104 value-clipping."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Clip, ClipKind
from gradlint.rule import (
    Aspect,
    ClipSetting,
    Draft,
    FixSafety,
    GradientState,
    Repair,
    Rule,
    RuleMeta,
    Setting,
    Severity,
    short,
)


class ValueClipping(Rule):
    """Gradients are clipped value by value, which changes their direction.

    ## What it does
    Finds `clip_grad_value_` (PyTorch's and Accelerate's), `.grad.clamp_(...)`, also as
    `p.grad = torch.clamp(p.grad, ...)` or with `out=p.grad`, Lightning's `gradient_clip_algorithm="value"`, as an
    argument of the `Trainer` or of `self.clip_gradients`, Fabric's `clip_gradients(..., clip_val=...)`, and
    `clipping_type="value"` of Composer's `GradientClipping`. Every other limit that frameworks take is one of the norm:
    `max_grad_norm` of `TrainingArguments`, `gradient_clipping` of DeepSpeed and of Accelerate's plugins, Lightning's
    `gradient_clip_val` alone.

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
    clamps `.grad` becomes one call; a framework's switch is set to the norm. It is unsafe: a limit for each value says
    little about a limit for the norm. A limit of 0.5 per value lets norms of up to 0.5 times the square root of the
    number of parameters pass, so the same number cuts far more: expect shorter updates with SGD. Log the norm that
    `clip_grad_norm_` returns for a while and choose `max_norm` from that.

    ## Known limits
    This is advice, not an error. Some recipes clip by value on purpose (DQN and its relatives do); to reproduce one,
    ignore the rule there. Clamping weights, as a WGAN does, is not reported, nor is a clamp at 0, which chooses signs.
    There is no fix for a loop that clamps only some of the parameters, or does something else, too, nor for an
    algorithm that is named elsewhere. Whether a limit of 0 or None stands beside the algorithm is seen where the file
    says so: then nothing is clipped, and nothing is reported.

    ## References
    - [torch.nn.utils.clip_grad_value_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_value_.html)
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    meta = RuleMeta("GL104", Severity.ADVICE, fix=FixSafety.UNSAFE, runs=True)
    mends = (Aspect.CLIPS,)
    configured = (ClipSetting,)
    message = "`{clip}` clips each value on its own and so bends the gradient; clipping by norm keeps its direction"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if clip.kind is ClipKind.VALUE:
            # a limit that is sensible for each value may be tiny for the norm of all
            repairs = [
                Repair(_BY_NORM, lambda bench: bench.clip_by_norm(clip)),
                Repair(_BY_NORM, lambda bench: bench.clip_by_norm(clip, "1.0")),
            ]
            yield self.finding(clip, clip=short(clip), repairs=repairs)

    def on_setting(self, setting: Setting) -> Iterator[Draft]:
        """Arguments of trainers are configuration, not events."""
        if not isinstance(setting, ClipSetting) or setting.kind is not ClipKind.VALUE or setting.algorithm is None:
            return
        text = f"{setting.switch}={setting.algorithm.text}"
        yield self.finding(setting.algorithm, clip=text, repairs=_repairs(setting))


def _repairs(setting: ClipSetting) -> Iterator[Repair]:
    """In the call itself; what stands behind a name may be meant for others, too."""
    algorithm, limit = setting.algorithm, setting.site
    if algorithm is not None and setting.literal:
        yield Repair(_BY_NORM, lambda bench: bench.replace(algorithm, '"norm"'))
        if limit is not None and setting.number is None and setting.limit is not None:
            message = f"{_BY_NORM}, with a limit that suits it"
            yield Repair(message, lambda bench: bench.replace_all((algorithm, '"norm"'), (limit, "1.0")))


_BY_NORM = "Clip by norm instead"
