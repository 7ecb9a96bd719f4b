"""Takes the calls of a training loop apart: whose step it is, what is scaled, which loss goes backward."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Backward, Event, Site, Step, Unscale, Update, Zero
from gradlint.repair.definitions import assignments
from gradlint.repair.parentheses import bare, is_tight
from gradlint.repair.refusal import NotFixable
from gradlint.repair.shapes import called

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench


def call_of(bench: Bench, event: Event) -> cst.Call:
    node = bench.node(event)
    if not isinstance(node, cst.Call):
        raise NotFixable("it is not a call")
    return node


def receiver(call: cst.Call) -> cst.BaseExpression:
    """`optimizer` of `optimizer.step()`."""
    if not isinstance(call.func, cst.Attribute):
        raise NotFixable("it is not a method")
    return call.func.value


def first_argument(call: cst.Call) -> cst.BaseExpression:
    if not call.args or call.args[0].star:
        raise NotFixable("it has no plain first argument")
    return call.args[0].value


def optimizer_of(bench: Bench, event: Step | Unscale | Zero) -> str:
    """The user's own words for the optimizer of a call."""
    call = call_of(bench, event)
    scaled = isinstance(event, Unscale) or (isinstance(event, Step) and event.scaler is not None)
    node = first_argument(call) if scaled else receiver(call)
    if not is_tight(node):
        raise NotFixable("its optimizer has no name")  # `scaler.step(0)`, `scaler.step(first if warm else second)`
    return bench.code(node)


def scaler_of(bench: Bench, event: Backward | Step | Unscale | Update) -> str:
    """The user's own words for the scaler of a call; of a backward, that of `scaler.scale(loss).backward()`."""
    call = call_of(bench, event)
    if isinstance(event, Backward):
        scale = scaling(call) or _scaled_before(bench, call)
        if scale is None:
            raise NotFixable("where the loss is scaled was not found")
        return bench.code(receiver(scale))
    return bench.code(receiver(call))


def scaling(backward: cst.Call) -> cst.Call | None:
    """`scaler.scale(loss)` of `scaler.scale(loss).backward()`."""
    inner = backward.func.value if isinstance(backward.func, cst.Attribute) else None
    return inner if isinstance(inner, cst.Call) and _is_scale(inner) else None


def _is_scale(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and called(node) == "scale"


def _scaled_before(bench: Bench, backward: cst.Call) -> cst.Call | None:
    """`scaled = scaler.scale(loss)` before `scaled.backward()`."""
    name = bench.code(backward.func.value) if isinstance(backward.func, cst.Attribute) else ""
    values = (made.value for made in assignments(bench, name))
    return next((x for x in values if isinstance(x, cst.Call) and _is_scale(x)), None)


def loss_of(bench: Bench, backward: Backward) -> cst.BaseExpression:
    """The expression that goes backward, inside of the scaling if there is one."""
    call = call_of(bench, backward)
    scale = scaling(call)
    if scale is not None:
        return first_argument(scale)
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward" and not _handed_over(call):
        return call.func.value
    return first_argument(call)


def _handed_over(call: cst.Call) -> bool:
    """`accelerator.backward(loss)`: the loss is the argument; `loss.backward(gradient)` has a tensor before it."""
    if not call.args or not isinstance(call.func, cst.Attribute):
        return False
    keyword = call.args[0].keyword
    if keyword is not None:
        return keyword.value in ("loss", "tensors")
    base = call.func.value
    last = base.attr.value if isinstance(base, cst.Attribute) else base.value if isinstance(base, cst.Name) else ""
    return "loss" not in last.lower()


def call_round(bench: Bench, func: cst.CSTNode) -> cst.Call:
    """`f(x)` round the name `f`."""
    for found in bench.calls(bench.code(func).rpartition(".")[2]):
        if found.func is func:
            return found
    raise NotFixable("it is handed on uncalled")


def call_it(bench: Bench, at: Site) -> None:
    """A method that was only named is called; the user's own text stays."""
    node = bench.node(at)
    if not isinstance(node, cst.BaseExpression):
        raise NotFixable("it is not an expression")
    bench.replace(node, cst.Call(bare(node), lpar=node.lpar, rpar=node.rpar))
