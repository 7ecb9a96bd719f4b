"""Runs statements: assignments, branches, loops, and functions that are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.facts.numerics import arithmetic
from gradlint.facts.numerics.calls import facts_of
from gradlint.facts.numerics.expressions import constant, element
from gradlint.facts.numerics.facts import (
    DATA,
    UNKNOWN,
    Chain,
    Fact,
    Items,
    Layer,
    Model,
    Object,
    Routine,
    Value,
    as_fact,
    combine,
    join,
)
from gradlint.facts.numerics.frames import (
    MAX_DEPTH,
    Container,
    Frame,
    by_name,
    copy_of,
    merged,
    restore,
    signature,
)
from gradlint.facts.numerics.modules import Modules
from gradlint.knowledge import tensor_api as api
from gradlint.python import syntax as s
from gradlint.python.calls import Arguments, bind
from gradlint.python.contexts import turns_off
from gradlint.subjects import Kind, Low

if TYPE_CHECKING:
    from gradlint.python.module import Program

#: containers that a branch changed, and what they held at its end
Held = dict[int, tuple[Container, Container]]


class Statements(Modules):
    """Follows a function from its first statement to its returns."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._known: dict[object, Value] = {}
        #: what the keys above speak of by id must stay alive
        self._alive: list[object] = []

    def run(self, body: list[s.Stmt]) -> bool:
        """False if the end of the block is not reached."""
        return all(self._one(stmt) for stmt in body)

    def _one(self, stmt: s.Stmt) -> bool:
        match stmt:
            case s.Assign():
                value = self.ev(stmt.value)
                for target in stmt.targets:
                    self.assign(target, value)
            case s.AugAssign():
                self._augmented(stmt)
            case s.ExprStmt():
                self._expression(stmt)
            case s.If():
                return self._if_else(stmt)
            case s.For():
                self._for(stmt)
            case s.While():
                self.ev(stmt.test)
                self._twice(stmt.body)
            case s.With():
                return self._with_block(stmt)
            case s.Try():
                return self._try(stmt)
            case s.Return():
                self._return(stmt)
                return False
            case s.Jump():
                return False
            case s.Def():
                self.frame.env[stmt.name] = Routine(stmt, None, self.frame.env)
            case s.Delete():
                for target in stmt.targets:
                    self._delete(target)
            case _:
                pass
        return True

    # -- assignments

    def assign(self, target: s.Expr, value: Value) -> None:
        if self.frame.no_grad and isinstance(value, Fact) and value.grad is not False:
            value = value.but(grad=False, ops=frozenset())
        match target:
            case s.Name():
                self._sink(target.id, value)
                self.frame.env[target.id] = value
            case s.Attr():
                self._sink(target.name, value)
                base = self.ev(target.base)
                if isinstance(base, Object):
                    self.attribute_of(base, target.name)  # its constructor ran before
                    self.change(base)
                    base.attributes[target.name] = value
                elif target.name in api.HEADS and isinstance(value, Chain | Layer | Object):
                    self._put_head(target.base, base, value)
            case s.Item():
                self._assign_item(target, value)
            case s.Sequence():
                self._unpack(target, value)
            case s.Star():
                self.assign(target.value, UNKNOWN)
            case _:
                pass

    def _assign_item(self, target: s.Item, value: Value) -> None:
        base = self.ev(target.base)
        key = constant(target.index)
        if isinstance(key, str):
            self._sink(key, value)
            if isinstance(base, Items):
                self.change(base)
                base.entries[key] = value
        elif isinstance(target.base, s.Attr) and target.base.name in api.HEADS and isinstance(value, Chain | Layer):
            self._put_head(target.base.base, self.ev(target.base.base), value)
        elif isinstance(base, Chain) and isinstance(key, int) and -len(base.layers) <= key < len(base.layers):
            self.change(base)
            base.layers[key] = value
        elif isinstance(base, Fact) and isinstance(target.base, s.Name):
            # `x[mask] = 1` may be the guard
            merged = combine((base, as_fact(value)))
            self.frame.env[target.base.id] = merged.but(low=max(base.low, Low.GUARDED), capped=True)

    def _put_head(self, target: s.Expr, base: Value, head: Value) -> None:
        """`model.fc = nn.Sequential(…)` on a model from elsewhere: its last layer."""
        if not isinstance(base, Model | Fact):
            return
        if isinstance(target, s.Name):
            self.frame.env[target.id] = Model(head)
        elif isinstance(target, s.Attr):
            self.assign(target, Model(head))

    def _delete(self, target: s.Expr) -> None:
        """`del model[-1]`."""
        if isinstance(target, s.Item):
            base, key = self.ev(target.base), constant(target.index)
            if isinstance(base, Chain) and isinstance(key, int) and -len(base.layers) <= key < len(base.layers):
                self.change(base)
                del base.layers[key]

    def _unpack(self, target: s.Sequence, value: Value) -> None:
        items = value.items if isinstance(value, Items) and len(value.items) == len(target.items) else None
        for place, item in enumerate(target.items):
            if items is not None:
                self.assign(item, items[place])
            elif isinstance(item, s.Name) and value is UNKNOWN:
                self.assign(item, by_name(item.id))
            elif isinstance(value, Fact):
                # `values, indices = probs.max(1)` and the outputs of an unknown model
                raw = value.raw or value.prob is None
                self.assign(item, value.but(pure=False) if raw else arithmetic.selected(value, whole_rows=False))
            else:
                self.assign(item, UNKNOWN)

    def _sink(self, name: str, value: Value) -> None:
        if api.LOSS_NAME.search(name) and not api.NO_LOSS_NAME.search(name):
            self.reach(value)

    def _augmented(self, stmt: s.AugAssign) -> None:
        added = self.ev(stmt.value)
        before = self.ev(stmt.target)
        if isinstance(before, Items):
            if len(before.items) < 24:
                self.change(before)
                before.items.extend(added.items if isinstance(added, Items) else [added])
            return
        value = as_fact(added)
        result = arithmetic.binary(stmt.op.rstrip("="), as_fact(before), value, False, stmt.target)
        if stmt.op.startswith("/") and value.number is None:
            node = s.Bin(stmt.node, "/", stmt.target, stmt.value)
            operation = self.operate(Kind.DIVIDE, node, stmt.value, value, other=as_fact(before))
            if operation is not None:
                result = result.but(ops=result.ops | {operation})
        self.assign(stmt.target, result)

    def _expression(self, stmt: s.ExprStmt) -> None:
        value = stmt.value
        result = self.ev(value)
        if isinstance(value, s.Call) and isinstance(value.func, s.Attr) and isinstance(value.func.base, s.Name):
            name, method = value.func.base.id, value.func.name
            held = self.frame.env.get(name)
            if method == "append" and isinstance(held, Fact) and value.args:
                self.assign(value.func.base, combine([held, self.fact(value.args[0])]))
            elif method.endswith("_") and not method.startswith("_") and isinstance(held, Fact):
                self.frame.env[name] = result  # `probs.clamp_(min=eps)` changes what the name holds

    # -- blocks

    def _if_else(self, stmt: s.If) -> bool:
        self.ev(stmt.test)
        training = _asks_for_training(stmt.test)
        if training is not None:
            return self.run(stmt.body if training else stmt.orelse)
        before = self.frame.env
        went_on, then, held = self._branch(stmt.body, before)
        other_went_on, other, other_held = self._branch(stmt.orelse, before)
        self._settle(held if went_on else {}, other_held if other_went_on else {}, went_on and other_went_on)
        if went_on and other_went_on:
            _merge(before, then, other)
        elif went_on or other_went_on:
            before.update(then if went_on else other)
        return went_on or other_went_on

    def _branch(self, body: list[s.Stmt], before: dict[str, Value]) -> tuple[bool, dict[str, Value], Held]:
        """Runs a branch on copies; what it made of containers is told, and undone."""
        journal: dict[int, tuple[Container, Container]] = {}
        self.journals.append(journal)
        outer, self.frame.env = self.frame.env, dict(before)
        went_on = self.run(body)
        after, self.frame.env = self.frame.env, outer
        self.journals.pop()
        held: Held = {}
        for key, (container, state) in journal.items():
            held[key] = (container, copy_of(container))
            restore(container, state)
        return went_on, after, held

    def _settle(self, one: Held, other: Held, both: bool) -> None:
        """Containers that a branch changed hold what either may have made of them."""
        for key in {*one, *other}:
            container = (one.get(key) or other[key])[0]
            self.change(container)
            now = copy_of(container)
            states = [branch[key][1] if key in branch else now for branch in (one, other)]
            if not both:
                states = [(one.get(key) or other[key])[1]] * 2
            restore(container, merged(*states))

    def _for(self, stmt: s.For) -> None:
        iterable = self.ev(stmt.iterable)
        if isinstance(iterable, Chain) and len(iterable.layers) <= 12:
            for layer in iterable.layers:
                self.assign(stmt.target, layer)
                self._run_on(stmt.body)
            return
        self.assign(stmt.target, _unpackable(element(iterable), stmt.target))
        self._twice(stmt.body)
        self.run(stmt.orelse)

    def _twice(self, body: list[s.Stmt]) -> None:
        """Once more, so that what a turn leaves behind meets the next one."""
        for _ in range(2):
            before = dict(self.frame.env)
            self._run_on(body)
            _merge(self.frame.env, before, dict(self.frame.env))

    def _run_on(self, body: list[s.Stmt]) -> None:
        for stmt in body:
            if not self._one(stmt):
                break

    def _with_block(self, stmt: s.With) -> bool:
        for item, alias in stmt.items:
            value = self.ev(item)
            if alias is not None:
                self.assign(alias, value)
        off = turns_off([item for item, _ in stmt.items], self.dotted)
        self.frame.no_grad += off
        went_on = self.run(stmt.body)
        self.frame.no_grad -= off
        return went_on

    def _try(self, stmt: s.Try) -> bool:
        before = dict(self.frame.env)
        went_on = self.run(stmt.body)
        if went_on:
            went_on = self.run(stmt.orelse)
        for _, handler in stmt.handlers:
            mended, after, held = self._branch(handler, before)
            if mended:
                _merge(self.frame.env, self.frame.env if went_on else after, after)
                self._settle(held, {}, went_on)
                went_on = True
        return self.run(stmt.final) and went_on

    def _return(self, stmt: s.Return) -> None:
        if stmt.value is None:
            return
        value = self.ev(stmt.value)
        self.frame.returns.append(value)
        if self.frame.loss:
            self.reach(value)

    # -- functions

    def follow(self, routine: Routine, given: Arguments[Value]) -> Value:
        node = routine.node
        if isinstance(node, s.Lambda):
            return self._lambda_call(node, routine, given)
        if node is None or self.frame.depth >= MAX_DEPTH:
            return combine(facts_of(given)).but(grad=None)
        self.followed.add(id(node))
        env = self._bound(node, routine, given)
        key = (id(node), id(routine.owner), self.frame.no_grad > 0, self.frame.quiet,
               tuple((k, signature(v)) for k, v in env.items()))  # fmt: skip
        known = self._known.get(key)
        if known is None:
            self._alive.append((routine.owner, env))
            self._known[key] = UNKNOWN  # for a function that calls itself
            known = self._known[key] = self._called(node, routine, env)
        return known

    def _called(self, node: s.Def, routine: Routine, env: dict[str, Value]) -> Value:
        caller = self.frame
        self.frame = Frame(
            node, routine.owner, env, routine.env,
            no_grad=caller.no_grad + turns_off(node.decorators, self.program.dotted),
            quiet=caller.quiet or bool(api.EVALUATION.search(node.name)) or _is_test(routine.owner),
            loss=gives_loss(node, routine.owner), depth=caller.depth + 1,
        )  # fmt: skip
        if routine.owner is not None and routine.owner.cls is not None and _is_autograd_function(routine.owner.cls):
            self.frame.no_grad += 1
        if api.TARGET.search(node.name) and not self.frame.loss:
            self.frame.no_grad += 1  # `def ground_truth(…)`
        try:
            self.run(node.body)
            returns = self.frame.returns
        finally:
            self.frame = caller
        if not returns:
            return DATA
        result = returns[0]
        for other in returns[1:]:
            result = join(result, other)
        return result

    def _bound(self, node: s.Def, routine: Routine, given: Arguments[Value]) -> dict[str, Value]:
        """The parameters with their values."""
        params = [p for p in node.params if not p.star]
        env: dict[str, Value] = {}
        if routine.owner is not None and params:
            env[params[0].name] = routine.owner
            params = params[1:]
        bound = bind(params, given)
        for param in params:
            value = bound.values.get(param.name)
            if value is None and param.default is not None:
                value = self.ev(param.default)
                if isinstance(value, Fact) and value.number is None:
                    value = by_name(param.name)
            if value is None or value is UNKNOWN:
                value = self._annotated(param)
            env[param.name] = value
        return env

    def _annotated(self, param: s.Param) -> Value:
        """What is known of a parameter that nobody gave a value."""
        if isinstance(param.annotation, s.Name) and param.annotation.id in self.program.classes:
            return Object(self.program.classes[param.annotation.id])
        return by_name(param.name)

    def _lambda_call(self, node: s.Lambda, routine: Routine, given: Arguments[Value]) -> Value:
        caller = self.frame
        env = {p.name: given.args[i] if i < len(given.args) else by_name(p.name) for i, p in enumerate(node.params)}
        self.frame = Frame(caller.function, caller.owner, env, routine.env, caller.no_grad, caller.quiet,
                           depth=caller.depth + 1)  # fmt: skip
        try:
            return self.ev(node.body)
        finally:
            self.frame = caller


def _asks_for_training(test: s.Expr) -> bool | None:
    """Whether a condition holds in training: `self.training`, and what needs its opposite; None for all others."""
    match test:
        case s.Attr(name="training"):
            return True
        case s.Unary(op="not", value=s.Attr(name="training")):
            return False
        case s.Bool(op="and"):
            return False if any(_asks_for_training(item) is False for item in test.items) else None
        case _:
            return None


def gives_loss(node: s.Def, owner: Object | None) -> bool:
    """What the function returns is trained on, by its name or that of its class."""
    if api.LOSS_FUNCTION.search(node.name):
        return True
    if owner is None or owner.cls is None or node.name not in ("forward", "__call__"):
        return False
    return bool(api.LOSS_CLASS.search(owner.cls.name))


def _is_test(owner: Object | None) -> bool:
    if owner is None or owner.cls is None:
        return False
    return bool(api.TEST.search(owner.cls.name)) or any(api.TEST.search(s.render(base)) for base in owner.cls.bases)


def _is_autograd_function(cls: s.Class) -> bool:
    """forward of torch.autograd.Function is not differentiated: it has a backward of its own."""
    return any(s.render(base).rpartition(".")[2] == "Function" for base in cls.bases)


def _merge(into: dict[str, Value], one: dict[str, Value], other: dict[str, Value]) -> None:
    for name in one.keys() | other.keys():
        if name in one and name in other:
            into[name] = join(one[name], other[name])
        else:
            into[name] = one[name] if name in one else other[name]


def _unpackable(value: Value, target: s.Expr) -> Value:
    """`for batch, labels in loader`: what the loader gives is data, not a prediction."""
    if isinstance(target, s.Sequence) and isinstance(value, Fact) and not value.ops and value.prob is None:
        return UNKNOWN
    return value
