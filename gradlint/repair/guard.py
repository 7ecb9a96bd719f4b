"""Keeps numbers away from where a logarithm or a root has no gradient, as far as the file's precision asks for."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Site
from gradlint.repair.arguments import call_of
from gradlint.repair.imports import drop_with, imports
from gradlint.repair.nodes import NotFixable, bare, called, check_comments_kept, enclosed, number, root, tight, within

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench


def clamp_operand(bench: Bench, log: Site, operand: Site) -> None:
    """`torch.log(p)` -> `torch.log(p.clamp_min(eps))`, `(1 - p).log()` -> `(1 - p).clamp_min(eps).log()`."""
    call, inner = call_of(bench, log), bench.expression(operand)
    if called(call).endswith("_"):
        raise NotFixable("the logarithm is taken in place")
    func = cst.Attribute(tight(inner), cst.Name("clamp_min"), dot=_dot(call))
    bench.replace(inner, cst.Call(func, [cst.Arg(cst.Float(smallest_guard(bench)))]))


def root_to_absolute(bench: Bench, root: Site, operand: Site, *, tensor: bool) -> None:
    """`torch.sqrt(x ** 2)` -> `x.abs()`. `tensor`: it is known to be one, and not a number or an array of numpy."""
    node, square = bench.node(root), bench.expression(operand)
    if not isinstance(node, cst.Call | cst.BinaryOperation):
        raise NotFixable("it is not an expression")
    if isinstance(node, cst.Call) and called(node).endswith("_"):
        raise NotFixable("the root is taken in place")
    base = _squared(bench, square)
    if base is None:
        raise NotFixable("what is under the root is not just a square")
    check_comments_kept(node, base)
    if tensor or isinstance(node, cst.Call) or isinstance(square, cst.Call):
        whole = base if _holds_together(bench, base) else enclosed(base)
        new = cst.Call(cst.Attribute(tight(whole), cst.Name("abs"), dot=_dot(node)))
    else:
        new = cst.Call(cst.Name("abs"), [cst.Arg(bare(base))])
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
        drop_with(bench, node.func)
    kept = not bench.code(new).startswith("(") and _follows_a_keyword(bench, node)
    bench.replace(node, enclosed(new) if kept else new)


def _squared(bench: Bench, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """x of `x ** 2`, `x * x`, `x.pow(2)`, `torch.square(x)`; a clamp at zero leaves a square as it is."""
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Power):
            return node.left if number(node.right) == 2 else None
        twice = isinstance(node.operator, cst.Multiply) and _same(bench, node.left, node.right)
        return node.left if twice else None
    if not isinstance(node, cst.Call) or any(arg.star for arg in node.args):
        return None
    first, rest = _split(bench, node)
    match called(node), rest:
        case "square", []:
            return first
        case "pow", [exponent] if number(exponent.value) == 2:
            return first
        case (("mul" | "multiply"), [other]) if first is not None and _same(bench, first, other.value):
            return first
        case (("clamp" | "clamp_min" | "clip"), [low]) if number(low.value) == 0 and _says(low, "min"):
            return _squared(bench, first) if first is not None else None
        case _:
            return None


def _split(bench: Bench, call: cst.Call) -> tuple[cst.BaseExpression | None, list[cst.Arg]]:
    """The tensor that a function of torch, or a method, works on; and the other arguments."""
    args = list(call.args)
    func = call.func
    if isinstance(func, cst.Attribute) and not _is_torch(bench, func.value):
        return func.value, args
    if not args or not (args[0].keyword is None or _says(args[0], "input")):
        return None, args
    return args[0].value, args[1:]


def _is_torch(bench: Bench, node: cst.BaseExpression) -> bool:
    name = root(node)
    known = [one.dotted for one in imports(bench) if one.local == name]
    return any(dotted.partition(".")[0] == "torch" for dotted in known) or name == "torch"


def _same(bench: Bench, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Twice the same text, and nothing in it that may give another value the second time, as a model with dropout."""
    plain = not any(_may_differ(bench, call) for call in within(one, cst.Call))
    return plain and bench.code(bare(one)) == bench.code(bare(other))


def _may_differ(bench: Bench, call: cst.Call) -> bool:
    return not (called(call) in _PURE and (isinstance(call.func, cst.Attribute) or _is_torch(bench, call.func)))


#: calls of these give the same again
_PURE = frozenset({
    "abs", "cos", "detach", "exp", "flatten", "float", "gather", "log", "log_softmax", "mean", "norm", "permute", "pow",
    "relu", "reshape", "sigmoid", "sin", "size", "softmax", "square", "squeeze", "sub", "sum", "tanh", "to",
    "transpose", "unsqueeze", "view",
})  # fmt: skip


def _says(arg: cst.Arg, keyword: str) -> bool:
    return arg.keyword is None or arg.keyword.value == keyword


def _holds_together(bench: Bench, node: cst.BaseExpression) -> bool:
    """Not so a chain of several rows, which needs the parentheses that are round it."""
    try:
        cst.parse_expression(bench.code(node))
    except cst.ParserSyntaxError:
        return False
    return True


def _follows_a_keyword(bench: Bench, node: cst.BaseExpression) -> bool:
    """`return(x ** 2) ** 0.5`: only the parenthesis stands between the two words."""
    opened = bench.code(node).split("\n")[0]
    close = rf"\b(?:return|in|and|or|not|else|if|yield|await|lambda:){re.escape(opened)}"
    return opened.startswith("(") and re.search(close, bench.code(bench.statement(node).node)) is not None


def _dot(node: cst.BaseExpression) -> cst.Dot:
    """A new method gets a row of its own if the one that it goes with has; each comment stays once."""
    func = node.func if isinstance(node, cst.Call) else None
    return func.dot if isinstance(func, cst.Attribute) and not any(within(func.dot, cst.Comment)) else cst.Dot()


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
