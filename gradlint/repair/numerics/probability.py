"""Finds the softmax or sigmoid that an operation is done to, and what can be written for its logits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.knowledge import tensor_api as api
from gradlint.records import dataclass
from gradlint.repair.arguments import first_of, subject
from gradlint.repair.definitions import (
    Definition,
    alone,
    assignments,
    check_unchanged,
    definition,
    is_cheap,
    names_of_function,
    names_read,
    readers,
    take_out,
)
from gradlint.repair.imports import FUNCTIONAL, dotted, is_module
from gradlint.repair.nodes import NotFixable, called, put

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench

#: names, or parts of names, that say that something is a probability
_IS_PROBABILITY = re.compile(r"(?i)prob(abilit(y|ies)|s)?(?![a-z])|(log_?)?softmax|sigmoid|^[pq]$")


@dataclass(frozen=True, slots=True)
class Probability:
    """A softmax or sigmoid that reaches an operation, at once or through one name."""

    #: the part of the operand that gives way: the call, or the name of what it gave
    place: cst.BaseExpression
    #: the call that makes it, and the layer's constructor if it is one
    call: cst.Call
    layer: cst.Call | None
    #: `probs = softmax(x)`, if `place` is a name
    home: Definition | None
    #: that name has other readers
    used: bool
    #: where it is used, if that is not `place` alone
    places: tuple[cst.BaseExpression, ...] = ()


def probability(bench: Bench, operand: cst.BaseExpression, made: cst.CSTNode | None) -> Probability:
    """`made`: the softmax or sigmoid, or the constructor of the layer; None if any sigmoid will do."""
    place = _stripped(bench, operand)
    home = definition(bench, place) if isinstance(place, cst.Name) else None
    call = _stripped(bench, home.value) if home is not None else place
    used = home is not None and any(x is not place for x in readers(bench, home))
    if isinstance(call, cst.Call):
        if call is made or (made is None and _is_sigmoid(bench, call)):
            return Probability(place, call, None, home, used)
        if isinstance(made, cst.Call) and (call.func is made or _is_name_of(bench, call.func, made)):
            return Probability(place, call, made, home, used)
    raise NotFixable("the probabilities come from further away")


def _stripped(bench: Bench, node: cst.BaseExpression) -> cst.BaseExpression:
    """`p` of `p.view(-1).float()`: the same numbers in another shape."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in api.SAME:
        if not is_module(bench, node.func.value):
            node = node.func.value
        elif node.args and not node.args[0].star:
            node = node.args[0].value
        else:
            break
    return node


def _is_name_of(bench: Bench, func: cst.BaseExpression, made: cst.Call) -> bool:
    """`self.softmax` was made by this constructor, and by nothing else."""
    return [x.value for x in assignments(bench, bench.code(func))] == [made]


def _is_sigmoid(bench: Bench, call: cst.Call) -> bool:
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value == "sigmoid" and not bench.code(call.func).startswith("self.")
    return dotted(bench, call.func) in ("torch.sigmoid", f"{FUNCTIONAL}.sigmoid")


def function_name(made: Probability) -> str:
    """`softmax`, `Sigmoid`: that of the layer, if it is one."""
    return called(made.layer or made.call)


# -- its logits


def argument_of(bench: Bench, made: Probability) -> cst.BaseExpression:
    """What the softmax or sigmoid is taken of."""
    return subject(bench, made.call) if made.layer is None else first_of(made.call)


def logits_of(bench: Bench, made: Probability) -> cst.BaseExpression:
    """What can be written for the logits where the probabilities were used.

    The assignment that nobody needs any more goes, and logits without a name get one.
    """
    given = argument_of(bench, made)
    home = made.home
    if home is None:
        return given
    logits = put(home.value, made.call, given)
    if made.used and home.name in names_read(bench, given):
        return _with_own_name(bench, made, home, given)
    others = [arg.value for arg in made.call.args if arg.value is not given]
    if is_cheap(logits):
        _check_unchanged(bench, [logits, *others], made)
        if not made.used:
            take_out(bench, home)
        return logits
    _check_unchanged(bench, others, made)
    if not made.used and not _IS_PROBABILITY.search(home.name):
        # `outputs = softmax(model(x))`: the name is as good without the softmax
        bench.replace(home.value, alone(bench, logits))
        return cst.Name(home.name)
    name = cst.Name(_name_for_logits(bench, home))
    if made.used:
        new = bench.document.new(f"{name.value} = {bench.code(alone(bench, given))}", home.statement.block)
        bench.document.join_before(new, home.statement)
        bench.replace(given, name)
        return put(home.value, made.call, name)
    bench.replace(home.statement.node.body[0].targets[0].target, name)
    bench.replace(home.value, alone(bench, logits))
    return name


def _check_unchanged(bench: Bench, parts: list[cst.BaseExpression], made: Probability) -> None:
    for place in made.places or (made.place,):
        assert made.home is not None
        check_unchanged(bench, parts, made.home, place)


def _with_own_name(bench: Bench, made: Probability, home: Definition, old: cst.BaseExpression) -> cst.Name:
    """`x = net(y); x = softmax(x)`, where x is needed both before and after."""
    before = definition(bench, old) if isinstance(old, cst.Name) else None
    if before is None or home.value is not made.call or any(x is not old for x in readers(bench, before)):
        raise NotFixable(f"`{home.name}` is used before and after")
    name = cst.Name(_name_for_logits(bench, home))
    bench.replace(before.statement.node.body[0].targets[0].target, name)
    bench.replace(old, name)
    return name


def _name_for_logits(bench: Bench, home: Definition) -> str:
    """Made of the name of the probabilities, so that two fixes of a function, made at once, have two names."""
    known = names_of_function(bench, home.statement)
    for name in (_as_logits(home.name), f"raw_{_as_logits(home.name)}"):
        twin = any(_as_logits(other) == name for other in known if _IS_PROBABILITY.search(other) and other != home.name)
        if name not in known and not twin:
            return name
    raise NotFixable("the logits have no name")


def _as_logits(name: str) -> str:
    """`student_logits` for `student_probs`."""
    if len(name) > 1 and _IS_PROBABILITY.search(name):
        return _IS_PROBABILITY.sub("logits", name)
    return f"raw_{name}" if "logit" in name else f"{name}_logits"
