"""GL105 clip-threshold-too-small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from gradlint.events import Clip, ClipApi, ClipKind
from gradlint.rule import ClipSetting, Draft, File, GradientState, OptionValue, Rule, RuleMeta, Setting, Severity, short


class ClipThresholdTooSmall(Rule):
    """The clipping threshold is so small that nearly every step is clipped.

    ## What it does
    Finds a `max_norm` below 0.05, also when the number stands in a constant elsewhere in the file. It finds the limits
    of the norm that frameworks take, too: Lightning's `Trainer(gradient_clip_val=...)`, `max_grad_norm` of
    `TrainingArguments` and of trl's configurations, `gradient_clipping` in a DeepSpeed configuration that is a dict of
    the file, or in Accelerate's plugins, Fabric's `clip_gradients(max_norm=...)`, and Composer's
    `GradientClipping(clipping_type="norm", clipping_threshold=...)`. The option `threshold` holds for all.

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
    Numbers from a configuration file are unknown, and unknown numbers are not judged. The default of an option of the
    command line is judged in the file that says it, that of a parameter if nobody in the file hands over another
    number. An adaptive clip, whose limit is a share of each weight's norm, is not looked at. Some models do have tiny
    gradients; set `threshold` lower for them. Clipping by value is not looked at, nor are tests. `None`, zero and
    negative limits switch clipping off in the frameworks, and are not reported. A name that is bound twice, or a key
    that a dict gets a second time, is an unknown number.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    meta = RuleMeta("GL105", Severity.WARNING, runs=True)
    configured = (ClipSetting,)
    message = "`{clip}` limits the norm to {threshold:g}: nearly every step is clipped to it"
    options: ClassVar[Mapping[str, OptionValue]] = {"threshold": 0.05}

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        limit, threshold = float(self.settings["threshold"]), clip.threshold
        if self.file.is_test:
            return  # it tries what a clip does
        offered = self.file.once(_command_line).get(clip.limit.rpartition(".")[2]) if "." in clip.limit else None
        if threshold is None and clip.api is not ClipApi.CUSTOM:
            threshold = offered
        if clip.kind is ClipKind.NORM and threshold is not None and 0 < threshold < limit:
            # a helper of another file clips to what it is told
            caller = clip.via[-1] if clip.handed and clip.via else clip.site
            elsewhere = caller.path != clip.site.path
            message = _BY_DEFAULT if clip.by_default or clip.threshold is None else None
            place = caller if elsewhere else None
            yield self.finding(clip, message=message, clip=short(clip), threshold=threshold, place=place)

    def on_setting(self, setting: Setting) -> Iterator[Draft]:
        """Limits that a framework is given, and uses by itself."""
        if not isinstance(setting, ClipSetting) or setting.kind is not ClipKind.NORM or setting.site is None:
            return
        if setting.limit is not None and 0 < setting.limit < float(self.settings["threshold"]):
            related = [(setting.number, "the number stands here")]
            yield self.finding(setting.site, clip=setting.text, threshold=setting.limit, related=related)


def _command_line(file: File) -> dict[str, float]:
    """The numbers that options have if nobody says otherwise: `add_argument("--clip", default=0.01)`."""
    found: dict[str, float] = {}
    several: set[str] = set()
    for call in file.calls("add_argument"):
        options = [x.value for x in call.arguments if x.constant and isinstance(x.value, str)]
        named = call.constant(-1, "dest") or next((x for x in options if x.startswith("--")), "")
        name, default = str(named).lstrip("-").replace("-", "_"), call.constant(-1, "default")
        if name in found:
            several.add(name)
        if isinstance(default, int | float) and not isinstance(default, bool):
            found[name] = float(default)
    return {name: number for name, number in found.items() if name not in several}


_BY_DEFAULT = "`{clip}` limits the norm to {threshold:g} by default: nearly every step is clipped to it"
