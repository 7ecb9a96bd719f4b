"""Divides a loss by the size of its window, and takes such divisions away."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Backward, Edit, Norm, Site, Step
from gradlint.rewrite.bench import NotFixable, within
from gradlint.rewrite.boundary import size_of_window
from gradlint.rewrite.calls import first_argument, in_product, loss_of

if TYPE_CHECKING:
    from gradlint.rewrite.bench import Bench
    from gradlint.rewrite.document import Statement


def divide_by_window(bench: Bench, backward: Backward, step: Step) -> None:
    """By the N that the boundary uses; a divisor that is there and wrong makes way for it."""
    size = size_of_window(bench, backward, step)
    if backward.norm is Norm.DIVIDED_BY_COUNTER:
        redivide(bench, backward, size)
    else:
        divide(bench, [backward], size)


def divide_not_gradients(bench: Bench, edit: Edit, backwards: Iterable[Backward]) -> None:
    """By what the gradients were divided by, in the user's words."""
    by = divisor_of(bench, edit)
    bench.delete(edit, allowed=(Edit,))
    divide(bench, backwards, by)


def divisor_of(bench: Bench, edit: Edit) -> str:
    """`n` of `p.grad /= n`, `p.grad.div_(n)` and `p.grad = p.grad / n`."""
    node = bench.node(edit)
    if isinstance(node, cst.Call):
        return bench.code(first_argument(node))
    for small in bench.statement(edit).node.body:
        value = getattr(small, "value", None)
        if isinstance(small, cst.AugAssign):
            return bench.code(small.value)
        if isinstance(value, cst.BinaryOperation):
            return bench.code(value.right)
    raise NotFixable("what the gradients are divided by was not found")


def divide(bench: Bench, backwards: Iterable[Backward], by: str) -> None:
    """`(loss / n).backward()`, `scaler.scale(loss / n).backward()`."""
    divisor = _operand(by)
    for backward in {b.site: b for b in backwards}.values():
        loss = loss_of(bench, backward)
        code = f"{in_product(bench.code(loss), loss)} / {divisor}"
        call = bench.node(backward)
        alone = isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.value is loss
        bench.replace(loss, f"({code})" if alone else code)


def _operand(text: str) -> str:
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise NotFixable(f"`{text}` is no number that can be written down") from error
    return text if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Constant | ast.Subscript) else f"({text})"


def redivide(bench: Bench, backward: Backward, by: str) -> None:
    """Another divisor in the place of the one that is there."""
    found = list(_divisions(bench, backward, backward.divisor))
    if len(found) != 1:
        raise NotFixable(f"where the loss is divided by `{backward.divisor}` was not found")
    bench.replace(found[0][1], _operand(by))


def undivide(bench: Bench, backward: Backward) -> None:
    """Takes the division away: `loss = loss / n` and `loss /= n` go, `f(x) / n` becomes `f(x)`."""
    found = list(_divisions(bench, backward, backward.divisor))
    if len(found) != 1:
        raise NotFixable(f"where the loss is divided by `{backward.divisor}` was not found")
    drop_division(bench, *found[0])


def undivide_at(bench: Bench, loss: Site) -> None:
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
    small = statement.node.body[0] if isinstance(statement.node, cst.SimpleStatementLine) else None
    if isinstance(small, cst.Assign) and small.value is division and len(small.targets) == 1:
        if bench.code(small.targets[0].target) == bench.code(division.left):
            bench.document.take_out(bench.document.apart(statement, division))
            return
    bench.replace(division, bench.code(division.left))


def _divisions(bench: Bench, backward: Backward, divisor: str) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """The divisions by this text in the function of the backward."""
    statement = bench.statement(backward)
    yield from divisions_in(bench, function_of(statement) or statement, divisor)


def function_of(statement: Statement) -> Statement | None:
    return next((x for x in statement.ancestors() if isinstance(x.node, cst.FunctionDef)), None)


def divisions_in(bench: Bench, home: Statement, divisor: str) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    wanted = _last(divisor)
    for node in within(home.node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Divide) and _last(bench.code(node.right)) == wanted:
            yield node, node.right
    for small in within(home.node, cst.AugAssign):
        if isinstance(small.operator, cst.DivideAssign) and _last(bench.code(small.value)) == wanted:
            yield small, small.value


def _last(text: str) -> str:
    """`self.accum` and a parameter `accum` that it was made of are the same number."""
    return text.replace(" ", "").strip("()").rpartition(".")[2]
