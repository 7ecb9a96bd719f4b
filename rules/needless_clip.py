"""GL109 needless-clip."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Clip
from gradlint.frontend.program import Program
from gradlint.machine.state import GradientState
from gradlint.model import Category, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class NeedlessClip(Rule):
    """A plain convolutional network is clipped though nothing asks for it.

    ## What it does
    Finds a clip in the training of a plain convolutional network (`Conv2d`, `BatchNorm2d`, ResNet, VGG) with SGD.

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
    Off by default, and a matter of taste. The kind of network is read from the names in this file. Files that also
    mention attention, recurrent layers, a policy's `log_prob` or a `GradScaler` are left alone, and so is every
    optimizer but SGD.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    meta = RuleMeta("GL109", Category.CLIPPING, Severity.ADVICE, default=False)
    message = "`{clip}` clips a plain convolutional network trained with SGD: normalisation layers make it needless"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if self._plain and state.optimizer.kind == "SGD" and state.pending:
            yield self.finding(clip, clip=short(clip))

    def on_program(self, program: Program) -> Iterator[Draft]:
        """Remembers whether the file trains a plain CNN and nothing else."""
        seen = program.all_words.seen
        convolutional = any(w.startswith(("Conv2d", "resnet", "vgg", "BatchNorm2d")) for w in seen)
        delicate = any(
            w.startswith(("Transformer", "LSTM", "GRU", "RNN", "Multihead", "log_prob", "GradScaler")) for w in seen
        )
        self._plain = convolutional and not delicate
        yield from ()

    _plain = False
