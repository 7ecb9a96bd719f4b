"""What arithmetic and tensor methods do to a loss: who it depends on, and how it is normalised."""

from __future__ import annotations

import re

from gradlint.events import EditKind, Norm, Params, Sync, Wrap
from gradlint.knowledge import naming
from gradlint.knowledge.torch_api import CUTS
from gradlint.paths import values as v
from gradlint.records import replace

#: what changes the loss itself
IN_PLACE = frozenset({"div_", "divide_", "true_divide_", "mul_", "multiply_", "add_", "sub_"})

#: the strongest statement about normalisation wins when values are combined by anything but addition
_RANK = [Norm.UNKNOWN, Norm.RAW, Norm.SUMMED, Norm.WEIGHTED, Norm.DIVIDED, Norm.DIVIDED_BY_COUNTER]
_WITH_PARAMS = (v.Tensor, v.Unknown)
_SCALED = (Norm.DIVIDED, Norm.WEIGHTED)
#: `1 / n`, `1.0 / float(n)`; the same made a tensor
_INVERSE = re.compile(
    r"\(*(?:(?:\w+\.)?(?:tensor|as_tensor|float)\(\(*)?1(?:\.0*)?\s*/\s*(?P<of>[\w.\[\]\"']+|(?:float|int|max)\(.*?\)).*"
)
_CONVERTED = re.compile(r"(?:float|int)\((.*)\)")


def inverse_of(value: v.Value | None) -> tuple[str, float | None] | None:
    """N of `1 / N`: its text, and the number if it is known; None where the value is nothing of the kind."""
    if value is None or isinstance(value, v.Tensor):
        return None
    found = _INVERSE.fullmatch(value.key)
    if found is None or any(op in value.key[found.end("of") :] for op in "+-*/%"):
        return None
    number = v.number_of(value)
    return _CONVERTED.sub(r"\1", found["of"]), 1 / number if number else None


def merge(parts: list[v.Value], key: str, norm: Norm = Norm.RAW) -> v.Tensor | None:
    """The tensor that a computation from these gives, None if none of them depends on a model."""
    flat = flatten(parts)
    tensors = [p for p in flat if isinstance(p, v.Tensor)]
    owners: set[str] = set()
    known = True
    for part in flat:
        if isinstance(part, _WITH_PARAMS):
            owners |= part.params.owners
            known &= part.params.known
    if not tensors and not owners:
        return None
    first = next((t for t in tensors if t.forward is not None), tensors[0] if tensors else v.Tensor())
    handed = frozenset[float]().union(*(t.handed for t in tensors))
    return v.Tensor(
        key, Params(frozenset(owners), known), norm, model=first.model, wrap=first.wrap,
        forward_sync=first.forward_sync, forward=first.forward, framework=first.framework,
        scaler=next((t.scaler for t in tensors if t.scaler is not None), None), handed=handed,
        unseen=next((t.unseen for t in tensors if t.unseen), ""),
    )  # fmt: skip


def flatten(parts: list[v.Value], depth: int = 0) -> list[v.Value]:
    out: list[v.Value] = []
    for part in parts:
        if depth < 3 and isinstance(part, v.Collection):
            out.extend(flatten(part.each, depth + 1))
        else:
            out.append(part)
    return out


def gradients_in(value: v.Value, *, copies: bool = False) -> Params | None:
    """The parameters whose gradients a value holds (as copies, if only these count); None if it holds none."""
    for part in flatten([value]) if isinstance(value, v.Collection) else (value,):
        if isinstance(part, v.Grad) and (part.copy or not copies):
            return part.params
        if isinstance(part, v.Unknown) and part.grads is not None:
            return part.grads
    return None


def twin(param: v.Parameter, text: str) -> v.Parameter:
    """A copy of a parameter to train with, a master weight in float32: its gradients are its own."""
    return v.Parameter(text, Params(frozenset({f"the copy {text}"}), True), twin=True)


def measured(made: v.Value, parts: list[v.Value]) -> v.Value:
    """What is made of the norm of gradients, a factor that limits them perhaps."""
    if not isinstance(made, v.Unknown) or made.of_norm:
        return made
    of_norm = any(isinstance(part, v.Unknown) and part.of_norm for part in flatten(parts))
    return replace(made, of_norm=True) if of_norm else made


def limits(kind: EditKind, by: v.Value | None) -> bool:
    """`p.grad.mul_(limit / norm)`, `p.grad.div_(norm / limit)`; a division by the norm makes all of them as long."""
    if not isinstance(by, v.Unknown) or not by.of_norm:
        return False
    return kind is EditKind.SCALE or (kind is EditKind.DIVIDE and bool(by.over))


def kept_norm(parts: list[v.Value]) -> Norm:
    """A function of a loss keeps what was done to it."""
    norms = [p.norm for p in flatten(parts) if isinstance(p, v.Tensor)]
    return max(norms, key=_RANK.index, default=Norm.RAW)


def arithmetic(op: str, left: v.Value, right: v.Value, key: str) -> v.Tensor | None:
    """`loss / n`, `a + w * b`; None when no tensor takes part."""
    if not isinstance(left, v.Tensor) and not isinstance(right, v.Tensor):
        return None
    result = merge([left, right], key)
    if result is None:
        return None
    if op in ("+", "-"):
        return _sum(result, left, right)
    tensor, other = (left, right) if isinstance(left, v.Tensor) else (right, left)
    assert isinstance(tensor, v.Tensor)
    if op in ("/", "//") and isinstance(left, v.Tensor):
        return _divided(result, left, right)
    if op == "*":
        return _multiplied(result, tensor, other)
    return _as(result, tensor)


def _as(result: v.Tensor, tensor: v.Tensor) -> v.Tensor:
    """Normalised as this one is."""
    return result.but(
        norm=tensor.norm, divisor=tensor.divisor, divisor_value=tensor.divisor_value, divisors=tensor.divisors
    )


def _sum(result: v.Tensor, left: v.Value, right: v.Value) -> v.Tensor:
    terms = [t for t in (left, right) if isinstance(t, v.Tensor)]
    result = result.but(terms=sum(t.terms for t in terms))
    if len(terms) == 2 and any(t.norm is Norm.RAW for t in terms):
        # one divided and one raw term: the raw one spoils the sum
        return result.but(norm=Norm.RAW)
    if len(terms) == 2 and _is_mix(*terms):
        return result.but(norm=Norm.RAW, handed=result.handed | terms[0].divisors | terms[1].divisors)
    weights = [t.weight.strip("()") for t in terms if t.norm is Norm.WEIGHTED]
    if len(weights) == 2 and _make_one(*weights):
        return result.but(norm=Norm.RAW)
    strongest = max(terms, key=lambda t: _RANK.index(t.norm))
    divisors = frozenset[float]().union(*(t.divisors for t in terms)) if all(t.divisors for t in terms) else frozenset()
    return _as(result, strongest).but(divisors=divisors)


def _is_mix(a: v.Tensor, b: v.Tensor) -> bool:
    """`0.3 * a + 0.7 * b`: plain numbers weigh the terms against each other, and normalise nothing."""
    if any(t.norm is not Norm.WEIGHTED or len(t.divisors) != 1 for t in (a, b)):
        return False
    first, second = (1 / next(iter(t.divisors)) for t in (a, b))
    return first != second or abs(first + second - 1) < 1e-6


def _make_one(a: str, b: str) -> bool:
    """`w * a + (1 - w) * b`: whatever the weight is, they normalise nothing."""
    return any(rest in (f"1 - {weight}", f"1.0 - {weight}") for weight, rest in ((a, b), (b, a)) if weight)


def _divided(result: v.Tensor, left: v.Tensor, right: v.Value) -> v.Tensor:
    if isinstance(right, v.Known) and right.counter:
        return result.but(norm=Norm.DIVIDED_BY_COUNTER, divisor=right.key)
    number = v.number_of(right)
    if number is not None and number == left.terms > 1:
        return _as(result, left).but(handed=result.handed | {number})  # a mean over the terms, as it seems
    divisors = _divided_again(left, number)
    return result.but(
        norm=Norm.DIVIDED, divisor=right.key, divisor_value=v.whole_number(right), divisors=divisors
    )  # fmt: skip


def _divided_again(left: v.Tensor, by: float | None) -> frozenset[float]:
    """What a loss is divided by now, in all; nothing where one of the numbers is unknown."""
    if not by or (left.norm in _SCALED and not left.divisors) or len(left.divisors) > 6:
        return frozenset()
    return left.divisors | {by} | {by * number for number in left.divisors}


def _multiplied(result: v.Tensor, tensor: v.Tensor, other: v.Value) -> v.Tensor:
    if isinstance(other, v.Tensor):
        return result.but(norm=max(tensor.norm, other.norm, key=_RANK.index), divisor=tensor.divisor)
    inverse = inverse_of(other)
    if inverse is not None:
        by, value = inverse
        whole = int(value) if value is not None and float(value).is_integer() else None
        divisors = _divided_again(tensor, value)
        return result.but(norm=Norm.DIVIDED, divisor=by, divisor_value=whole, divisors=divisors)
    if naming.BATCH_LENGTH.search(other.key):
        # a mean times the number of items is their sum
        return _as(result, tensor).but(norm=max(tensor.norm, Norm.SUMMED, key=_RANK.index))
    if isinstance(other, v.Constant) and isinstance(other.value, int | float) and abs(other.value) >= 1:
        kept = tensor.divisors if other.value == 1 else frozenset[float]()
        return _as(result, tensor).but(divisors=kept)
    # `loss * w`, and `loss / n * n` too: whoever writes that has thought about it; of plain numbers more is known
    number = v.number_of(other)
    weight = other.key if number is None and tensor.norm is Norm.RAW else ""
    divisors = _divided_again(tensor, 1 / number if number else None)
    return result.but(norm=Norm.WEIGHTED, divisor="", divisors=divisors, weight=weight)


def weighted(tensor: v.Tensor, by: v.Value) -> v.Tensor:
    """A loss whose backward is started with another gradient than one."""
    inverse = inverse_of(by)
    if inverse is None and all(map(_is_one, flatten([by]))):
        return tensor
    if inverse is None and isinstance(by, v.Constant) and not isinstance(by.value, int | float):
        return tensor
    if isinstance(by, v.Tensor | v.Collection):
        return tensor.but(norm=Norm.WEIGHTED, divisor="", divisors=frozenset())
    return _multiplied(tensor, tensor, by)


def entry_by_entry(whole: v.Tensor, entry: v.Tensor) -> None:
    """`for k in losses: losses[k] = losses[k] / n`: what becomes of one entry becomes of all, once."""
    if whole.norm not in _SCALED and entry.norm in _SCALED:
        whole.norm, whole.divisor, whole.divisor_value = entry.norm, entry.divisor, entry.divisor_value
        whole.divisors = entry.divisors


def _is_one(by: v.Value) -> bool:
    """`torch.ones_like(loss)`, None, and what is called `ones`."""
    if isinstance(by, v.Constant):
        return by.value is None
    if not isinstance(by, v.Unknown) or not (by.called or by.key.replace(".", "_").isidentifier()):
        return False
    return "ones" in naming.words(naming.last(by.called or by.key))


def method(tensor: v.Tensor, name: str, args: list[v.Value], key: str) -> v.Value:
    """The result of `tensor.name(args)`."""
    if name in CUTS:
        return v.Unknown(key, called=name)
    if name in ("div", "div_", "true_divide", "divide", "divide_", "true_divide_") and args:
        return arithmetic("/", tensor, args[0], key) or tensor
    if name in ("mul", "mul_", "multiply", "multiply_") and args:
        return arithmetic("*", tensor, args[0], key) or tensor
    if name in ("add", "add_", "sub", "sub_") and args:
        return arithmetic("+", tensor, args[0], key) or tensor
    if name in ("mean", "nanmean"):
        return tensor.but(key=key, norm=_after_mean(tensor.norm), divisor="", divisor_value=None, divisors=frozenset())
    if name in ("sum", "nansum"):
        # a sum of what was divided stays divided; a sum of raw values is a sum
        kept = tensor.norm if tensor.norm in (Norm.DIVIDED, Norm.DIVIDED_BY_COUNTER) else Norm.SUMMED
        return tensor.but(key=key, norm=kept)
    merged = merge([tensor, *args], key, kept_norm([tensor]))
    result = merged if merged is not None else tensor.but(key=key)
    return result.but(
        divisor=tensor.divisor, divisor_value=tensor.divisor_value, scaler=tensor.scaler, divisors=tensor.divisors
    )


def _after_mean(norm: Norm) -> Norm:
    return norm if norm in (Norm.DIVIDED, Norm.DIVIDED_BY_COUNTER) else Norm.RAW


def forward(
    key: str, owner: str, *, wrap: Wrap = Wrap.NONE, sync: Sync = Sync.ON, inputs: list[v.Value] | None = None
) -> v.Tensor:
    """What calling a model gives."""
    owners = {owner}
    known = True
    for part in flatten(inputs or []):
        if isinstance(part, v.Tensor):
            owners |= part.params.owners
            known &= part.params.known
    return v.Tensor(key, Params(frozenset(owners), known), Norm.RAW, model=owner, wrap=wrap, forward_sync=sync)
