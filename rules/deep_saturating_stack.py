"""GL701 deep-saturating-stack."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from gradlint.rule import Call, Draft, File, FixSafety, OptionValue, Repair, Rule, RuleMeta, Severity, Stack


class DeepSaturatingStack(Rule):
    """Many sigmoid or tanh layers follow each other with nothing that keeps the gradient alive.

    ## What it does
    Finds four or more (option `layers`) sigmoid or tanh activations between linear or convolutional layers, with no
    normalisation and no shortcut between them: in `nn.Sequential`, in lists of layers, and in `forward`.

    ## Why is this bad?
    A gradient is multiplied by the slope of every activation that it passes. The slope of a sigmoid is 1/4 at best, so
    that four of them multiply it by 1/256, and the usual weights do not make up for that: the first layers hardly
    learn. The slope of tanh is 1 at best, and that only near zero. Some tanh layers are fine with small inputs and
    weights of the right size, but each unit that saturates passes on next to nothing.

    ## Example
    ```python
    from torch import nn

    model = nn.Sequential(
        nn.Linear(64, 128),
        nn.Sigmoid(),
        nn.Linear(128, 128),
        nn.Sigmoid(),
        nn.Linear(128, 128),
        nn.Sigmoid(),
        nn.Linear(128, 64),
        nn.Sigmoid(),
        nn.Linear(64, 1),
        nn.Sigmoid(),
    )
    ```

    ## Use instead
    ```python
    from torch import nn

    model = nn.Sequential(
        nn.Linear(64, 128),
        nn.ReLU(),
        nn.Linear(128, 128),
        nn.ReLU(),
        nn.Linear(128, 128),
        nn.ReLU(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, 1),
        nn.Sigmoid(),
    )
    ```

    ## Fix safety
    The fix writes ReLU for the activations between the layers and leaves the output's alone. It is unsafe: it makes
    another model, and weights that were trained before do not fit it. It is not the only way, and for tanh often not
    the best: a normalisation (`nn.LayerNorm`, `nn.BatchNorm1d`) in front of each activation, or a shortcut
    (`x = x + block(x)`), keeps the function and helps any depth. A deep ReLU network needs weights made for it
    (`nn.init.kaiming_normal_`), since PyTorch's own initialisation shrinks gradients in it, too. No fix is offered
    where an activation between the layers is the output's as well, or where the weights are initialised for it.

    ## Known limits
    Builders in other files are followed where an activation of this file takes part, and loops only where their
    count can be read; a default such as `depth=6` counts, an activation that the caller chooses does not. Files
    that differentiate the model by its inputs (`torch.autograd.grad(…, create_graph=True)`, `torch.func`, ODE
    solvers), or that speak of equations (`PINN`), are left alone: physics-informed networks need smooth
    activations. So are tanh layers whose weights are initialised with care (Xavier, orthogonal, a gain), and LeNet.

    ## References
    - [Understanding the difficulty of training deep feedforward networks](https://proceedings.mlr.press/v9/glorot10a.html)
    - [torch.nn.init](https://pytorch.org/docs/stable/nn.init.html)
    """

    meta = RuleMeta("GL701", Severity.ADVICE, fix=FixSafety.UNSAFE)
    message = "{count} {kind} layers in a row with no norm or shortcut: {effect}"
    options: ClassVar[Mapping[str, OptionValue]] = {"layers": 4}

    def on_stack(self, stack: Stack) -> Iterator[Draft]:
        if len(stack.hidden) < int(self.settings["layers"]) or self.file.once(_wants_smooth):
            return
        if any(map(_EQUATION.search, stack.seen)):
            return
        names = {layer.name for layer in stack.hidden}
        careful = self.file.once(_is_careful) or any(map(_CAREFUL.search, stack.seen))
        if names != {"tanh"} or not careful:
            yield self._draft(stack, names)

    def _draft(self, stack: Stack, names: set[str]) -> Draft:
        places = list(dict.fromkeys(layer.used_at for layer in stack.hidden))
        made = list(dict.fromkeys(layer.made_at for layer in stack.hidden))
        related = [(place, f"number {n}") for n, place in enumerate(places[1:], start=2)]
        if not set(made) & set(places):
            related = [(made[0], "made here"), *related]
        # an activation that is the output's, too, or a gate, cannot be exchanged for the hidden layers alone
        repairs = [Repair(_RELU, lambda bench: bench.use_relu(made))] if stack.alone else []
        kind = min(names) if len(names) == 1 else "sigmoid and tanh"
        effect = _SIGMOID if "sigmoid" in names else _TANH
        count = len(stack.hidden)
        return self.finding(places[0], count=count, kind=kind, effect=effect, related=related[:6], repairs=repairs)


_RELU = "Use ReLU between the layers"
_SIGMOID = "a sigmoid passes on at most a quarter of the gradient"
_TANH = "gradients fade wherever they saturate"
#: somebody has thought about the scale of the weights, or copies a classic that has four tanh layers and works
_CAREFUL = re.compile(r"^(?:xavier|glorot|orthogonal)|calculate_gain|(?i:lenet)")
#: equations that are solved by a network: its derivatives by the inputs are wanted, perhaps in another file
_EQUATION = re.compile(
    r"PINN|PDE|(?<![a-z])(?:pinns?|pdes?)(?![a-z])|(?i:physics|neural_?ode|ode_?func|hamilton|lagrangian|deeponet|burgers)"
)
#: derivatives by the inputs: equations, flows
_SMOOTH = re.compile(
    r"^(?:torch\.func|functorch|torch\.autograd\.functional|torchdiffeq|torchdyn|deepxde|neurodiffeq)\b"
)


def _is_careful(file: File) -> bool:
    return any(_CAREFUL.search(word) for word in (*file.words.seen, *file.defined))


def _wants_smooth(file: File) -> bool:
    if any(_SMOOTH.match(name) or _EQUATION.search(name) for name in file.imports.values()):
        return True
    return any(_EQUATION.search(name) for name in file.defined) or any(_differentiates(call) for call in file.calls())


def _differentiates(call: Call) -> bool:
    """By the inputs, so that the gradient itself can be differentiated."""
    given = call.keywords.get("create_graph")
    if given is not None and given.constant and given.value is not True:
        return False
    return given is not None or _SMOOTH.match(call.name) is not None
