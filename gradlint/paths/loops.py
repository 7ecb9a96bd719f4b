"""Runs loops a few turns: how many, over what, and whether the turns are the micro-batches of a window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradlint.events import WINDOW, Backward, Clip, ClipApi, Mark, Step
from gradlint.knowledge import naming
from gradlint.paths import values as v
from gradlint.paths.calls import Unwound
from gradlint.paths.domain import is_micro
from gradlint.paths.groups import CUTS, cuts
from gradlint.paths.run import OUTER_TURNS, TURNS, Guard, LoopState
from gradlint.paths.steady import Steady
from gradlint.python import syntax as s
from gradlint.python.binding import called, identifiers

if TYPE_CHECKING:
    from gradlint.paths.interpreter import Interpreter

#: what goes over something else
_WRAPS = frozenset({"enumerate", "zip", "tqdm", "list", "reversed", "iter"})
#: a loop of fewer turns is run as it is
_MANY = 4
#: the most entries of a list that are gone over: some stand for all, but for callbacks and stages, each of which does
#: something else
_SOME, _ALL = 4, 32


class Break(Unwound):
    """A `break` unwinds to its loop."""


class Continue(Unwound):
    """A `continue` unwinds to the next turn of its loop."""


class Loops:
    """`for` and `while`."""

    def __init__(self, it: Interpreter) -> None:
        self.it = it
        self.run = it.run

    def run_for(self, stmt: s.For) -> None:
        iterable = self.it.ev(stmt.iterable)
        values = self._turns(stmt, iterable)
        if isinstance(iterable, v.ParamsValue):
            if iterable.generator and iterable.used_by is not None:
                self._exhausted(stmt, iterable)
                return
            self.it.gradients.use_up(iterable, stmt.iterable)
        loop = LoopState(
            stmt.node, stmt.body, 0, len(values), self._micro_window(stmt, iterable), self._is_loader(stmt, iterable),
            self._is_data(iterable), iterable.window if isinstance(iterable, v.Counted) else "",
            iterable.size if isinstance(iterable, v.Counted) else None,
        )  # fmt: skip
        over = isinstance(iterable, v.ParamsValue)
        self.run.over_parameters += over
        around, steady = self._around(iterable), self._steady(loop, stmt, iterable, values)
        self._loop(loop, stmt, self._and_more(loop, stmt, iterable, _each(loop, values, steady)), around, steady)
        self.run.over_parameters -= over

    def _and_more(self, loop: LoopState, stmt: s.For, iterable: v.Value, turns: Iterator[v.Value]) -> Iterator[v.Value]:
        """Where one turn was thought to do, and an update was made in it by something that no name leads to
        (`train_step = make_train_step(model)`), others follow."""
        before, alone = len(self.run.events), loop.turns == 1
        yield from turns
        made = self.run.events[before:] if alone and not self.it.program.words(stmt.body).events else ()
        here = len(self.run.loops)
        if any(isinstance(e, Backward) for e in made) and any(
            isinstance(e, Step) and len(e.frames) == here for e in made
        ):
            self.run.updating.add(stmt.node)
            for turn, value in enumerate(self._turns(stmt, iterable)[1:], 1):
                loop.turn = turn
                yield value

    def _around(self, iterable: v.Value) -> list[Guard]:
        """A loop over optimizers is one step of all of them: the window that is full round it is full in it. What is
        asked round any other loop holds for all that happens in it."""
        together = _holds_optimizers(iterable)
        if isinstance(iterable, v.Counted):
            together = self._counts_training_objects(iterable)
        elif isinstance(iterable, v.Unknown):
            together = self._over_training_objects(iterable)
        return [guard for guard in self.run.guards if together or not guard.window]

    def _exhausted(self, stmt: s.For, iterable: v.ParamsValue) -> None:
        """A loop over a used-up generator does nothing; if it was to change gradients, that is a clip of nothing."""
        if any(isinstance(x, s.AugAssign) and ".grad" in s.render(x.target) for x in s.walk_stmts(stmt.body)):
            self.run.emit(
                Clip, stmt.iterable, s.render(stmt.iterable), params=iterable.params, api=ClipApi.CUSTOM,
                exhausted_by=iterable.used_by, target=iterable.key,
            )  # fmt: skip

    def run_while(self, stmt: s.While) -> None:
        turns = 1 if _tries_again(stmt) else OUTER_TURNS if self._repeats_batch(stmt) else self._usual_turns(stmt)
        loop = LoopState(stmt.node, stmt.body, 0, turns)
        if not self._refuses(stmt):
            steady = Steady(self.run, loop) if loop.turns >= _MANY else None
            self._loop(loop, stmt, self._tests(loop, stmt, steady), steady=steady)

    def _repeats_batch(self, stmt: s.While) -> bool:
        """`while True:` in a loop over batches that makes gradients itself: one of them is done again if need be."""
        around = self.run.loops[-1] if self.run.loops else None
        if around is None or not around.data or not _is_endless(stmt):
            return False
        outside = self.it.program.collect_words([*_outside_of_loops(around.body)])
        return outside.backward and s.Leave.BREAK in self.it.program.own_words(stmt.body).jumps

    def _tests(self, loop: LoopState, stmt: s.While, steady: Steady | None) -> Iterator[v.Value]:
        """One for each turn: the condition is asked anew in the turn that it lets in."""
        for value in _each(loop, [v.Unknown()] * loop.turns, steady):
            if self._refuses(stmt):
                return
            yield value

    def _refuses(self, stmt: s.While) -> bool:
        test = self.it.ev(stmt.test)
        return isinstance(test, v.Constant) and not test.value

    def _steady(self, loop: LoopState, stmt: s.For, iterable: v.Value, values: list[v.Value]) -> Steady | None:
        """Watches a loop whose turns can be alike: what they are given is, or nothing asks for the number."""
        if len(values) < _MANY:
            return None
        if values[0] is values[-1]:
            return Steady(self.run, loop)
        target, last = stmt.target, values[-1]
        if isinstance(target, s.Sequence) and isinstance(last, v.Collection) and target.items and last.items:
            target, last = target.items[0], last.items[0]
        plain = isinstance(iterable, v.Counted) and not isinstance(iterable.inner, v.Collection | v.Counted)
        if not plain or not isinstance(target, s.Name) or self._names(stmt.body, target.id):
            return None
        return Steady(self.run, loop, (target, last))

    def _names(self, body: list[s.Stmt], name: str) -> bool:
        """Somebody asks for it: the block, or, for a name of the module, any function of the file."""
        program = self.it.program
        if name in program.own_words(body).seen:
            return True
        if self.it.core.frame is not self.it.core.module:
            return False
        functions = (d for definitions in program.functions.values() for d in definitions)
        return any(name in program.own_words(d.body).seen for d in functions)

    def _loop(
        self, loop: LoopState, stmt: s.For | s.While, values: Iterable[v.Value], around: Iterable[Guard] = (),
        steady: Steady | None = None,
    ) -> None:  # fmt: skip
        self.run.loops.append(loop)
        guards = self.run.guards
        try:
            for value in values:
                self.run.guards = list(around)
                self.run.emit(Mark, stmt, "", loop=loop.id, loader=loop.loader)
                if isinstance(stmt, s.For):
                    self.it.core.assign(stmt.target, value)
                try:
                    self.it.run_body(stmt.body)
                except Continue:
                    pass
                except Break:
                    break
                if steady is not None and steady.reached(self.it.core.frame):
                    steady.repeat()
                    if steady.counter is not None:
                        self.it.core.assign(*steady.counter)
        finally:
            self.run.guards = guards
            self.run.loops.pop()
        self.run.emit(Mark, stmt, "", loop=loop.id, over=True, loader=loop.loader)
        self.it.run_body(stmt.orelse)

    # -- how often

    def _turns(self, stmt: s.For, iterable: v.Value) -> list[v.Value]:
        match iterable:
            case v.Collection() if iterable.items and not iterable.whole:
                return [iterable.each[0]] * (1 if _holds_optimizers(iterable) else self._usual_turns(stmt))
            case v.Collection() if iterable.items or iterable.entries:
                return _entries(self.it.domain.elements(iterable))
            case v.ParamsValue() | v.Grad():
                return self.it.domain.elements(iterable)
            case v.Counted() if iterable.enumerate and _all_known(iterable.inner):
                return _entries(self.it.domain.elements(iterable))
            case v.Counted() if self._counts_training_objects(iterable):
                return [self._counted(iterable, 0)]
            case v.Counted():
                usual = WINDOW if self._micro_window(stmt, iterable) else self._usual_turns(stmt)
                count = iterable.turns if iterable.turns is not None else usual
                return [self._counted(iterable, n) for n in range(count)]
            case _:
                one = self.it.domain.elements(iterable)[0]
                if self._over_training_objects(iterable):
                    return [one]
                return [one] * self._usual_turns(stmt)

    def _counted(self, iterable: v.Counted, turn: int) -> v.Value:
        number = v.Known(iterable.start + turn * iterable.step, iterable.key, exact=iterable.exact, counter=True)
        if not iterable.enumerate:
            if isinstance(iterable.inner, v.Collection):
                columns = iterable.inner.items
                row = [
                    self._counted(c, turn) if isinstance(c, v.Counted) else self.it.domain.elements(c)[0]
                    for c in columns
                ]
                return v.row(*row)
            if isinstance(iterable.inner, v.Counted) and iterable.inner.turns:
                return self._counted(iterable.inner, turn % iterable.inner.turns)  # `cycle(range(n))`
            return number if iterable.inner is None else v.Unknown(f"{iterable.key}[*]")
        inner = iterable.inner
        if isinstance(inner, v.Counted):
            return v.row(number, self._counted(inner, turn))
        if isinstance(inner, v.Collection) and inner.items:
            return v.row(number, inner.each[0])
        return v.row(number, v.Unknown(f"{inner.key if inner else ''}[*]"))

    def _usual_turns(self, stmt: s.For | s.While) -> int:
        """Enough for two windows and a rest where gradients are made or used; two epochs; once for the rest."""
        words = self.it.program.words(stmt.body)
        if not words.events:
            return TURNS if stmt.node in self.run.updating else 1
        inner = self.it.program.innermost.get(stmt.node)
        if inner is None:
            inner = self.it.program.innermost[stmt.node] = self._makes_gradients_itself(stmt)
        return TURNS if inner and len(self.run.loops) < 3 else OUTER_TURNS

    def _makes_gradients_itself(self, stmt: s.For | s.While) -> bool:
        """Events stand right in this loop, not only in a loop inside it."""
        itself = list(_outside_of_loops(stmt.body))
        own = self.it.program.collect_words(itself)
        for definition in self.it.program.callees.under(itself):
            if not self._trains_in_loop(definition):
                own.add(self.it.program.words_of(definition))
        if (own.steps and not _only_schedules(stmt)) or own.backward:
            return True
        return own.events and not _holds_any_loop(stmt.body)

    def _trains_in_loop(self, definition: s.Def) -> bool:
        """`train_one_epoch(…)`, in a loop over epochs; a function that goes over parameters is called for a batch."""
        program = self.it.program.owner(definition.node)
        for stmt in s.walk_stmts(definition.body):
            if isinstance(stmt, s.For | s.While):
                words = program.words(stmt.body)
                if words.backward or words.steps:
                    return True
        return False

    def _over_training_objects(self, iterable: v.Value) -> bool:
        """`for opt in self.optimizers`: one stands for all."""
        last = naming.last(iterable.key.replace(".values()", "").replace(".items()", ""))
        return bool(naming.OPTIMIZER.search(last) or naming.SCHEDULER.search(last)) or last in (
            "models", "networks", "nets", "modules", "params", "parameters", "param_groups", "callbacks", "hooks"
        )  # fmt: skip

    def _counts_training_objects(self, iterable: v.Counted) -> bool:
        """`enumerate(optimizers)`, `zip(optimizers, schedulers)`, one in the other."""
        inner = iterable.inner
        if isinstance(inner, v.Counted):
            return self._counts_training_objects(inner)
        columns = inner.each if isinstance(inner, v.Collection) else [inner]
        return any(isinstance(c, v.Unknown) and self._over_training_objects(c) for c in columns)

    # -- what it goes over

    def _micro_window(self, stmt: s.For, iterable: v.Value) -> str:
        text = s.render(stmt.iterable)
        counted = iterable.inner if isinstance(iterable, v.Counted) and iterable.enumerate else iterable
        if isinstance(counted, v.Counted) and counted.window:
            batches = isinstance(counted.inner, v.Unknown) and naming.BATCHES.search(naming.last(counted.inner.key))
            if batches or naming.MICRO.search(f"{counted.window} {s.render(stmt.target)}"):
                return counted.window
        words = self.it.program.words(stmt.body)
        if not words.steps and (self._is_filled(counted) or is_micro(counted)):
            gone_over = _counted_of(stmt.iterable)
            over = s.render(gone_over)
            return f"len({over})" if isinstance(gone_over, s.Name | s.Attr) else over
        if isinstance(iterable, v.Counted) and iterable.window and "next" in words.called and not words.steps:
            return iterable.window  # `for _ in range(k): batch = next(data); …backward()`, with the step behind it
        if not naming.MICRO.search(f"{text} {s.render(stmt.target)}") or _cuts_otherwise(stmt.iterable):
            return ""
        if isinstance(iterable, v.Counted) and isinstance(iterable.inner, v.Collection):
            if any(isinstance(x, v.Counted) and isinstance(x.inner, v.Counted) for x in iterable.inner.items):
                return ""  # `zip(loader, cycle(range(n)))` goes from window to window
        return f"len({text})" if isinstance(stmt.iterable, s.Name | s.Attr) else text

    def _is_filled(self, iterable: v.Value | None) -> bool:
        """Batches that were put aside, one in each turn of a loop over a loader."""
        if not isinstance(iterable, v.Collection) or iterable.entries or not any(x.loader for x in self.run.loops):
            return False
        keys = {item.key for item in iterable.items if isinstance(item, v.Unknown)}
        return len(iterable.items) > 1 and len(keys) == 1 and all(isinstance(x, v.Unknown) for x in iterable.items)

    @staticmethod
    def _is_data(iterable: v.Value) -> bool:
        return iterable.enumerate if isinstance(iterable, v.Counted) else isinstance(iterable, v.Unknown | v.Tensor)

    def _is_loader(self, stmt: s.For, iterable: v.Value) -> bool:
        """A finite one: a loop that has to be broken off at a number of steps goes over an endless stream."""
        expr = stmt.iterable
        if s.Leave.BREAK in self.it.program.own_words(stmt.body).jumps or any(_skips_rest(x) for x in stmt.body):
            return False
        if isinstance(iterable, v.Counted):
            return iterable.enumerate and iterable.loader and not _endless(expr)
        return isinstance(iterable, v.Unknown | v.Tensor) and not _endless(expr)


def _each(loop: LoopState, values: Iterable[v.Value], steady: Steady | None) -> Iterator[v.Value]:
    """What each turn is given, but for those that are written down."""
    for turn, value in enumerate(values):
        if steady is None or turn >= steady.over:
            loop.turn = turn
            if steady is not None:
                steady.begin()
            yield value


def _holds_optimizers(iterable: v.Value) -> bool:
    many = iterable.each if isinstance(iterable, v.Collection) else []
    rows = [x for item in many for x in (item.each if isinstance(item, v.Collection) else [item])]
    return any(isinstance(x, v.Optimizer) for x in rows)


def _cuts_otherwise(expr: s.Expr) -> bool:
    """`x.chunk(2, dim=1)`: no part of it is a part of the batch."""
    calls = (part for part in s.walk_expr(expr) if isinstance(part, s.Call) and called(part) in CUTS)
    return any("dim" in call.kwargs and not cuts(called(call), [call.kwargs["dim"]]) for call in calls)


def _entries(values: list[v.Value]) -> list[v.Value]:
    """Those of a written-down list that a loop goes over."""
    return values[: _ALL if any(map(_acts, values)) else _SOME]


def _acts(value: v.Value) -> bool:
    if isinstance(value, v.Collection):
        return any(map(_acts, value.each))
    return isinstance(value, v.Function | v.Instance | v.Bound | v.Partial)


def _counted_of(expr: s.Expr) -> s.Expr:
    """`items` of `enumerate(items)` and of `zip(items, others)`."""
    if not isinstance(expr, s.Call) or not expr.args or s.render(expr.func) not in _WRAPS:
        return expr
    return expr.args[0]


def _holds_loop(stmt: s.Stmt) -> bool:
    return isinstance(stmt, s.For | s.While) or _holds_any_loop([x for b in s.blocks(stmt) for x in b])


def _outside_of_loops(body: list[s.Stmt]) -> Iterator[s.Stmt]:
    """The statements that stand in no loop; of a `try`, `with` or `if` round a loop, those beside it."""
    for stmt in body:
        if not _holds_loop(stmt):
            yield stmt
        elif not isinstance(stmt, s.For | s.While | s.Def | s.Class):
            for block in s.blocks(stmt):
                yield from _outside_of_loops(block)


def _all_known(value: v.Value | None) -> bool:
    """A list with these entries and no more; what a comprehension made goes on as long as its source does."""
    return isinstance(value, v.Collection) and bool(value.items) and value.whole


def _holds_any_loop(body: list[s.Stmt]) -> bool:
    return any(isinstance(x, s.For | s.While) for x in s.walk_stmts(body))


def _only_schedules(stmt: s.For | s.While) -> bool:
    """The only `.step()` right in the loop is a scheduler's: this is the loop over epochs."""
    for inner in _outside_of_loops(stmt.body):
        for x in s.walk_stmts([inner]):
            for expr in s.expressions(x):
                for part in s.walk_expr(expr):
                    if isinstance(part, s.Call) and isinstance(part.func, s.Attr) and part.func.name == "step":
                        if not naming.SCHEDULER.search(naming.last(s.render(part.func.base))):
                            return False
    return _holds_any_loop(stmt.body)


def _skips_rest(stmt: s.Stmt) -> bool:
    """`if step >= steps_per_epoch: continue`: what is behind the last whole window is left out.

    `if to_skip > 0: to_skip -= 1; continue` leaves out the first batches, where a run is resumed.
    """
    if not isinstance(stmt, s.If) or not isinstance(stmt.test, s.Compare) or stmt.test.op not in (">", ">="):
        return False
    if isinstance(stmt.test.right, s.Const) and stmt.test.right.value == 0:
        return False
    return len(stmt.body) == 1 and isinstance(stmt.body[0], s.Jump) and stmt.body[0].kind is s.Leave.CONTINUE


def _endless(expr: s.Expr) -> bool:
    """`cycle(loader)`, `count()`, `infinite_batches`, `data.train_iter()`."""
    if any(not naming.words(name).isdisjoint(("cycle", "infinite")) for name in identifiers(expr)):
        return True
    calls = (part for part in s.walk_expr(expr) if isinstance(part, s.Call))
    return any(not naming.words(called(call)).isdisjoint(("count", "iter")) for call in calls)


def _tries_again(stmt: s.While) -> bool:
    """`while True:` with a `return` at its end: it is left after the first turn, unless something failed in it."""
    return _is_endless(stmt) and bool(stmt.body) and isinstance(stmt.body[-1], s.Return)


def _is_endless(stmt: s.While) -> bool:
    return isinstance(stmt.test, s.Const) and bool(stmt.test.value)
