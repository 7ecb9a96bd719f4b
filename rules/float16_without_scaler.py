"""GL212 float16-without-scaler."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.events import Backward, Step
from gradlint.rule import Call, Category, Draft, File, Rule, RuleMeta, Severity


class Float16WithoutScaler(Rule):
    """`float16` autocast is used for training without a GradScaler.

    ## What it does
    Finds a training loop under float16 autocast in a file that has no `GradScaler`. On CUDA, float16 is the default:
    `torch.autocast("cuda")` without a dtype means it.

    ## Why is this bad?
    float16 cannot hold numbers below about 6e-8. Many gradients are smaller than that and become 0, so parts of the
    network silently stop learning. A scaler multiplies the loss to lift the gradients into range, and divides them
    again in the step.

    ## Example
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
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
    There is no automatic fix, because there are two good ways: add a scaler, or use `dtype=torch.bfloat16`, which
    needs none but asks for hardware that computes in it.

    ## Known limits
    The whole file is searched: any word that speaks of a scaler, of bfloat16 or of a framework that scales
    (Accelerate, Fabric, Lightning, DeepSpeed, apex) silences the rule. A dtype from a configuration, an autocast with
    `enabled=` and one used as a decorator are not judged.

    ## References
    - [torch.amp: gradient scaling](https://pytorch.org/docs/stable/amp.html#gradient-scaling)
    - [torch.amp: autocasting](https://pytorch.org/docs/stable/amp.html#autocasting)
    """

    meta = RuleMeta("GL212", Category.MIXED_PRECISION, Severity.WARNING)
    message = "`{autocast}` computes in float16, and no GradScaler is used: small gradients become zero"

    calls = ("autocast",)
    needs = (Backward, Step)

    def on_call(self, call: Call) -> Iterator[Draft]:
        if not call.opens or not _is_float16(call) or self.file.once(_is_handled):
            return
        if self.file.trains_round(call):
            yield self.finding(call, autocast=call.text)


def _is_handled(file: File) -> bool:
    """Something in the file takes care of the scale."""
    return "backward" not in file.words.called or any(_HANDLED.search(word) for word in file.words.seen)


def _is_float16(call: Call) -> bool:
    """float16 is asked for, or it is CUDA's autocast without a dtype."""
    if not call.name.startswith("torch.") or "enabled" in call.keywords:
        return False
    dtype = call.argument(1, "dtype")
    if dtype is not None:
        return dtype.site.text in ("torch.float16", "torch.half")
    device = call.argument(0, "device_type")
    if call.name.startswith("torch.cuda"):
        return device is None
    return device is not None and device.value == "cuda"


_HANDLED = re.compile(
    r"(?i)scaler|accelerat|fabric|lightning|deepspeed|apex|bfloat16|no_scaling|set_autocast|loss_scale"
)
