"""Writes sums of exponentials as the one function of torch that shifts them first: logsumexp, softplus, softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from gradlint.repair.arguments import is_method, keyword, subject
from gradlint.repair.definitions import Definition, check_unchanged, definition, drop_definition, is_cheap, readers
from gradlint.repair.imports import FUNCTIONAL, calling, write_over
from gradlint.repair.nodes import (
    NotFixable,
    bare,
    called,
    check_comments_kept,
    comma,
    is_name,
    is_whole_number,
    tight,
    within,
)

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench


#: the names that led from an operation to an exp(), each with the place that reads it
_Trail = list[tuple[Definition, cst.Name]]


def fuse_exp(bench: Bench, whole: cst.BaseExpression, exp: cst.BaseExpression) -> None:
    """`log(sum(exp(x), d))` -> `logsumexp(x, d)`; `log(1 + exp(x))` and `log1p(exp(x))` -> `softplus(x)`;
    `exp(x) / exp(x).sum(d, keepdim=True)` -> `softmax(x, d)`."""
    trail: _Trail = []
    if isinstance(whole, cst.BinaryOperation):
        new, x = _softmax(bench, whole, exp, trail)
    elif isinstance(whole, cst.Call) and not any(arg.keyword is not None for arg in whole.args):
        new, x = _logged(bench, whole, exp, trail)
    else:
        raise NotFixable("it is not a plain call")
    _finish(bench, whole, new, x, trail)


def _logged(
    bench: Bench, log: cst.Call, exp: cst.BaseExpression, trail: _Trail
) -> tuple[cst.Call, cst.BaseExpression]:  # fmt: skip
    inner = _value(bench, subject(bench, log), trail)
    plus_one = called(log) == "log1p"
    if plus_one or isinstance(inner, cst.BinaryOperation):
        x = _exponent(bench, inner if plus_one else _beside_one(inner), exp, trail)
        return calling(bench, f"{FUNCTIONAL}.softplus", cst.Arg(x)), x
    if not isinstance(inner, cst.Call) or called(inner) != "sum":
        raise NotFixable("it is not the logarithm of a sum")
    x = _exponent(bench, subject(bench, inner), exp, trail)
    return _logsumexp(bench, log, inner, x), x


def _softmax(
    bench: Bench, division: cst.BinaryOperation, exp: cst.BaseExpression, trail: _Trail
) -> tuple[cst.Call, cst.BaseExpression]:  # fmt: skip
    above = _value(bench, division.left, trail)
    total = _value(bench, division.right, trail)
    if not isinstance(total, cst.Call) or called(total) != "sum":
        raise NotFixable("it is not divided by a sum")
    added = _value(bench, subject(bench, total), trail)
    if bench.code(above) != bench.code(added) or exp not in (above, added):
        raise NotFixable("it is not divided by the sum of the same exponentials")
    if not isinstance(above, cst.Call) or called(above) != "exp":
        raise NotFixable("it is not a softmax")
    x = subject(bench, above)
    if not is_cheap(x) and above is not added:
        raise NotFixable("two forwards are not one")
    return calling(bench, "torch.softmax", _first(x), keyword("dim", _kept_dim(bench, total))), x


# -- reading


def _value(bench: Bench, node: cst.BaseExpression, trail: _Trail) -> cst.BaseExpression:
    """What a name holds, or the expression itself."""
    while isinstance(node, cst.Name):
        made = definition(bench, node)
        trail.append((made, node))
        node = made.value
    return node


def _exponent(bench: Bench, node: cst.BaseExpression, exp: cst.BaseExpression, trail: _Trail) -> cst.BaseExpression:
    found = _value(bench, node, trail)
    if found is not exp or not isinstance(found, cst.Call) or called(found) not in ("exp", "exp_"):
        raise NotFixable("there is more than one exponential in it")
    return subject(bench, found)


def _beside_one(node: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, cst.Integer | cst.Float) and one.evaluated_value == 1:
                return other
    raise NotFixable("it is not the logarithm of a sum")


def _dims(bench: Bench, total: cst.Call) -> tuple[cst.BaseExpression | None, cst.BaseExpression | None]:
    """The dimension of a sum, and its keepdim."""
    given = _given(bench, total)
    found: dict[str, cst.BaseExpression] = {}
    for name, arg in zip(("dim", "keepdim"), [x for x in given if x.keyword is None], strict=False):
        found[name] = arg.value
    for arg in given:
        if arg.star:
            raise NotFixable("arguments are handed on with a star")
        if arg.keyword is not None:
            found[{"axis": "dim", "keepdims": "keepdim"}.get(arg.keyword.value, arg.keyword.value)] = arg.value
    if found.keys() - {"dim", "keepdim"} or sum(x.keyword is None for x in given) > 2:
        raise NotFixable("the sum has more arguments than its dimension")
    return found.get("dim"), found.get("keepdim")


def _given(bench: Bench, total: cst.Call) -> list[cst.Arg]:
    """What a sum is told beside what it adds up."""
    return list(total.args if is_method(bench, total) else total.args[1:])


def _kept_dim(bench: Bench, total: cst.Call) -> cst.BaseExpression:
    """The one dimension of a sum that keeps it: the quotient then is a softmax over just that."""
    dim, keep = _dims(bench, total)
    if not is_name(keep, "True"):
        raise NotFixable("the sum does not keep its dimension")
    if dim is None or not is_whole_number(dim):
        raise NotFixable("its dimension is not a plain number")
    return dim


# -- writing


def _logsumexp(
    bench: Bench, log: cst.Call, total: cst.Call, x: cst.BaseExpression
) -> cst.Call:  # fmt: skip
    """As a method if the chain was one; a sum over everything is one over the flat tensor."""
    dim, keep = _dims(bench, total)
    given = _given(bench, total)
    if dim is None:
        if keep is not None:
            raise NotFixable("the sum has no dimension")
        x = cst.Call(cst.Attribute(tight(x), cst.Name("flatten")))
    args = [keyword("dim", dim) if dim is not None else keyword("dim", cst.Integer("0"))]
    if dim is not None and given and given[0].keyword is None:
        args = [cst.Arg(dim)]
    if keep is not None:
        args.append(keyword("keepdim", keep))
    args = [a.with_changes(comma=comma()) for a in args[:-1]] + args[-1:]
    if is_method(bench, log) and is_method(bench, total):
        return cst.Call(cst.Attribute(tight(x), cst.Name("logsumexp")), args)
    return calling(bench, "torch.logsumexp", _first(x), *args)


def _finish(
    bench: Bench, whole: cst.BaseExpression, new: cst.BaseExpression, x: cst.BaseExpression, trail: _Trail
) -> None:  # fmt: skip
    """Writes it; assignments that nobody needs any more go."""
    check_comments_kept(whole)
    if trail and not is_cheap(x):
        raise NotFixable("what is exponentiated has no name")
    replaced = {id(name) for name in within(whole, cst.Name)}
    homes = {id(made.statement): made for made, _ in trail}
    for made in homes.values():
        check_unchanged(bench, [x], made, whole)
    # from the last to the first: what a later one alone has read goes, too
    removed: list[cst.CSTNode] = []
    for made in sorted(homes.values(), key=lambda d: d.statement.start, reverse=True):
        if all(id(reader) in replaced for reader in readers(bench, made)):
            replaced |= {id(name) for name in within(made.statement.node, cst.Name)}
            removed.append(made.statement.node)
            drop_definition(bench, made)
    write_over(bench, whole, new, *removed)


def _first(x: cst.BaseExpression) -> cst.Arg:
    return cst.Arg(bare(x), comma=comma())
