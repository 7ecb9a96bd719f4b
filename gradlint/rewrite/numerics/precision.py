"""How small a number may be in this file: float16 holds less than float32."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.rewrite.shapes import called, within

if TYPE_CHECKING:
    from gradlint.rewrite.bench import Bench

#: both it and 1 / it, which is the slope of a logarithm there, are far inside of the range
FLOAT32_EPS = "1e-6"
#: of the powers of ten, the smallest for which the same is true of float16 (6e-5 to 65504 at full precision)
FLOAT16_EPS = "1e-4"

_HALF_NAMES = frozenset({"float16", "GradScaler", "HalfTensor", "fp16", "use_fp16", "float16_mode", "is_fp16"})
_HALF_TEXTS = re.compile(r"(?i)[\"'](fp16|float16|half|16-mixed|16-true|torch\.float16)[\"']")
_WIDE = re.compile(r"bfloat16|bf16|float32")


def smallest_guard(bench: Bench) -> str:
    """The eps that keeps something away from zero here. bfloat16 has float32's range, and so needs no larger one."""
    module = bench.document.module
    names = any(name.value in _HALF_NAMES for name in within(module, cst.Name))
    texts = any(_HALF_TEXTS.fullmatch(text.value) for text in within(module, cst.SimpleString))
    calls = any(_makes_half(bench, call) for call in within(module, cst.Call))
    return FLOAT16_EPS if names or texts or calls else FLOAT32_EPS


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
