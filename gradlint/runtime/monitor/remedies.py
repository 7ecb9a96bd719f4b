"""What to do about sizes, in the order in which it is worth trying. Without torch."""

from __future__ import annotations

from gradlint.runtime.monitor.data import Condition

_CLIP = "clip_grad_norm_(model.parameters(), max_norm=1.0) before the step"

_EXPLODING = (
    _CLIP,
    "a lower learning rate, with warm-up",
    "initialisation and normalisation of the layers with the largest gradients",
    "the loss's numerics: unbounded logarithms, divisions, exponentials (GL601–GL604); a mean in place of a sum",
)

_VANISHING = (
    "ReLU or GELU in place of sigmoid and tanh (GL701)",
    "initialisation that fits the activation (kaiming, xavier)",
    "normalisation between the layers",
    "shortcuts round them (x + f(x))",
)

REMEDIES: dict[Condition, tuple[str, ...]] = {
    Condition.EXPLODING: _EXPLODING,
    Condition.GROWING: _EXPLODING,
    Condition.SPIKE: (
        _CLIP,
        "the batch of that step: outliers, empty targets, wrong labels",
        "a lower learning rate, or a smaller beta2 of Adam",
        "the loss's numerics (GL601–GL604)",
    ),
    Condition.VANISHING: (
        "whether the loss still reaches the model: no detach(), no softmax before cross_entropy (GL606)",
        *_VANISHING,
    ),
    Condition.VANISHING_EARLY: _VANISHING,
    Condition.LARGE_RATIO: (
        "a lower learning rate, with warm-up",
        _CLIP,
        "initialisation: weights that are too small for their gradients",
    ),
    Condition.DEAD_LAYERS: (
        "a lower learning rate: one large step can push every unit of a ReLU layer below 0",
        "LeakyReLU or GELU in place of ReLU",
        "initialisation, biases first",
        "whether the layer's output is multiplied by 0, masked or saturated on its way to the loss",
    ),
    Condition.DEAD_UNITS: (
        "a lower learning rate, with warm-up",
        "LeakyReLU or GELU in place of ReLU",
        "initialisation, biases first",
    ),
    Condition.NO_OPTIMIZER: (
        "build the optimizer behind the last change of the model (GL804)",
        "optimizer.add_param_group({'params': …}) for layers that come later",
    ),
    Condition.FOREIGN_OPTIMIZER: (
        "build the optimizer from model.parameters(), behind all copies, moves and wrappers",
    ),
    Condition.RATE_ZERO: (
        "the schedule: warm-up that is stepped once an epoch stays at 0 for the first one (GL406)",
        "whether the schedule is longer than the training, in the units in which it is stepped",
    ),
    Condition.NEVER_TRAINED: (
        "whether the forward uses them at all, and the loss uses what they make",
        "detach(), .data, .item(), numpy() or no_grad() between them and the loss (GL801)",
        "a layer that was replaced behind the optimizer (GL804)",
        "if they are meant to stay as they are: requires_grad_(False), and leave them out of the optimizer",
    ),
    Condition.DEAD_STEPS: (
        "whether the loss depends on the model: no detach(), no constant, no mask that is all 0",
        "dead units: a lower learning rate, LeakyReLU or GELU",
        "float16 without a GradScaler: small gradients become 0 (GL212)",
    ),
    Condition.NO_GRADIENTS: (
        "the order: zero_grad(), backward(), step(); no zero_grad() between the last two (GL403)",
        "whether the optimizer holds the parameters that the loss depends on",
    ),
}


def remedies(condition: Condition, clipped: bool = False) -> tuple[str, ...]:
    """In order; a clip is no remedy where there is one."""
    return tuple(each for each in REMEDIES.get(condition, ()) if not (clipped and each == _CLIP))
