"""GL109 needless-clip."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Clip, ClipKind, Edit, Step
from gradlint.rule import Draft, GradientState, Rule, RuleMeta, Severity, short


class NeedlessClip(Rule):
    """A plain convolutional network is clipped though nothing asks for it.

    ## What it does
    Finds a clip of a plain convolutional network that is trained with SGD: one that this file builds of convolutions
    and batch normalisation, or a well-known one (ResNet, VGG, DenseNet, ...) of torchvision or timm. The message names
    the part by which it was recognised.

    ## Why is this bad?
    Normalisation layers keep such gradients in bounds, and the usual recipes train these networks without a clip. A
    clip that never acts costs a little time on every step and makes readers look for a problem that is not there. One
    that does act often hides a learning rate that is too high.

    ## Example
    ```python
    import torch
    import torchvision

    model = torchvision.models.resnet18(num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    for images, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=5.0)
        optimizer.step()
    ```

    ## Use instead
    ```python
    import torch
    import torchvision

    model = torchvision.models.resnet18(num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    for images, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    ```

    ## Fix safety
    There is no automatic fix: your data may have the rare spikes that the clip is for. Log the norm that
    `clip_grad_norm_` returns; if it never comes near the limit, the clip can go.

    ## Known limits
    Off by default, and a matter of taste. Every part of the clipped model must be known: one that is handed in, or that
    has a layer from another file, is left alone. So are models with attention or recurrent layers, policies, updates
    with two optimizers (a GAN) or with a `GradScaler`, gradients with added noise, clips whose norm is used, clips with
    a limit so high that they only measure, and every optimizer but SGD.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    meta = RuleMeta("GL109", Severity.ADVICE, default=False)
    needs = (Backward,)
    message = "`{clip}` clips {evidence}, a plain CNN trained with SGD: normalisation layers make it needless"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if state.optimizer.kind != "SGD" or not state.pending or clip.kind is not ClipKind.NORM:
            return
        if not clip.params.known or (clip.threshold is not None and clip.threshold >= _MEASURES) or _has_reasons(state):
            return
        models = self.file.models
        if models.value_used(clip.site) or any(models.policy(loss) for loss in state.pending):
            return
        evidence = models.plain_cnn(clip.params, clip)
        if evidence is not None:
            yield self.finding(
                clip, clip=short(clip), evidence=evidence.text, related=[(evidence.site, evidence.said)]
            )  # fmt: skip


#: `clip_grad_norm_(…, 1e9)` is a way to get the norm
_MEASURES = 1000


def _has_reasons(state: GradientState) -> bool:
    """Half precision overflows, adversaries and noise are what clips are for."""
    steps = {e.optimizer for e in state.path.of(Step)}
    scaled = any(loss.scaler is not None for loss in state.pending)
    return len(steps) > 1 or scaled or bool(state.life.events(Edit))
