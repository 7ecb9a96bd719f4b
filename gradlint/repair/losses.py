"""Divides a loss by the size of its window, and takes such divisions away."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Backward, Edit, EditKind, Norm, Site, Step
from gradlint.repair.arguments import argument, call_of, loss_of
from gradlint.repair.boundary import last_name, size_of_window
from gradlint.repair.nodes import NotFixable, bare, in_product, number, within

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench
    from gradlint.repair.tree import Statement


def divide_by_window(bench: Bench, backward: Backward, step: Step) -> None:
    """Divides the loss by the N that the boundary uses; a divisor that is there and wrong makes way for it."""
    if backward.norm is Norm.DIVIDED_BY_COUNTER:
        redivide(bench, backward, step)
        return
    try:
        size = size_of_window(bench, backward, step)
    except NotFixable:
        _divide_argument(bench, backward, step)
    else:
        divide(bench, [backward], size)


def _divide_argument(bench: Bench, backward: Backward, step: Step) -> None:
    """`back(loss, scaler)` becomes `back(loss / n, scaler)`: the function that goes backward does not know N."""
    loss = loss_of(bench, backward)
    home = bench.statement(backward).function
    call = bench.node(bench.outer(backward, 1))
    if home is None or not isinstance(loss, cst.Name) or not isinstance(call, cst.Call):
        raise NotFixable("the size of the window is not known where the backward is")
    params = [p.name.value for p in home.node.params.params]
    if loss.value not in params or any(loss.value in bench.names_in(x).bound for x in home.leaves()):
        raise NotFixable("the size of the window is not known where the backward is")
    bound = isinstance(call.func, cst.Attribute) and params[0] in ("self", "cls")
    handed = argument(call, loss.value, params.index(loss.value) - bound).value
    by = size_of_window(bench, backward, step, seen_from=bench.statement(call))
    bench.replace(handed, f"{in_product(bench.code(handed), handed)} / {_operand(by)}")


def divide_not_gradients(bench: Bench, edits: Sequence[Edit], backwards: Sequence[Backward], outer: int = 0) -> None:
    """Divides the loss by what the gradients were divided by; a loss that is divided already stays as it is."""
    by = divisor_of(bench, edits[0])
    for edit in edits:
        if _conditions_round(bench, edit, backwards):
            raise NotFixable("the gradients are divided under a condition")
        bench.delete(edit, allowed=lambda e: isinstance(e, Edit) and e.kind in _DIVISIONS, outer=outer)
    raw = [b for b in backwards if b.norm is not Norm.DIVIDED]
    divide(bench, raw, by)


_DIVISIONS = (EditKind.DIVIDE, EditKind.SCALE)


def _conditions_round(bench: Bench, edit: Edit, backwards: Sequence[Backward]) -> list[Statement]:
    """The `if`s that the division hangs on and the backward does not, the one for missing gradients left out."""
    made = bench.statement(backwards[0])
    guards = bench.guards()
    choices = [x for x in bench.statement(edit).ancestors() if isinstance(x.node, cst.If) and not x.holds(made)]
    return [x for x in choices if x not in guards and "grad" not in bench.code(x.node.test)]


def divisor_of(bench: Bench, edit: Edit) -> str:
    """`n` of `p.grad /= n`, `p.grad.div_(n)`, `p.grad = p.grad / n` and `p.grad *= 1 / n`."""
    node = bench.node(edit)
    found: cst.BaseExpression | None = node if isinstance(node, cst.Call) else None
    for small in [] if found is not None else bench.statement(edit).node.body:
        if isinstance(small, cst.AugAssign):
            if isinstance(small.operator, cst.DivideAssign):
                return bench.code(small.value)
            if isinstance(small.operator, cst.MultiplyAssign):
                return _inverted(bench, small.value)
        found = getattr(small, "value", None)
    return _divisor_in(bench, found)


def _divisor_in(bench: Bench, value: cst.BaseExpression | None) -> str:
    """What a new value of the gradient divides it by."""
    if isinstance(value, cst.BinaryOperation):
        if isinstance(value.operator, cst.Divide):
            return bench.code(value.right)
        if isinstance(value.operator, cst.Multiply):
            own = "grad" in bench.code(value.left)
            return _inverted(bench, value.right if own else value.left)
    if isinstance(value, cst.Call) and value.args:
        name = bench.code(value.func).rpartition(".")[2].removeprefix("_foreach_").rstrip("_")
        if name == "copy":
            return _divisor_in(bench, bare(value.args[0].value))
        # `torch.div(p.grad, n)`: the gradient itself is the first
        operands = [x.value for x in value.args if x.keyword is None]
        if bench.code(value.func).startswith("torch."):
            operands = operands[1:]
        if len(operands) == 1 and name in ("div", "divide", "true_divide"):
            return bench.code(operands[0])
        if len(operands) == 1 and name in ("mul", "multiply"):
            return _inverted(bench, operands[0])
    raise NotFixable("what the gradients are divided by was not found")


def _inverted(bench: Bench, factor: cst.BaseExpression) -> str:
    """`n` of `1 / n`, 4 of 0.25."""
    factor = bare(factor)
    if isinstance(factor, cst.BinaryOperation) and isinstance(factor.operator, cst.Divide):
        if number(factor.left) == 1:
            return bench.code(factor.right)
    known = number(factor)
    if known is not None and 0 < known < 1 and (1 / known).is_integer():
        return str(int(1 / known))
    raise NotFixable("what the gradients are multiplied by is not written as 1 / N")


def divide(bench: Bench, backwards: Iterable[Backward], by: str) -> None:
    """`(loss / n).backward()`, `scaler.scale(loss / n).backward()`."""
    divisor = _operand(by)
    for backward in {b.site: b for b in backwards}.values():
        loss = loss_of(bench, backward)
        call = call_of(bench, backward)
        by_autograd = bench.code(call.func).endswith("autograd.backward")
        if isinstance(loss, cst.List | cst.Tuple) or (len(call.args) > 1 and by_autograd):
            raise NotFixable("several losses go backward at once")
        code = f"{in_product(bench.code(loss), loss)} / {divisor}"
        alone = isinstance(call.func, cst.Attribute) and call.func.value is loss
        bench.replace(loss, f"({code})" if alone else code)


def _operand(text: str) -> str:
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise NotFixable(f"`{text}` is no number that can be written down") from error
    return text if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Constant | ast.Subscript) else f"({text})"


def redivide(bench: Bench, backward: Backward, step: Step) -> None:
    """Puts the N that the boundary uses in the place of the divisor that is there."""
    size = size_of_window(bench, backward, step)
    found = list(_divisions(bench, backward))
    if len(found) != 1:
        raise NotFixable(f"where the loss is divided by `{backward.divisor}` was not found")
    bench.replace(found[0][1], _operand(size))


def undivide(bench: Bench, backward: Backward | Site) -> None:
    """Takes the division away: `loss = loss / n` and `loss /= n` go, `f(x) / n` becomes `f(x)`.

    Of a loss that goes backward here, or of the division at this place.
    """
    if isinstance(backward, Site):
        _undivide_at(bench, backward)
        return
    found = list(_divisions(bench, backward))
    own = [x for x in found if _makes_loss(bench, x[1], backward)]
    if len(own) != 1 or _is_factor(own[0][0]):
        raise NotFixable(f"where the loss is divided by `{backward.divisor}` was not found")
    if _multiplied_back(bench, backward):
        raise NotFixable("elsewhere the loss is multiplied by the same number")
    drop_division(bench, *own[0])


def _is_factor(division: cst.CSTNode) -> bool:
    """`1 / n` that the loss is multiplied by."""
    return isinstance(division, cst.BinaryOperation) and number(bare(division.left)) is not None


def _multiplied_back(bench: Bench, backward: Backward) -> bool:
    """`total += loss.item() * n` undoes the division for a log."""
    home = bench.statement(backward).home
    loss, by = bench.code(loss_of(bench, backward)), last_name(backward.divisor)
    for product in within(home.node, cst.BinaryOperation):
        if isinstance(product.operator, cst.Multiply):
            sides = bench.code(product.left), bench.code(product.right)
            if any(last_name(a) == by and b.startswith(loss) for a, b in (sides, sides[::-1])):
                return True
    return False


def _makes_loss(bench: Bench, divisor: cst.BaseExpression, backward: Backward) -> bool:
    """The division stands in the backward itself, or makes the name that goes backward."""
    statement = bench.statement(divisor)
    if statement is bench.statement(backward):
        return True
    loss = bench.code(loss_of(bench, backward))
    small = statement.small
    if isinstance(small, cst.AugAssign):
        return bench.code(small.target) == loss
    return isinstance(small, cst.Assign) and any(bench.code(t.target) == loss for t in small.targets)


def _undivide_at(bench: Bench, loss: Site) -> None:
    """The division whose left side, or target, is here."""
    node = bench.node(loss)
    statement = bench.statement(loss)
    for found in within(statement.node, cst.BinaryOperation):
        if found.left is node:
            drop_division(bench, found, found.right)
            return
    for small in within(statement.node, cst.AugAssign):
        if small.target is node:
            drop_division(bench, small, small.value)
            return
    raise NotFixable("the division was not found")


def drop_division(bench: Bench, division: cst.CSTNode, divisor: cst.BaseExpression) -> None:
    statement = bench.statement(divisor)
    if isinstance(division, cst.AugAssign):
        bench.document.take_out(bench.document.apart(statement, division))
        return
    assert isinstance(division, cst.BinaryOperation)
    small = statement.small
    if isinstance(small, cst.Assign) and small.value is division and len(small.targets) == 1:
        if bench.code(small.targets[0].target) == bench.code(division.left):
            bench.document.take_out(bench.document.apart(statement, division))
            return
    left = division.left
    if isinstance(small, cst.Assign) and small.value is division:
        left = bare(left)
    bench.replace(division, left)


def _divisions(bench: Bench, backward: Backward) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """The divisions by its divisor in the function of the backward, or in the script's own loop."""
    home, wanted = bench.statement(backward).home, last_name(backward.divisor)
    for node in within(home.node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Divide) and last_name(bench.code(node.right)) == wanted:
            yield node, node.right
    for small in within(home.node, cst.AugAssign):
        if isinstance(small.operator, cst.DivideAssign) and last_name(bench.code(small.value)) == wanted:
            yield small, small.value
