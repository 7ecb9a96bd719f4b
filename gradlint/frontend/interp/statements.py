"""Runs statements: loops a few turns, branches, contexts, returns."""

from __future__ import annotations

from gradlint.events import Clip, ClipApi, Mark, Sync
from gradlint.frontend import syntax as s
from gradlint.frontend import values as v
from gradlint.frontend.interp.calls import Calls, Raised, Returned, Unwound
from gradlint.frontend.interp.run import OUTER_TURNS, TURNS, WINDOW, Guard, LoopState
from gradlint.frontend.knowledge import naming


class _Break(Unwound):
    pass


class _Continue(Unwound):
    pass


class Interpreter(Calls):
    """The top layer."""

    def run_body(self, body: list[s.Stmt]) -> None:
        for stmt in body:
            self._statement(stmt)

    def run_program(self) -> None:
        try:
            self.run_body(self.program.core)
        except Unwound:
            pass

    def _statement(self, stmt: s.Stmt) -> None:
        self.run.spend()
        match stmt:
            case s.ExprStmt():
                value = self.ev(stmt.value)
                if isinstance(value, v.Known) and value.key == "exit":
                    raise Raised
            case s.Assign():
                self._assignment(stmt)
            case s.AugAssign():
                self._aug_assign(stmt)
            case s.If():
                self._if(stmt)
            case s.For():
                self._for(stmt)
            case s.While():
                self._while(stmt)
            case s.With():
                self._with(stmt)
            case s.Try():
                self._try(stmt)
            case s.Return():
                raise Returned(self.ev(stmt.value) if stmt.value is not None else v.Known("None", None))
            case s.Jump():
                self._jump(stmt)
            case s.Def():
                self.env.bind(stmt.name, v.Function(stmt.name, stmt, self.env))
            case s.Class():
                self.env.bind(stmt.name, v.ClassValue(stmt.name, stmt, self.env))
            case s.Import():
                for local, dotted in stmt.bindings.items():
                    self.env.bind(local, v.Dotted(dotted))
            case s.Scope():
                self.env.shared.update(stmt.names)
            case s.Delete():
                pass

    def _jump(self, stmt: s.Jump) -> None:
        raise {"break": _Break, "continue": _Continue, "raise": Raised}[stmt.kind]

    def _assignment(self, stmt: s.Assign) -> None:
        value = self.ev(stmt.value)
        for target in stmt.targets:
            if isinstance(value, v.Unknown) and value.key and not value.called and isinstance(target, s.Name | s.Attr):
                # `opt = self.optimizer`: an alias keeps the first name, by which it will be recognised
                pass
            self.assign(target, value)

    def _aug_assign(self, stmt: s.AugAssign) -> None:
        current, value = self.ev(stmt.target), self.ev(stmt.value)
        if isinstance(current, v.Grad):
            self.aug_assign_grad(current, stmt.op, value, stmt.target)
            return
        text = f"{s.render(stmt.target)} {stmt.op} {s.render(stmt.value)}"
        result: v.Value
        if isinstance(current, v.Unknown) and isinstance(value, v.Known) and isinstance(value.value, int):
            # a counter with an unknown start
            down = stmt.op == "-"
            result = v.Known(
                s.render(stmt.target), WINDOW - value.value if down else value.value, exact=False, counter=True,
                window=current.key if down else "",
            )  # fmt: skip
        else:
            result = self._binary(stmt.op, current, value, text)
            if isinstance(result, v.Known) and stmt.op in "+-":
                result = v.Known(s.render(stmt.target), result.value, result.exact, True, result.window)
        self.assign(stmt.target, result)

    # -- branches

    def _if(self, stmt: s.If) -> None:
        if _is_main_check(stmt.test):
            self.run_body(stmt.body)
            return
        if _is_type_checking(stmt.test):
            return
        test = self.ev(stmt.test)
        taken = self.decide(test, node=stmt)
        window, by_order = self.window_of(test), self.take_window()
        unsure = self._unsure_sync(stmt, test)
        guard = None
        if window is not None or by_order:
            guard = Guard(
                window.window if window else by_order, window.exact if window else False,
                window.modulo if window else False, s.render(stmt.test),
            )  # fmt: skip
        if guard is not None and not taken and "continue" in self.program.words(stmt.body).jumps:
            self.run.guards.append(guard)  # `if not full: continue`: what follows belongs to the boundary
        picks = self._picks_parameters(stmt.test)
        self.run.partial += picks
        try:
            self._run_guarded(stmt.body if taken else stmt.orelse, guard if taken else None, unsure)
        finally:
            self.run.partial -= picks

    def _picks_parameters(self, test: s.Expr) -> bool:
        """`if "head" in name:` in a loop over named parameters; whether they have a gradient is no choice."""
        if not self.run.over_parameters:
            return False
        for part in s.walk_expr(test):
            if isinstance(part, s.Call) and "grad" in s.render(part):
                return True  # `if not isfinite(p.grad).all()`: those few
            if isinstance(part, s.Name):
                value = self.env.find(part.id)
                if isinstance(value, v.Unknown) and value.key.endswith(" name"):
                    return True
        return False

    def _run_guarded(self, body: list[s.Stmt], guard: Guard | None, unsure: bool) -> None:
        if guard is not None:
            self.run.guards.append(guard)
        self.run.unsure_sync += unsure
        try:
            self.run_body(body)
        finally:
            self.run.unsure_sync -= unsure
            if guard is not None and guard in self.run.guards:
                self.run.guards.remove(guard)

    def _unsure_sync(self, stmt: s.If, test: v.Value) -> bool:
        mentioned = "no_sync" in self.program.words(stmt.body).seen or "no_sync" in self.program.words(stmt.orelse).seen
        return mentioned and not self.certain(test)

    # -- loops

    def _for(self, stmt: s.For) -> None:
        iterable = self.ev(stmt.iterable)
        values = self._turns(stmt, iterable)
        if isinstance(iterable, v.ParamsValue):
            if iterable.generator and iterable.used_by is not None:
                self._exhausted(stmt, iterable)
                return
            self.use_up(iterable, stmt.iterable)
        loop = LoopState(
            stmt.node, 0, len(values), self._micro_window(stmt, iterable), self._is_loader(stmt, iterable),
            self._is_data(iterable),
        )  # fmt: skip
        over = isinstance(iterable, v.ParamsValue)
        self.run.over_parameters += over
        self._loop(loop, stmt, values)
        self.run.over_parameters -= over

    def _exhausted(self, stmt: s.For, iterable: v.ParamsValue) -> None:
        """A loop over a used-up generator does nothing; if it was to change gradients, that is a clip of nothing."""
        if any(isinstance(x, s.AugAssign) and ".grad" in s.render(x.target) for x in s.walk_stmts(stmt.body)):
            self.run.emit(
                Clip, stmt.iterable, s.render(stmt.iterable), params=iterable.params, api=ClipApi.CUSTOM,
                exhausted_by=iterable.used_by, target=iterable.key,
            )  # fmt: skip

    def _loop(self, loop: LoopState, stmt: s.For | s.While, values: list[v.Value]) -> None:
        self.run.loops.append(loop)
        guards, self.run.guards = self.run.guards, []
        try:
            for turn, value in enumerate(values):
                loop.turn = turn
                self.run.guards = []
                self.run.emit(Mark, stmt, "", loop=loop.id, loader=loop.loader)
                if isinstance(stmt, s.For):
                    self.assign(stmt.target, value)
                try:
                    self.run_body(stmt.body)
                except _Continue:
                    continue
                except _Break:
                    break
        finally:
            self.run.guards = guards
            self.run.loops.pop()
        self.run.emit(Mark, stmt, "", loop=loop.id, over=True, loader=loop.loader)
        self.run_body(stmt.orelse)

    def _turns(self, stmt: s.For, iterable: v.Value) -> list[v.Value]:
        text = s.render(stmt.iterable)
        match iterable:
            case v.Collection() if iterable.open and iterable.items:
                return [iterable.items[0]] * self._usual_turns(stmt)
            case v.Collection() if iterable.items or iterable.entries:
                return self.elements(iterable, text)[:4]
            case v.ParamsValue() | v.Grad():
                return self.elements(iterable, text)
            case v.Counted() if (
                iterable.enumerate and isinstance(iterable.inner, v.Collection) and iterable.inner.items
            ):
                return self.elements(iterable, text)[:4]
            case v.Counted() if self._counts_training_objects(iterable):
                return [self._counted(iterable, 0)]
            case v.Counted():
                usual = WINDOW if self._micro_window(stmt, iterable) else self._usual_turns(stmt)
                count = iterable.turns if iterable.turns is not None else usual
                return [self._counted(iterable, n) for n in range(count)]
            case _:
                one = self.elements(iterable, text)[0]
                if self._over_training_objects(iterable):
                    return [one]
                return [one] * self._usual_turns(stmt)

    def _counted(self, iterable: v.Counted, turn: int) -> v.Value:
        number = v.Known(iterable.key, iterable.start + turn * iterable.step, exact=iterable.exact, counter=True)
        if not iterable.enumerate:
            if isinstance(iterable.inner, v.Collection):
                columns = iterable.inner.items
                row = [
                    self._counted(c, turn) if isinstance(c, v.Counted) else self.elements(c, c.key)[0] for c in columns
                ]
                return v.Collection("", row)
            return number if iterable.inner is None else v.Unknown(f"{iterable.key}[*]")
        inner = iterable.inner
        if isinstance(inner, v.Counted):
            return v.Collection("", [number, self._counted(inner, turn)])
        return v.Collection("", [number, v.Unknown(f"{inner.key if inner else ''}[*]")])

    def _usual_turns(self, stmt: s.For | s.While) -> int:
        """Enough for two windows and a rest where gradients are made or used; two epochs; once for the rest."""
        words = self.program.words(stmt.body)
        if not words.events:
            return 1
        inner = self.program.innermost.get(stmt.node)
        if inner is None:
            inner = self.program.innermost[stmt.node] = self._makes_gradients_itself(stmt)
        return TURNS if inner and len(self.run.loops) < 3 else OUTER_TURNS

    def _makes_gradients_itself(self, stmt: s.For | s.While) -> bool:
        """Events stand right in this loop, not only in a loop inside it."""
        own = self.program._own_words([x for x in stmt.body if not _holds_loop(x)])
        for name in list(own.called):
            inner = self.program.function_words(name)
            if inner is not None and not self._function_loops(name):
                own.add(inner)
        return (own.steps and not _only_schedules(stmt)) or own.backward or not _holds_any_loop(stmt.body)

    def _function_loops(self, name: str) -> bool:
        return any(_holds_any_loop(d.body) for d in self.program.functions.get(name, []))

    def _over_training_objects(self, iterable: v.Value) -> bool:
        """`for opt in self.optimizers`: one stands for all."""
        last = naming.last(iterable.key.replace(".values()", "").replace(".items()", ""))
        return bool(naming.OPTIMIZER.search(last) or naming.SCHEDULER.search(last)) or last in (
            "models", "networks", "nets", "modules", "params", "parameters", "param_groups", "callbacks", "hooks"
        )  # fmt: skip

    def _counts_training_objects(self, iterable: v.Counted) -> bool:
        """`enumerate(optimizers)`, `zip(optimizers, schedulers)`."""
        inner = iterable.inner
        columns = inner.items if isinstance(inner, v.Collection) else [inner]
        return any(isinstance(c, v.Unknown) and self._over_training_objects(c) for c in columns)

    def _micro_window(self, stmt: s.For, iterable: v.Value) -> str:
        text = s.render(stmt.iterable)
        if (
            isinstance(iterable, v.Counted)
            and iterable.window
            and naming.MICRO.search(f"{iterable.window} {s.render(stmt.target)}")
        ):
            return iterable.window
        words = self.program.words(stmt.body)
        if isinstance(iterable, v.Counted) and iterable.window and "next" in words.called and not words.steps:
            return iterable.window  # `for _ in range(k): batch = next(data); …backward()`, with the step behind it
        return text if naming.MICRO.search(f"{text} {s.render(stmt.target)}") else ""

    @staticmethod
    def _is_data(iterable: v.Value) -> bool:
        return iterable.enumerate if isinstance(iterable, v.Counted) else isinstance(iterable, v.Unknown | v.Tensor)

    def _is_loader(self, stmt: s.For, iterable: v.Value) -> bool:
        """A finite one: a loop that has to be broken off at a number of steps goes over an endless stream."""
        expr = stmt.iterable
        if "break" in self.program.own_words(stmt.body).jumps or any(_skips_rest(x) for x in stmt.body):
            return False
        if isinstance(iterable, v.Counted):
            return iterable.enumerate and iterable.loader and not _endless(s.render(expr))
        return isinstance(iterable, v.Unknown | v.Tensor) and not _endless(s.render(expr))

    def _while(self, stmt: s.While) -> None:
        loop = LoopState(stmt.node, 0, self._usual_turns(stmt))
        test = self.ev(stmt.test)
        if isinstance(test, v.Known) and not test.value:
            return
        self.run.loops.append(loop)
        guards, self.run.guards = self.run.guards, []
        try:
            for turn in range(loop.turns):
                loop.turn = turn
                test = self.ev(stmt.test)
                if isinstance(test, v.Known) and not test.value:
                    break
                self.run.emit(Mark, stmt, "", loop=loop.id)
                try:
                    self.run_body(stmt.body)
                except _Continue:
                    continue
                except _Break:
                    break
        finally:
            self.run.guards = guards
            self.run.loops.pop()
        self.run.emit(Mark, stmt, "", loop=loop.id, over=True)

    # -- contexts and exceptions

    def _with(self, stmt: s.With) -> None:
        depth = len(self.run.contexts)
        quiet = 0
        leaving: list[tuple[list[s.Stmt], v.Env]] = []
        for item, target in stmt.items:
            value = self.ev(item)
            if id(value) in self.run.exits:
                leaving.append(self.run.exits.pop(id(value)))
            for context in self._entered(value):
                self.run.contexts.append(context)
                quiet += context.kind == "no_grad"
                if context.kind == "accumulate" and isinstance(context.value, v.Framework):
                    self.enter_accumulate(context.value)
            if target is not None:
                inner = value.value if isinstance(value, v.Context) and value.value is not None else value
                self.assign(target, inner)
        self.run.no_grad += quiet
        try:
            self.run_body(stmt.body)
        finally:
            self.run.no_grad -= quiet
            del self.run.contexts[depth:]
        for body, env in reversed(leaving):
            outer, self.env = self.env, env
            self.run_body(body)
            self.env = outer

    def _entered(self, value: v.Value) -> list[v.Context]:
        match value:
            case v.Context() if value.kind == "many" and isinstance(value.value, v.Collection):
                return [x for x in value.value.items if isinstance(x, v.Context)]
            case v.Context():
                return [value]
            case v.Unknown() if "no_sync" in value.key or "sync" in naming.last(value.key):
                # a context from elsewhere that has to do with syncing: it is taken care of
                return [v.Context(value.key, "no_sync", None, None, Sync.MANAGED)]
            case _:
                return []

    def _try(self, stmt: s.Try) -> None:
        try:
            self.run_body(stmt.body)
            self.run_body(stmt.orelse)
        except Raised:
            # `raise` under a handler: go on behind it
            if not stmt.handlers:
                raise
            self.run_body(stmt.handlers[0][1])
        finally:
            self.run_body(stmt.final)


def _is_main_check(test: s.Expr) -> bool:
    return isinstance(test, s.Compare) and s.render(test.left) == "__name__"


def _is_type_checking(test: s.Expr) -> bool:
    return s.render(test).rpartition(".")[2] == "TYPE_CHECKING"


def _holds_loop(stmt: s.Stmt) -> bool:
    return isinstance(stmt, s.For | s.While) or _holds_any_loop([x for b in s.blocks(stmt) for x in b])


def _holds_any_loop(body: list[s.Stmt]) -> bool:
    return any(isinstance(x, s.For | s.While) for x in s.walk_stmts(body))


def _only_schedules(stmt: s.For | s.While) -> bool:
    """The only `.step()` right in the loop is a scheduler's: this is the loop over epochs."""
    for inner in stmt.body:
        if _holds_loop(inner):
            continue
        for x in s.walk_stmts([inner]):
            for expr in s.expressions(x):
                for part in s.walk_expr(expr):
                    if isinstance(part, s.Call) and isinstance(part.func, s.Attr) and part.func.name == "step":
                        if not naming.SCHEDULER.search(naming.last(s.render(part.func.base))):
                            return False
    return _holds_any_loop(stmt.body)


def _skips_rest(stmt: s.Stmt) -> bool:
    """`if step >= steps_per_epoch: continue`: what is behind the last whole window is left out."""
    if not isinstance(stmt, s.If) or not isinstance(stmt.test, s.Compare) or stmt.test.op not in (">", ">="):
        return False
    return len(stmt.body) == 1 and isinstance(stmt.body[0], s.Jump) and stmt.body[0].kind == "continue"


def _endless(text: str) -> bool:
    return any(word in text for word in ("cycle", "count(", "infinite", "iter("))
