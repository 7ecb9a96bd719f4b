"""What the layers of torch.nn do to the gradient that comes back through them."""

from __future__ import annotations

import enum

from gradlint.knowledge.pattern import Pattern


class Role(enum.Enum):
    """The part that a layer plays in a stack."""

    #: multiplies by weights
    AFFINE = "affine"
    #: an activation that is flat at both ends
    SATURATING = "saturating"
    #: lets the gradient through as it is, or picks some of it
    NEUTRAL = "neutral"
    #: a norm, an activation that does not saturate, or anything unknown: a stack ends here
    BREAK = "break"


_AFFINE = Pattern(r"^(Lazy)?(Linear|Bilinear|Conv(Transpose)?[123]d)$")
_NEUTRAL = Pattern(
    r"^((Feature)?(Alpha)?Dropout([123]d)?|Identity|(Un)?[Ff]latten|(Adaptive|Fractional)?(Max|Avg|LP)Pool[123]d|"
    r"(Zero|Constant|Reflection|Replication|Circular)Pad[123]d|Upsample|Upsampling(Nearest|Bilinear)2d|"
    r"Pixel(Uns|S)huffle|ChannelShuffle|Max[Uu]npool[123]d)$"
)
#: modules, functions and methods: `nn.Tanh`, `torch.tanh`, `x.tanh_()`
SATURATING = {
    "Tanh": "tanh", "Sigmoid": "sigmoid", "tanh": "tanh", "sigmoid": "sigmoid", "tanh_": "tanh", "sigmoid_": "sigmoid",
}  # fmt: skip
_NEUTRAL_FUNCTION = Pattern(
    r"^(dropout[123]?d?|(adaptive_)?(max|avg|lp)_pool[123]d|interpolate|upsample|pad|pixel_(un)?shuffle|flatten|squeeze|"
    r"unsqueeze|reshape|permute|transpose|swapaxes|movedim|mean|sum|amax|clone|ravel|unflatten|t)$"
)
_NEUTRAL_METHODS = frozenset({
    "view", "reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "t", "contiguous", "to", "float",
    "double", "half", "bfloat16", "cuda", "cpu", "type", "expand", "repeat", "clone", "view_as", "type_as", "swapaxes",
    "movedim", "ravel", "unflatten", "mean", "sum", "amax", "requires_grad_", "retain_grad", "expand_as", "reshape_as",
})  # fmt: skip
#: the tensor says something about itself, which is no tensor
ASIDE = frozenset(
    {"size", "dim", "numel", "shape", "device", "dtype", "ndim", "ndimension", "is_cuda", "requires_grad"}
)
#: several tensors become one
MERGES = frozenset(
    {"cat", "concat", "stack", "add", "mul", "sub", "bmm", "matmul", "einsum", "lerp", "hstack", "where"}
)

_FUNCTION_HOMES = ("torch.", "torch.nn.functional.", "torch.special.")


def module_role(dotted: str) -> Role | None:
    """What a module class of torch.nn is; None for a name that is no such class."""
    home, _, name = dotted.rpartition(".")
    if not home.startswith("torch.nn") or not name[:1].isupper():
        return None
    if name in SATURATING:
        return Role.SATURATING
    if _AFFINE.match(name):
        return Role.AFFINE
    return Role.NEUTRAL if _NEUTRAL.match(name) else Role.BREAK


def function_role(dotted: str) -> Role | None:
    """What a function of torch is; None for a name from elsewhere."""
    home, _, name = dotted.rpartition(".")
    if f"{home}." not in _FUNCTION_HOMES or name[:1].isupper():
        return None
    if name in SATURATING:
        return Role.SATURATING
    return Role.NEUTRAL if _NEUTRAL_FUNCTION.match(name) else Role.BREAK


def method_role(name: str) -> Role:
    """What a method of a tensor is."""
    if name in SATURATING:
        return Role.SATURATING
    return Role.NEUTRAL if name in _NEUTRAL_METHODS else Role.BREAK
