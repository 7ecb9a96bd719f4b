"""Rewrites the condition that ends an accumulation window, and writes conditions that agree with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Backward, Step
from gradlint.repair.definitions import assignments
from gradlint.repair.nodes import NotFixable, assigns, bare, called, in_product, is_tight, within
from gradlint.rule import in_user_words

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench
    from gradlint.repair.tree import Statement


def guard_of(bench: Bench, step: Step) -> Statement:
    """The `if` that asks for the boundary."""
    statement = bench.guard(step)
    if statement is None or not isinstance(statement.node, cst.If):
        raise NotFixable("the condition of the boundary was not found")
    return statement


def condition(bench: Bench, step: Step) -> cst.BaseExpression:
    """The boundary itself: the test, or what the flag in it was last made of."""
    guard = guard_of(bench, step)
    test: cst.BaseExpression = guard.node.test
    if isinstance(test, cst.Name):
        home = flag_home(guard, test.value)
        if home is not None:
            return home.value
    return test


def flag_home(guard: Statement, name: str) -> cst.Assign | None:
    """`stepping = (i + 1) % n == 0` before the `if stepping:`, if there is just one in its loop."""
    loop = guard.loop
    found = [x for x in within(loop.node, cst.Assign) if assigns(x, name)] if loop is not None else []
    return found[0] if len(found) == 1 else None


def modulo_in(node: cst.BaseExpression) -> cst.BinaryOperation:
    found = [x for x in within(node, cst.BinaryOperation) if isinstance(x.operator, cst.Modulo)]
    if len(found) != 1:
        raise NotFixable("the boundary is not one modulo")
    return found[0]


def size_of_window(bench: Bench, backward: Backward, step: Step, seen_from: Statement | None = None) -> str:
    """N as the boundary writes it: a side of its modulo or of its comparison, the one that the window was seen by.

    `seen_from`: where it is to be written, if not at the backward.
    """
    if step.guard is None:
        loop = inner_loop(bench, backward, step)
        if loop is None:
            raise NotFixable("the size of the window was not found")
        return size_of_loop(bench, loop)
    test = condition(bench, step)
    known = last_name(in_user_words(step.window))
    sides = [x.right for x in within(test, cst.BinaryOperation) if isinstance(x.operator, cst.Modulo)]
    if len({bench.code(x) for x in sides}) > 1:
        raise NotFixable("the boundary asks for more than one modulo")
    for found in within(test, cst.Comparison):
        sides.extend([found.comparisons[0].comparator, found.left])
    for side in sides:
        text = bench.code(bare(side))
        if last_name(text) == known and text not in ("0", "1"):
            _check_means_the_same(bench, text, seen_from or bench.statement(backward), guard_of(bench, step))
            return text
    if known.isidentifier():
        return in_user_words(step.window)
    raise NotFixable("the size of the window is not written in its boundary")


def _check_means_the_same(bench: Bench, name: str, here: Statement, there: Statement) -> None:
    """A local name of the boundary's function may be another number in the function of the backward."""
    homes = [x.function for x in (here, there)]
    if homes[0] is homes[1] or not name.isidentifier() or homes[0] is None:
        return
    hidden = homes[1] is not None and not homes[1].holds(homes[0]) and name in _local_names(bench, homes[1])
    if hidden or name in _local_names(bench, homes[0]):
        raise NotFixable(f"`{name}` may be another number where the backward is")


def _local_names(bench: Bench, function: Statement) -> set[str]:
    params = {p.name.value for p in within(function.node.params, cst.Param)}
    return params.union(*(bench.names_in(x).bound for x in function.leaves() if x is not function))


def last_name(text: str) -> str:
    """`self.accum` and a parameter `accum` that it was made of are the same number; quotes do not matter."""
    return text.replace(" ", "").replace('"', "'").strip("()").rpartition(".")[2]


def inner_loop(bench: Bench, backward: Backward, step: Step) -> Statement | None:
    """The loop over the micro-batches, if the step stands behind it."""
    made, used = bench.pair(backward, step)
    return made.loop if made.loop is not None and not made.loop.holds(used) else None


def size_of_loop(bench: Bench, loop: Statement) -> str:
    """N of an inner loop over micro-batches: `n` of `range(n)`, `len(parts)` of a list of parts."""
    items = loop.node.iter if isinstance(loop.node, cst.For) else None
    if isinstance(items, cst.Call) and bench.code(items.func) == "range" and len(items.args) == 1:
        return bench.code(items.args[0].value)
    if isinstance(items, cst.Call) and bench.code(items.func) == "enumerate" and items.args:
        items = items.args[0].value
    if isinstance(items, cst.Name) and _has_length(bench, items.value):
        return f"len({items.value})"
    raise NotFixable("the number of micro-batches is not written here")


def _has_length(bench: Bench, name: str) -> bool:
    """It is made of a list or a tuple: a generator has no length."""
    made = [x.value for x in assignments(bench, name)]
    return bool(made) and all(isinstance(x, cst.List | cst.ListComp | cst.Tuple) or called(x) in _SIZED for x in made)


# -- where it begins


def count_from_one(bench: Bench, step: Step, *, everywhere: bool = False) -> None:
    """`i % n == 0` -> `(i + 1) % n == 0`; `everywhere`: in all conditions of the loop that ask the same."""
    modulo = modulo_in(condition(bench, step))
    nodes = [modulo]
    loop = guard_of(bench, step).loop
    if everywhere and loop is not None:
        same = bench.code(modulo)
        nodes = [x for x in within(loop.node, cst.BinaryOperation) if bench.code(x) == same]
    for node in nodes:
        left = bench.code(node.left)
        tight = "%" in bench.code(node) and " % " not in bench.code(node)
        bench.replace(node.left, f"({left}+1)" if tight else f"({left} + 1)")


# -- where it ends


def step_at_the_end(bench: Bench, step: Step) -> None:
    """`(i + 1) % n == 0` -> `(i + 1) % n == 0 or i + 1 == len(loader)`."""
    test = condition(bench, step)
    guard = guard_of(bench, step)
    loop = guard.loop
    modulo = modulo_in(test)
    if loop is None or not isinstance(loop.node, cst.For):
        raise NotFixable("the loop over the loader was not found")
    counted = bench.code(bare(modulo.left))
    zero_based = _compared_with_last(test, modulo)
    end = f"len({_loader(bench, loop, modulo.left, zero_based=zero_based)}){' - 1' if zero_based else ''}"
    last = f"{counted} == {end}"
    _say_so_to_no_sync(bench, loop, test, modulo, f"{counted} != {end}")
    if _negates(test, modulo):
        # `if (i + 1) % n != 0: continue`
        bench.replace(test, _joined(bench, test, cst.And(), f"{counted} != {end}"))
    elif isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        place = next(x for x in _operands(test) if modulo in within(x, cst.BinaryOperation))
        bench.replace(place, f"({bench.code(place)} or {last})")
    elif isinstance(test, cst.UnaryOperation | cst.Comparison | cst.BooleanOperation | cst.BinaryOperation):
        bench.replace(test, _joined(bench, test, cst.Or(), last))
    else:
        raise NotFixable("the boundary is not a plain comparison")


def _negates(test: cst.BaseExpression, modulo: cst.BinaryOperation) -> bool:
    """The whole condition is true *before* the boundary."""
    unequal = isinstance(test, cst.Comparison) and isinstance(test.comparisons[0].operator, cst.NotEqual)
    return unequal and isinstance(test, cst.Comparison) and test.left is modulo


def _joined(bench: Bench, test: cst.BaseExpression, operator: cst.BaseBooleanOp, more: str) -> cst.BooleanOperation:
    """The condition with one more part, inside of the user's own parentheses."""
    right = cst.parse_expression(more, config=bench.document.config)
    return cst.BooleanOperation(bare(test), operator, right, lpar=test.lpar, rpar=test.rpar)


def _say_so_to_no_sync(
    bench: Bench, loop: Statement, boundary: cst.BaseExpression, modulo: cst.BinaryOperation, more: str
) -> None:  # fmt: skip
    """A no_sync that asks the same question in other words has to know of the new answer."""
    asked = set(within(boundary, cst.Comparison))
    for found in within(loop.node, cst.Comparison):
        statement = bench.statement(found)
        if found in asked or isinstance(statement.node, cst.If) or bench.code(found.left) != bench.code(modulo):
            continue
        said = bench.code(statement.node)
        if "sync" not in said or more in said or more.replace("!=", "==", 1) in said:
            continue
        if isinstance(found.comparisons[0].comparator, cst.BinaryOperation):
            continue
        if isinstance(found.comparisons[0].operator, cst.NotEqual):
            joined = f"{bench.code(found)} and {more}"
        else:
            joined = f"{bench.code(found)} or {more.replace('!=', '==', 1)}"
        alone = any(x.test is found for x in within(statement.node, cst.IfExp)) or any(
            x.value is found for x in within(statement.node, cst.Assign)
        )
        bench.replace(found, joined if alone else f"({joined})")


def _operands(test: cst.BooleanOperation) -> list[cst.BaseExpression]:
    found: list[cst.BaseExpression] = []
    for side in (test.left, test.right):
        nested = isinstance(side, cst.BooleanOperation) and isinstance(side.operator, cst.And) and not side.lpar
        found.extend(_operands(side) if nested and isinstance(side, cst.BooleanOperation) else [side])
    return found


def _compared_with_last(test: cst.BaseExpression, modulo: cst.BinaryOperation) -> bool:
    """`i % n == n - 1` counts from zero."""
    comparisons = [x for x in within(test, cst.Comparison) if x.left is modulo]
    return any(isinstance(x.comparisons[0].comparator, cst.BinaryOperation) for x in comparisons)


def _loader(bench: Bench, loop: Statement, counted: cst.BaseExpression, *, zero_based: bool) -> str:
    """The loader of `for i, batch in enumerate(loader)`, if what is counted is its index."""
    call = loop.node.iter
    if called(call) != "enumerate" or not isinstance(loop.node.target, cst.Tuple):
        raise NotFixable("the loop does not count with enumerate")
    assert isinstance(call, cst.Call)
    if not call.args or not loop.node.target.elements:
        raise NotFixable("the loop does not count anything")
    index = bench.code(loop.node.target.elements[0].value)
    start = next((bench.code(a.value) for n, a in enumerate(call.args) if n == 1), "0")
    shown = bench.code(bare(counted)).replace(" ", "")
    expected = {("0", False): f"{index}+1", ("0", True): index, ("1", False): index}.get((start, zero_based))
    if shown != expected:
        raise NotFixable("what is counted is not the index of the loader")
    loader = call.args[0].value
    if isinstance(loader, cst.Call) and called(loader) == "tqdm" and loader.args:
        loader = loader.args[0].value
    endless = any(called(x.value) in _ENDLESS for x in assignments(bench, bench.code(loader)))
    if endless or not isinstance(loader, cst.Name | cst.Attribute | cst.Subscript):
        raise NotFixable("the length of the loader cannot be asked for")
    return bench.code(loader)


#: what these give has no length
_SIZED = {"list", "tuple", "sorted", "chunk", "split", "tensor_split", "unbind"}
_ENDLESS = {"iter", "zip", "map", "filter", "islice", "cycle", "chain", "enumerate"}


# -- for no_sync


def before_boundary(bench: Bench, step: Step, place: Statement) -> tuple[str, bool]:
    """(a condition that may be asked at `place`, whether it is true at the boundary rather than before it)."""
    guard = guard_of(bench, step)
    test = guard.node.test
    made = flag_home(guard, test.value) if isinstance(test, cst.Name) else None
    if made is not None and bench.statement(made).start >= place.start:
        raise NotFixable(f"`{bench.code(test)}` is known only behind the forward")
    bench.check_same_value(test, place, guard)
    if isinstance(test, cst.Comparison) and [type(c.operator) for c in test.comparisons] == [cst.Equal]:
        unequal = cst.ComparisonTarget(cst.NotEqual(), test.comparisons[0].comparator)
        return bench.code(test.with_changes(comparisons=[unequal])), False
    return bench.code(test), True


def before_last_turn(bench: Bench, loop: Statement) -> str:
    """`k < n - 1`: this is not the last micro-batch of an inner loop."""
    node = loop.node
    if isinstance(node, cst.For) and isinstance(node.iter, cst.Call):
        call, target = node.iter, node.target
        name = bench.code(call.func)
        if name == "range" and len(call.args) == 1 and isinstance(target, cst.Name):
            return f"{target.value} < {in_product(bench.code(call.args[0].value), call.args[0].value)} - 1"
        if name == "enumerate" and len(call.args) == 1 and isinstance(target, cst.Tuple) and target.elements:
            items = call.args[0].value
            if isinstance(items, cst.Name | cst.Attribute):
                return f"{bench.code(target.elements[0].value)} < len({bench.code(items)}) - 1"
    raise NotFixable("the loop does not count its micro-batches")


def negated(bench: Bench, node: cst.BaseExpression) -> str:
    """`not` of a condition, as people write it."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return bench.code(node.expression)
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        target = node.comparisons[0]
        for one, other in _OPPOSITES:
            for here, there in ((one, other), (other, one)):
                if isinstance(target.operator, here):
                    return bench.code(node.with_changes(comparisons=[target.with_changes(operator=there())]))
    return f"not {bench.code(node)}" if is_tight(node) else f"not ({bench.code(node)})"


_OPPOSITES: tuple[tuple[type[cst.BaseCompOp], type[cst.BaseCompOp]], ...] = (
    (cst.Equal, cst.NotEqual), (cst.Is, cst.IsNot), (cst.In, cst.NotIn), (cst.LessThan, cst.GreaterThanEqual),
    (cst.GreaterThan, cst.LessThanEqual),
)  # fmt: skip
