"""Turns the frameworks' clips by value into clips by norm: Lightning's and Fabric's `clip_gradients`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Clip, Manager
from gradlint.rewrite.calls import call_of
from gradlint.rewrite.refusal import NotFixable

if TYPE_CHECKING:
    from gradlint.rewrite.bench import Bench

_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def clip_gradients_by_norm(bench: Bench, clip: Clip, limit: str | None) -> None:
    """`clip_val` becomes `max_norm` (Fabric), the algorithm becomes "norm" (Lightning), each in its place."""
    call = call_of(bench, clip)
    if clip.manager is Manager.FABRIC:
        _name_max_norm(bench, _argument(call, "clip_val", 2), limit)
        return
    algorithm = _argument(call, "gradient_clip_algorithm", 2).value
    if not isinstance(algorithm, cst.SimpleString):
        raise NotFixable("the algorithm is named elsewhere")
    bench.replace(algorithm, cst.SimpleString(f"{algorithm.quote}norm{algorithm.quote}"))
    if limit is not None:
        bench.replace(_argument(call, "gradient_clip_val", 1).value, limit)


def _name_max_norm(bench: Bench, arg: cst.Arg, limit: str | None) -> None:
    value = cst.parse_expression(limit) if limit is not None else arg.value
    equal = arg.equal if arg.keyword is not None else _TIGHT
    bench.replace(arg, arg.with_changes(keyword=cst.Name("max_norm"), equal=equal, value=value))


def _argument(call: cst.Call, name: str, position: int) -> cst.Arg:
    for n, arg in enumerate(call.args):
        if arg.star:
            raise NotFixable("arguments are handed on with a star")
        if (arg.keyword is None and n == position) or (arg.keyword is not None and arg.keyword.value == name):
            return arg
    raise NotFixable(f"`{name}` was not found")
