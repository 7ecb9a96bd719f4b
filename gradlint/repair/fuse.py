"""Writes a probability and what is done to it as the one function of torch that does both."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.knowledge import tensor_api as api
from gradlint.records import dataclass, replace
from gradlint.repair.arguments import by_keyword, first_of, keyword, subject
from gradlint.repair.definitions import (
    Definition,
    as_value,
    assignments,
    check_unchanged,
    definition,
    drop_definition,
    is_cheap,
    names_of_function,
    readers,
)
from gradlint.repair.exponentials import fuse_exp
from gradlint.repair.imports import FUNCTIONAL, calling, dotted, imported, is_module, reference, rename, write_over
from gradlint.repair.nodes import (
    NotFixable,
    bare,
    called,
    check_comments_kept,
    comma,
    is_whole_number,
    negative,
    number,
    on_one_row,
    pulled_out,
    put,
    tight,
)
from gradlint.subjects import Kind

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench
    from gradlint.subjects import Operation


@dataclass(frozen=True, slots=True)
class _Log:
    """One logarithm of a probability, or of 1 - it."""

    call: cst.Call
    #: the operand, without `1 -`, and the part of it that gives way
    inner: cst.BaseExpression
    place: cst.BaseExpression
    complement: bool


def fuse(
    bench: Bench, operation: Operation, exp: Operation | None = None, *, elsewhere: bool = False
) -> None:  # fmt: skip
    """What the operation and the call that made its operand do, done by one function.

    `exp`: the exp() that the operand is made of. `elsewhere`: a BCE also where the probabilities have another use.
    """
    whole, operand = bench.expression(operation.site), bench.expression(operation.operand_site)
    if exp is not None:
        fuse_exp(bench, whole, bench.expression(exp.site))
        return
    made = bench.node(operation.made_at) if operation.made_at is not None else None
    if not isinstance(whole, cst.Call):
        raise NotFixable("it is not a call")
    match operation.kind:
        case Kind.LOG if operation.fused.endswith("log1p"):
            _fuse_log1p(bench, whole, operand)
        case Kind.LOG if made is not None:
            _fuse_log(bench, whole, operand, made)
        case Kind.BCE:
            criterion = bench.expression(operation.criterion) if operation.criterion is not None else None
            _fuse_bce(bench, whole, operand, made, criterion, elsewhere)
        case Kind.NLL:
            found = probability(bench, operand, made)
            _write(bench, operand, put(operand, found.place, _log_softmax(bench, found)), found)
        case _:
            _drop_softmax(bench, whole, operand, made)


# -- the rewrites


def _fuse_log(bench: Bench, log: cst.Call, operand: cst.BaseExpression, made: cst.CSTNode) -> None:
    """`log(softmax(x))` -> `log_softmax(x)`, `log(1 - sigmoid(x))` -> `logsigmoid(-x)`.

    Where logarithms are all that the probabilities are used for, all are rewritten at once.
    """
    inner = _inside(operand)
    found = probability(bench, inner, made)
    logs = [_Log(log, inner, found.place, inner is not operand)]
    if found.used and found.home is not None:
        others = [_log_of(bench, name) for name in readers(bench, found.home) if name is not found.place]
        whole = [other for other in others if other is not None]
        if len(whole) == len(others) and all(_is_fusible(found, other) for other in whole):
            logs += whole
            found = replace(found, used=False, places=tuple(other.place for other in logs))
    if not _is_fusible(found, logs[0]):
        raise NotFixable("no one function does this")
    new = _logsigmoid(bench, found) if _is_sigmoid_like(found) else _log_softmax(bench, found)
    for one in logs:
        _write_log(bench, one, new, found)


def _write_log(bench: Bench, log: _Log, new: cst.Call, found: Probability) -> None:
    if by_keyword(log.call, "out") is not None:
        raise NotFixable("its result goes into a tensor that is there already")
    if bench.code(log.call.func).endswith(".log_") and found.home is not None:
        raise NotFixable("it changes the probabilities in place")
    fused = new.deep_clone()
    if log.complement:
        fused = fused.with_changes(args=[cst.Arg(negative(fused.args[0].value))])
    whole = put(log.inner, log.place, fused)
    _write(bench, log.call, whole if found.home is not None else pulled_out(whole, log.call), found)


def _inside(operand: cst.BaseExpression) -> cst.BaseExpression:
    """`p` of `1 - p`."""
    return operand.right if isinstance(operand, cst.BinaryOperation) else operand


def _log_of(bench: Bench, name: cst.Name) -> _Log | None:
    """The logarithm that a name is read for, if it is."""
    for call in bench.calls("log"):
        func = call.func
        if not isinstance(func, cst.Attribute):
            continue
        operand = func.value
        if is_module(bench, func.value):
            if len(call.args) != 1 or call.args[0].star or call.args[0].keyword is not None:
                continue
            operand = call.args[0].value
        if operand is name:
            return _Log(call, name, name, complement=False)
        if _is_complement(operand):
            if _inside(operand) is name:
                return _Log(call, name, name, complement=True)
    return None


def _is_fusible(made: Probability, log: _Log) -> bool:
    return _is_sigmoid_like(made) or not log.complement


def _is_sigmoid_like(made: Probability) -> bool:
    return function_name(made) in api.SIGMOIDS


def _logsigmoid(bench: Bench, made: Probability) -> cst.Call:
    logits = logits_of(bench, made)
    return calling(bench, f"{FUNCTIONAL}.logsigmoid", cst.Arg(bare(logits)))


def _fuse_log1p(bench: Bench, log: cst.Call, operand: cst.BaseExpression) -> None:
    """`torch.log(1 + x)` -> `torch.log1p(x)`, `(1 + x).log()` -> `x.log1p()`."""
    if not isinstance(operand, cst.BinaryOperation):
        raise NotFixable("it is not written as a sum")
    other = operand.right if number(operand.left) is not None else operand.left
    if isinstance(log.func, cst.Attribute) and log.func.value is operand:
        name = log.func.attr.value.replace("log", "log1p")
        _write(bench, log, log.with_changes(func=cst.Attribute(tight(other), cst.Name(name))), None)
        return
    args = [arg.with_changes(value=bare(other)) if arg.value is operand else arg for arg in log.args]
    _write(bench, log, log.with_changes(func=_renamed(bench, log.func, "log1p"), args=args), None)


def _fuse_bce(
    bench: Bench, loss: cst.Call, operand: cst.BaseExpression, made: cst.CSTNode | None,
    criterion: cst.BaseExpression | None, elsewhere: bool,
) -> None:  # fmt: skip
    """`binary_cross_entropy(sigmoid(x), y)` -> `binary_cross_entropy_with_logits(x, y)`, and so with the class."""
    if not isinstance(criterion, cst.Call):
        _hand_over_logits(bench, operand, made, elsewhere)
        bench.replace(loss.func, _renamed(bench, loss.func, "binary_cross_entropy_with_logits"))
        return
    calls = [loss] if loss.func is criterion else _calls_of(bench, criterion)
    for call in calls:
        _hand_over_logits(bench, first_of(call), made if call is loss else None, elsewhere)
    bench.replace(criterion.func, _renamed(bench, criterion.func, "BCEWithLogitsLoss"))


def _drop_softmax(
    bench: Bench, loss: cst.Call, operand: cst.BaseExpression, made: cst.CSTNode | None
) -> None:  # fmt: skip
    """`cross_entropy(softmax(x), y)` -> `cross_entropy(x, y)`; where several such losses are all that the
    probabilities are used for, in all of them."""
    found = probability(bench, operand, made)
    if found.used and found.home is not None and operand is found.place:
        inputs = [
            first_of(x) for x in bench.calls(called(loss)) if x.args and bench.code(x.func) == bench.code(loss.func)
        ]
        names = readers(bench, found.home)
        if all(any(name is x for x in inputs) for name in names):
            found = replace(found, used=False, places=tuple(names))
    new = _as_given(found.call, logits_of(bench, found))
    if found.places:
        for place in found.places:
            _write(bench, place, new.deep_clone(), found)
    else:
        _write(bench, operand, put(operand, found.place, new), found)


def _as_given(call: cst.Call, logits: cst.BaseExpression) -> cst.BaseExpression:
    """In the dtype that the softmax was told to compute in."""
    dtype = by_keyword(call, "dtype")
    if dtype is None:
        return logits
    return cst.Call(cst.Attribute(tight(logits), cst.Name("to")), [cst.Arg(dtype.value)])


def _hand_over_logits(
    bench: Bench, operand: cst.BaseExpression, made: cst.CSTNode | None, elsewhere: bool
) -> None:  # fmt: skip
    """The logits in the place of the probabilities."""
    found = probability(bench, operand, made)
    if not elsewhere and found.used:
        raise NotFixable("the probabilities are used elsewhere, too")
    _write(bench, operand, put(operand, found.place, logits_of(bench, found)), found)


def _log_softmax(bench: Bench, made: Probability) -> cst.Call:
    """The call, of what it is called on, with all its other arguments."""
    call = made.call
    if made.home is not None and made.home.value is not call:
        raise NotFixable("the probabilities are reshaped before they get a name")
    if not function_name(made).lower().endswith("softmax"):
        raise NotFixable("no one function does this")
    old = argument_of(bench, made)
    logits = logits_of(bench, made)
    if made.layer is not None:
        first = cst.Arg(bare(logits), comma=comma())
        return calling(bench, f"{FUNCTIONAL}.log_softmax", first, _constant_dim(made.layer))
    if isinstance(call.func, cst.Attribute) and call.func.value is old:
        return call.with_changes(func=call.func.with_changes(value=tight(logits), attr=cst.Name("log_softmax")))
    args = [arg.with_changes(value=logits) if arg.value is old else arg for arg in call.args]
    new = call.with_changes(func=_renamed(bench, call.func, "log_softmax"), args=args)
    return new if made.home is None else on_one_row(new)


def _constant_dim(layer: cst.Call) -> cst.Arg:
    """`dim=1` of `nn.Softmax(dim=1)`, which may stand elsewhere."""
    for arg in layer.args:
        if is_whole_number(arg.value):
            return keyword("dim", arg.value)
    raise NotFixable("its dimension is not a plain number")


# -- the criterion


def _calls_of(bench: Bench, constructor: cst.Call) -> list[cst.Call]:
    """All calls of the criterion, if it is only ever called."""
    targets = [
        x.targets[0].target
        for x in bench.assigns(calling=(called(constructor),))
        if x.value is constructor and len(x.targets) == 1
    ]
    if not targets:
        raise NotFixable("the criterion is handed on")
    name = bench.code(targets[0])
    # by its name alone: another function's criterion of the same name counts, too, which errs on the safe side
    last = name.rpartition(".")[2]
    calls = [x for x in bench.calls(last) if bench.code(x.func) == name]
    alike = bench.names(last) if isinstance(targets[0], cst.Name) else bench.attributes(last)
    mentions = [x for x in alike if bench.code(x) == name and x is not targets[0]]
    if len(mentions) != len(calls):
        raise NotFixable(f"`{name}` is not only called here")
    return calls


# -- writing


def _renamed(bench: Bench, func: cst.BaseExpression, new: str) -> cst.BaseExpression:
    """Another function of the same module, imported if the old one was imported alone."""
    if isinstance(func, cst.Attribute):
        return func.with_changes(attr=cst.Name(new))
    known = imported(bench, bench.code(func))
    if known is None:
        raise NotFixable(f"where `{bench.code(func)}` comes from was not found")
    if known.alias.asname is not None:
        return cst.parse_expression(reference(bench, f"{known.dotted.rpartition('.')[0]}.{new}"))
    if imported(bench, new) is None:
        rename(bench, known, new, everywhere=len(bench.names(known.local)) == 1)
    return cst.Name(new)


def _write(bench: Bench, old: cst.BaseExpression, new: cst.BaseExpression, made: Probability | None) -> None:
    check_comments_kept(old, new)
    gone = [made.home.value] if made is not None and made.home is not None and not made.used else []
    write_over(bench, old, new, *gone)


def _is_complement(node: cst.CSTNode) -> bool:
    """`1 - name`."""
    match node:
        case cst.BinaryOperation(left=one, operator=cst.Subtract(), right=cst.Name()):
            return number(one) == 1
        case _:
            return False


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
    if made.used and home.name in bench.names_read(given):
        return _with_own_name(bench, made, home, given)
    others = [arg.value for arg in made.call.args if arg.value is not given]
    if is_cheap(logits):
        _check_unchanged(bench, [logits, *others], made)
        if not made.used:
            drop_definition(bench, home)
        return logits
    _check_unchanged(bench, others, made)
    if not made.used and not _IS_PROBABILITY.search(home.name):
        # `outputs = softmax(model(x))`: the name is as good without the softmax
        bench.replace(home.value, as_value(bench, logits))
        return cst.Name(home.name)
    name = cst.Name(_name_for_logits(bench, home))
    if made.used:
        new = bench.document.new(f"{name.value} = {bench.code(as_value(bench, given))}", home.statement.block)
        bench.document.join_before(new, home.statement)
        bench.replace(given, name)
        return put(home.value, made.call, name)
    bench.replace(home.statement.node.body[0].targets[0].target, name)
    bench.replace(home.value, as_value(bench, logits))
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
