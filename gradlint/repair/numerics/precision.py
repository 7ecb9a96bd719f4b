"""How small a number may be in this file: float16 holds less than float32."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.repair.nodes import called

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench

#: both it and 1 / it, which is the slope of a logarithm there, are far inside of the range
FLOAT32_EPS = "1e-6"
#: of the powers of ten, the smallest for which the same is true of float16 (6e-5 to 65504 at full precision)
FLOAT16_EPS = "1e-4"

_HALF_NAMES = frozenset({"float16", "GradScaler", "HalfTensor", "fp16", "use_fp16", "float16_mode", "is_fp16"})
_HALF_TEXTS = re.compile(r"(?i)fp16|float16|half|16-mixed|16-true|torch\.float16")
_WIDE = re.compile(r"bfloat16|bf16|float32")


def smallest_guard(bench: Bench) -> str:
    """The eps that keeps something away from zero here. bfloat16 has float32's range, and so needs no larger one."""
    half = any(map(_says_half, bench.document.anchors.every(ast.AST)))
    half = half or any(_makes_half(bench, call) for call in bench.calls("half", "autocast"))
    half = half or any(_makes_half(bench, call) for call in _with_precision(bench))
    return FLOAT16_EPS if half else FLOAT32_EPS


def _says_half(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=name) | ast.arg(arg=name):
            return name in _HALF_NAMES
        case ast.alias():
            return not _HALF_NAMES.isdisjoint((*node.name.split("."), node.asname or ""))
        case ast.Constant(value=str() as text):
            return _HALF_TEXTS.fullmatch(text) is not None
        case _:
            return False


def _with_precision(bench: Bench) -> list[cst.Call]:
    """The calls that are told a precision."""
    found = bench.calls() if "precision" in bench.document.source else ()
    return [x for x in found if any(arg.keyword and arg.keyword.value == "precision" for arg in x.args)]


def _makes_half(bench: Bench, call: cst.Call) -> bool:
    name = called(call)
    if name == "half":
        return not call.args
    given = {arg.keyword.value if arg.keyword else str(n): bench.code(arg.value) for n, arg in enumerate(call.args)}
    if name == "autocast" and given.get("enabled") != "False":
        # CUDA's default is float16, the CPU's is bfloat16
        dtype = given.get("dtype") or given.get("1", "")
        device = given.get("device_type") or given.get("0", "")
        on_cpu = "cpu" in bench.code(call.func) or device.strip("\"'") == "cpu"
        return not _WIDE.search(dtype) if dtype else not on_cpu
    return given.get("precision") in ("16", '"16"', "'16'")
