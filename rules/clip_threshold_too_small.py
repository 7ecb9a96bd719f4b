"""GL105 clip-threshold-too-small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from gradlint.events import Clip, ClipKind
from gradlint.machine.state import GradientState
from gradlint.model import Category, Severity
from gradlint.rule import Draft, OptionValue, Rule, RuleMeta, short


class ClipThresholdTooSmall(Rule):
    """The clipping threshold is so small that nearly every step is clipped.

    ## What it does
    Finds a `max_norm` below 0.05, also when the number stands in a constant elsewhere in the file.

    ## Why is this bad?
    Healthy gradient norms often lie between 0.1 and 10 (a rule of thumb). Far below that, every step is cut to the
    same length, and a large gradient counts no more than a small one. With SGD, training also crawls: each update is
    shorter than the learning rate says. Adam hides this, because it divides the size out again.

    ## Example
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.001)
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
    There is no automatic fix: only you can choose the limit. `clip_grad_norm_` returns the norm from before the clip;
    log it and pick a limit that acts on the rare spikes.

    ## Known limits
    Numbers from a command line, a configuration file or a caller are unknown, and unknown numbers are not judged.
    Some models do have tiny gradients; set `threshold` lower for them. Clipping by value is not looked at.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    meta = RuleMeta("GL105", Category.CLIPPING, Severity.WARNING)
    message = "`{clip}` limits the norm to {threshold:g}: nearly every step is clipped to it"
    options: ClassVar[Mapping[str, OptionValue]] = {"threshold": 0.05}

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        limit = float(self.settings["threshold"])
        if clip.kind is ClipKind.NORM and clip.threshold is not None and 0 < clip.threshold < limit:
            yield self.finding(clip, clip=short(clip), threshold=clip.threshold)
