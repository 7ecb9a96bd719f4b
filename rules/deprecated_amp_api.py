"""GL210 deprecated-amp-api."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.rule import Call, Draft, FixSafety, Repair, Rule, RuleMeta, Severity

#: torch has modules of their own for these
_DEVICES = ("cuda", "cpu")


class DeprecatedAmpApi(Rule):
    """The device-specific AMP classes are deprecated.

    ## What it does
    Finds `autocast` and `GradScaler` from `torch.cuda.amp` and `torch.cpu.amp`.

    ## Why is this bad?
    They warn since PyTorch 2.4 (a FutureWarning) and may be removed. Their successors in `torch.amp` take the device
    as an argument, so that one line serves every device.

    ## Example
    ```python
    import torch

    scaler = torch.cuda.amp.GradScaler()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.cuda.amp.autocast():
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Use instead
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda"):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Fix safety
    The fix rewrites the call to `torch.amp`, with the device as first argument, and the import with it; arguments
    by position get their names where the order is another one now. It is safe: the old classes are thin wrappers
    round the new ones, so no number changes and there is a FutureWarning less. No fix is offered where the file asks
    for the old class (`isinstance`, a subclass, an annotation; what the new class makes is no instance of the old one,
    also for a check in another file), hands it on uncalled, calls it with `*` or `**`, or imports it inside a function.

    ## Known limits
    Projects that support PyTorch before 2.4 are left alone: set `target-torch = "2.1"` in the configuration, or state
    the floor in your dependencies, which gradlint reads (torchvision, torchaudio and torchtext imply one). Code behind
    a version check or a `try`/`except` for the import is not reported. `custom_fwd` and `custom_bwd`, deprecated at the
    same time, are not reported yet.

    ## References
    - [torch.amp](https://pytorch.org/docs/stable/amp.html)
    """

    meta = RuleMeta("GL210", Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{old}` is deprecated since torch 2.4: use `{new}`"

    calls = tuple(
        f"torch.{device}.amp.{name}"
        for device in _DEVICES
        for name in ("autocast", "GradScaler", "autocast_mode.autocast", "grad_scaler.GradScaler")
    )

    def on_call(self, call: Call) -> Iterator[Draft]:
        device = next((x for x in _DEVICES if call.name.startswith(f"torch.{x}.amp.")), None)
        if device is None or _is_guarded(call):
            return
        if self.file.target_torch is not None and self.file.target_torch < (2, 4):
            return
        old, new = f"torch.{device}.amp.{call.last}", f'torch.amp.{call.last}("{device}")'
        # what the new class makes is no instance of the old one
        asked = self.file.mentions(old)
        related = [(site, "the old class is asked for here") for site in asked[:1]]
        repairs = [] if asked else [Repair(f"Use `{new}`", lambda bench: bench.migrate_amp(call.function))]
        yield self.finding(call.function, old=old, new=new, related=related, repairs=repairs)


def _is_guarded(call: Call) -> bool:
    """Behind a check of the version, or of what torch has: written for both worlds."""
    falls_back = any(word in kind for kind in call.caught for word in ("Import", "Attribute", "Type"))
    return falls_back or any(_VERSION.search(test) for test in call.conditions)


_VERSION = re.compile(r"(?i)version|hasattr|TORCH_|torch_\d|is_torch|parse")
