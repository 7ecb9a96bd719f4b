"""Computes with what is known while a model's code is followed: numbers, comparisons, lists of layers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from gradlint.facts.stacks.wiring import END, SETTING, UNKNOWN, Known, Sequential, Setting, Several, Tensor, Value

#: no list of layers is made longer than this
LONGEST = 64

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "/": operator.truediv,
    "%": operator.mod,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def compute(op: str, left: Value, right: Value) -> Value:
    """`a + b` of numbers and of lists."""
    if isinstance(left, Several) and isinstance(right, Several) and op == "+":
        return _list((*left.items, *right.items))
    if isinstance(left, Known) and isinstance(right, Several) and op == "*":
        left, right = right, left
    if isinstance(left, Several) and isinstance(right, Known) and op == "*" and isinstance(right.value, int):
        return _list(left.items * min(right.value, LONGEST))
    if isinstance(left, Known) and isinstance(right, Known) and op in _ARITHMETIC:
        if _is_number(left) and _is_number(right) and not (op in "//%" and right.value == 0):
            return Known(_ARITHMETIC[op](left.value, right.value))
    return SETTING if isinstance(left, Known | Setting) and isinstance(right, Known | Setting) else UNKNOWN


def unary(op: str, value: Value) -> Value:
    if isinstance(value, Tensor):
        return value
    if op == "not":
        known = truth(value)
        return UNKNOWN if known is None else Known(not known)
    return compute(op, Known(0), value)


def compare(op: str, left: Value, right: Value) -> Value:
    if op in ("is", "is not") and right == Known(None) and not isinstance(left, Setting) and left != UNKNOWN:
        return Known((left == Known(None)) == (op == "is"))
    if isinstance(left, Known) and isinstance(right, Known) and op in _COMPARISONS:
        if op in ("==", "!=") or (_is_number(left) and _is_number(right)):
            return Known(_COMPARISONS[op](left.value, right.value))
    if op in ("in", "not in") and isinstance(left, Known) and isinstance(right, Several):
        if all(isinstance(x, Known) for x in right.items):
            return Known((left in right.items) == (op == "in"))
    return UNKNOWN


def truth(value: Value) -> bool | None:
    if isinstance(value, Known):
        return bool(value.value)
    return bool(value.items) if isinstance(value, Several) else None


def items_of(value: Value) -> tuple[Value, ...] | None:
    """What a loop over a value gives, turn by turn; None if that is not known."""
    items = value.items if isinstance(value, Several) else value.parts if isinstance(value, Sequential) else None
    return items if items is not None and len(items) <= LONGEST else None


def index(base: Value, at: Value) -> Value:
    items = items_of(base)
    if items is None or not isinstance(at, Known) or not isinstance(at.value, int):
        return UNKNOWN
    return items[at.value] if -len(items) <= at.value < len(items) else UNKNOWN


def sliced(base: Value, bounds: list[Value]) -> Value:
    """`[a:b]`, `[:-1]` and `[1:]`; the small tree does not tell `[:-1]` from `[-1:]`, which nobody writes here."""
    items = items_of(base)
    numbers = [x.value for x in bounds if isinstance(x, Known) and isinstance(x.value, int)]
    if items is None or len(numbers) != len(bounds):
        return UNKNOWN
    match numbers:
        case [-1]:
            items = items[:-1]
        case [1]:
            items = items[1:]
        case [low, high]:
            items = items[low:high]
        case _:
            return UNKNOWN
    return Sequential(items) if isinstance(base, Sequential) else Several(items)


def builtin(name: str, args: list[Value]) -> Value | None:
    """Python's own functions, as far as they are used to build models; None for any other."""
    match name.rpartition(".")[2], args:
        case "range", [*bounds] if bounds:
            return _range(bounds)
        case "len", [value]:
            items = items_of(value)
            return SETTING if items is None or END in items else Known(len(items))
        case "enumerate", [value, *_]:
            items = items_of(value)
            return UNKNOWN if items is None else _list(tuple(Several((Known(n), x)) for n, x in enumerate(items)))
        case "zip", [*values] if values:
            columns = [items_of(value) for value in values]
            known = [column for column in columns if column is not None]
            return _list(tuple(Several(row) for row in zip(*known, strict=False))) if known == columns else UNKNOWN
        case "reversed", [value]:
            items = items_of(value)
            return UNKNOWN if items is None else _list(items[::-1])
        case (("list" | "tuple" | "deepcopy" | "copy"), [value]):
            return value
        case (("list" | "tuple" | "OrderedDict"), []):
            return Several(())
        case "OrderedDict", [Several() as value]:
            pairs = [x.items for x in value.items if isinstance(x, Several)]
            return _list(tuple(p[1] if len(p) == 2 else END for p in pairs)) if len(pairs) == len(value.items) else END
        case (("int" | "float" | "max" | "min" | "round" | "abs" | "sqrt" | "log2" | "bool"), _):
            return args[0] if len(args) == 1 and name == "int" and isinstance(args[0], Known) else SETTING
        case _:
            return None


def _range(bounds: list[Value]) -> Value:
    numbers = [x.value for x in bounds if isinstance(x, Known) and isinstance(x.value, int)]
    if len(numbers) != len(bounds) or len(numbers) > 3 or numbers[2:] == [0]:
        return UNKNOWN
    turns = range(*numbers)
    return Several(tuple(Known(n) for n in turns)) if len(turns) <= LONGEST else UNKNOWN


def _list(items: tuple[Value, ...]) -> Value:
    return Several(items) if len(items) <= LONGEST else UNKNOWN


def _is_number(value: Known) -> bool:
    return type(value.value) in (int, float)
