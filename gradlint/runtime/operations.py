"""The operation that made a NaN or an Inf: read from the graph of the loss, while its saved tensors are there."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

#: operations that make NaN or Inf out of finite numbers, and the rule that tells more
_DELICATE = {
    "Log": "GL601",
    "Log2": "GL601",
    "Log10": "GL601",
    "Log1P": "GL601",
    "Div": "GL602",
    "Reciprocal": "GL602",
    "Sqrt": "GL603",
    "Rsqrt": "GL603",
    "Norm": "GL603",
    "LinalgVectorNorm": "GL603",
    "Pow": "GL603",
    "Acos": "GL603",
    "Asin": "GL603",
    "Exp": "GL604",
    "Expm1": "GL604",
}

#: those whose result is not saved, and how to see from what is saved that it was not finite
_TESTS: dict[str, tuple[str, Callable[[Tensor], Tensor], str]] = {
    "Log": ("self", lambda x: x <= 0, "of a number that is not above 0"),
    "Log2": ("self", lambda x: x <= 0, "of a number that is not above 0"),
    "Log10": ("self", lambda x: x <= 0, "of a number that is not above 0"),
    "Log1P": ("self", lambda x: x <= -1, "of a number that is not above -1"),
    "Div": ("other", lambda x: x == 0, "by 0"),
    "Acos": ("self", lambda x: x.abs() > 1, "of a number beyond 1"),
    "Asin": ("self", lambda x: x.abs() > 1, "of a number beyond 1"),
}

#: which of its operands an operation saves under a name
_PLACES = {"": {"other": 1, "target": 1, "mat2": 1, "weight": 1}, "Addmm": {"mat1": 1, "mat2": 2}}

#: saved under these names is what an operation made, under others what it was given
_RESULTS = ("result", "output", "out", "logsumexp")

#: nodes that are looked at: near the loss, and in all
_NEAR = 300
_MOST = 20_000


@dataclass(frozen=True, slots=True)
class Operation:
    """`log (LogBackward0, GL601) of a number that is not above 0`."""

    #: as autograd calls it
    node: str
    code: str = ""
    #: what about its numbers
    detail: str = ""
    #: the parameters that it multiplies, if it is a layer
    layer: str = ""
    #: it did not make the number, it was given it from outside of the graph
    given: bool = False

    @property
    def word(self) -> str:
        """As torch calls the function: `log`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", _kind(self.node)).lower()

    @property
    def short(self) -> str:
        return f"{self.node} ({self.code})" if self.code else self.node

    @property
    def said(self) -> str:
        return str(self) if self.given else f"{self} made it"

    def __str__(self) -> str:
        known = ", ".join(part for part in (self.node, self.code) if part)
        layer = f" with {self.layer}" if self.layer else ""
        return f"{self.word} ({known}){layer}{f' {self.detail}' if self.detail else ''}"


def _kind(name: str) -> str:
    return name.rstrip("0123456789").removesuffix("Backward")


def delicate(loss: Tensor) -> Iterator[Operation]:
    """Operations near the loss that make NaN or Inf out of finite numbers, the nearest first, each kind once."""
    waiting, seen, told = [loss.grad_fn], set[Any](), set[str]()
    while waiting and len(seen) < _NEAR:
        node = waiting.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        kind = _kind(node.name())
        if kind in _DELICATE and kind not in told:
            told.add(kind)
            yield Operation(node.name(), _DELICATE[kind])
        waiting += [following for following, _ in node.next_functions]


@torch.no_grad()
def origin(loss: Tensor, names: Mapping[int, str] | None = None) -> Operation | None:
    """The first operation whose result is not finite though what it was given is; None where nobody can tell.

    Only before the backward, which frees what the operations have saved. `names` are those of parameters, by identity.
    """
    for node in _from_the_leaves(loss.grad_fn):
        kind = _kind(node.name())
        given, made = _saved(node)
        if given is None or made is None:
            return None  # freed
        if bad := next((name for name, tensor in given.items() if _broken(tensor)), ""):
            # None before it is to blame by what it has saved: whoever made this operand is, a product that overflows.
            maker = _maker(node, bad)
            if maker is None:
                return dataclasses.replace(_operation(node, names, f"was given it as `{bad}`"), given=True)
            return _operation(maker, names)
        if kind in _TESTS and _TESTS[kind][0] in given:
            operand, test, detail = _TESTS[kind]
            if bool(test(given[operand]).any()):
                return _operation(node, names, detail)
        if any(_broken(tensor) for tensor in made.values()):
            maker = None if kind in _DELICATE else _maker(node, "self")
            return _operation(node if maker is None else maker, names)
        if kind == "Pow" and "self" in given and _broken(_power(node, given["self"])):
            return _operation(node, names)
    return None


def _from_the_leaves(root: Any) -> Iterator[Any]:
    """Every node after those that it was made of."""
    waiting: list[tuple[Any, bool]] = [(root, False)]
    seen = set[Any]()
    while waiting and len(seen) < _MOST:
        node, ready = waiting.pop()
        if node is None:
            continue
        if ready:
            yield node
        elif node not in seen:
            seen.add(node)
            waiting.append((node, True))
            waiting += [(following, False) for following, _ in reversed(node.next_functions)]


def _saved(node: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]] | tuple[None, None]:
    """What the operation was given and what it made, as far as it has saved that; None where it was freed."""
    given: dict[str, Tensor] = {}
    made: dict[str, Tensor] = {}
    for attribute in dir(node):
        if attribute.startswith("_saved_"):
            try:
                value = getattr(node, attribute)
            except RuntimeError:
                return None, None
            name = attribute.removeprefix("_saved_")
            if isinstance(value, Tensor) and value.is_floating_point() and value.layout is torch.strided:
                (made if name.startswith(_RESULTS) else given)[name] = value.detach()
    return given, made


def _maker(node: Any, operand: str) -> Any:
    """The operation that made an operand; None where it came from outside."""
    at = _PLACES.get(_kind(node.name()), {}).get(operand, _PLACES[""].get(operand, 0))
    before = node.next_functions
    maker = before[at][0] if at < len(before) else None
    return maker if maker is not None and maker.next_functions else None


def _power(node: Any, base: Tensor) -> Tensor:
    exponent = node._saved_exponent
    return base if isinstance(exponent, Tensor) else base.pow(exponent)


def _broken(tensor: Tensor) -> bool:
    return not bool(torch.isfinite(tensor).all())


def _operation(node: Any, names: Mapping[int, str] | None, detail: str = "") -> Operation:
    name = node.name()
    return Operation(name, _DELICATE.get(_kind(name), ""), detail, _layer(node, names or {}))


def _layer(node: Any, names: Mapping[int, str]) -> str:
    """The parameters that come straight into it, or transposed."""
    near = [following for following, _ in node.next_functions if following is not None]
    turned = [each for each in near if _kind(each.name()) in ("T", "Transpose", "Permute", "ToCopy")]
    near += [further for each in turned for further, _ in each.next_functions if further is not None]
    found = [names.get(id(getattr(each, "variable", None)), "") for each in near]
    return ", ".join(sorted({name for name in found if name}))
