"""GL212 float16-without-scaler."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.events import Backward, Step
from gradlint.knowledge import frameworks
from gradlint.rule import Call, Draft, File, Rule, RuleMeta, Severity


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
    (Accelerate, Fabric, Lightning, DeepSpeed, apex) silences the rule, but for a scaler that a function makes and never
    uses. `torch.bfloat16 if flag else torch.float16` is advice. A dtype from a configuration, an autocast with
    `enabled=` and one used as a decorator are not judged.

    ## References
    - [torch.amp: gradient scaling](https://pytorch.org/docs/stable/amp.html#gradient-scaling)
    - [torch.amp: autocasting](https://pytorch.org/docs/stable/amp.html#autocasting)
    """

    meta = RuleMeta("GL212", Severity.WARNING)
    message = "`{autocast}` computes in float16, and no GradScaler is used: small gradients become zero"

    calls = ("autocast",)
    needs = (Backward, Step)

    def on_call(self, call: Call) -> Iterator[Draft]:
        by_flag = _is_float16_by_flag(call)
        if not call.opens or not (by_flag or _is_float16(call)):
            return
        if _handling(self.file) - (_FLAGS if by_flag else set()) or "backward" not in self.file.words.called:
            return
        if self.file.trains_round(call):
            dtype = call.argument(1, "dtype")
            if by_flag and dtype is not None:
                yield self.finding(
                    call, message=_BY_FLAG, autocast=call.text, dtype=dtype.site.text, severity=Severity.ADVICE
                )
            else:
                yield self.finding(call, autocast=call.text)


def _handling(file: File) -> set[str]:
    """The words that something in the file takes care of the scale with."""
    return file.once(_words_of_handling) - file.once(_words_of_idle_scalers)


def _words_of_handling(file: File) -> set[str]:
    return set(filter(_handles, file.words.seen))


def _words_of_idle_scalers(file: File) -> set[str]:
    """A scaler that is made, and that nobody ever looks at again, takes care of nothing."""
    made = file.calls(*_CLASSES)
    idle = all(
        call.home is not None and call.bound_to.isidentifier() and not file.reads(call.bound_to) for call in made
    )
    if not idle or any(file.mentions(call.name) for call in made):
        return set()
    return {word for call in made for word in (call.bound_to, call.last)}


def _is_float16_by_flag(call: Call) -> bool:
    """`dtype = torch.bfloat16 if use_bf16 else torch.float16`."""
    dtype = call.argument(1, "dtype") if call.name.startswith("torch.") and "enabled" not in call.keywords else None
    return dtype is not None and {*dtype.either} in ({"torch.bfloat16", half} for half in _HALVES)


def _is_float16(call: Call) -> bool:
    """float16 is asked for, or it is CUDA's autocast without a dtype."""
    if not call.name.startswith("torch.") or "enabled" in call.keywords:
        return False
    dtype = call.argument(1, "dtype")
    if dtype is not None:
        return dtype.name in _HALVES
    device = call.argument(0, "device_type")
    if call.name.startswith("torch.cuda"):
        return device is None
    return device is not None and device.value == "cuda"


def _handles(word: str) -> bool:
    return bool(_HANDLED.search(word)) or frameworks.speaks_of_one(word)


_BY_FLAG = (
    "`{autocast}` computes in float16 where `{dtype}` is not bfloat16, and no GradScaler is used: "
    "small gradients become zero"
)
_HALVES = ("torch.float16", "torch.half")
_CLASSES = ("GradScaler", "ShardedGradScaler")
#: of the dtype beside it, and of the question whether the hardware knows it
_FLAGS = {"bfloat16"}
_HANDLED = re.compile(r"(?i)scaler|bfloat16|no_scaling|set_autocast|loss_scale")
