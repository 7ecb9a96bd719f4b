"""Runs statements: assignments, branches, contexts, exceptions, returns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradlint.events import WINDOW, Backward, Role, Step, Sync, Unscale, Update
from gradlint.knowledge import naming
from gradlint.knowledge.rows import Switch
from gradlint.paths import roles, tensors
from gradlint.paths import values as v
from gradlint.paths.api import Api
from gradlint.paths.calls import Calls, Raised, Returned, Unwound
from gradlint.paths.conditions import Closing, Conditions
from gradlint.paths.domain import Training
from gradlint.paths.frameworks import Frameworks
from gradlint.paths.gradients import Gradients
from gradlint.paths.guesses import Guesses
from gradlint.paths.loops import Break, Continue, Loops
from gradlint.paths.methods import Methods
from gradlint.paths.names import Names
from gradlint.paths.run import MAX_DEPTH, Guard, Run
from gradlint.paths.tensors import IN_PLACE
from gradlint.python import syntax as s
from gradlint.python.binding import identifiers, last
from gradlint.python.evaluate import Evaluator
from gradlint.python.usage import Use

if TYPE_CHECKING:
    from gradlint.python.frame import Frame
    from gradlint.python.module import Module

#: `if optimizer_state["stage"] is not OptState.UNSCALED:`, `if not self.unscaled:`
_UNSCALED = re.compile(r"(?i)unscaled")


#: words in the names of contexts that have to do with syncing
_SYNC = frozenset({"sync", "nosync", "synchronize", "synchronized", "synchronization"})
#: contexts of tests whose body has to fail
_FAILS = frozenset({"assertRaises", "assertRaisesRegex", "pytest.raises"})
#: what is asked of a loss or a norm before its gradients are used
_WENT_WRONG = re.compile(r"(?i)is_?nan|is_?inf|finite|overflow|found_inf|anomal|explod|spike|skip|invalid|corrupt")
#: what is compared with a limit, and the operators
_MEASURED = re.compile(r"(?i)norm|loss")
_LIMITS = frozenset({"<", "<=", ">", ">="})
#: what follows is for other turns
_ENDS_TURN = frozenset({s.Leave.CONTINUE, s.Leave.RETURN})


class Interpreter:
    """Runs statements; all else is done by its parts, each of which knows it as `it`."""

    def __init__(self, run: Run, budget: int) -> None:
        self.run = run
        self.conditions = Conditions(self)
        self.names = Names(self)
        self.gradients = Gradients(self)
        self.frameworks = Frameworks(self)
        self.api = Api(self)
        self.guesses = Guesses(self)
        self.methods = Methods(self)
        self.calls = Calls(self)
        self.loops = Loops(self)
        self.domain = Training(self)
        self.core = self.run.core = Evaluator(run.program, self.domain, self.calls, budget=budget, depth=MAX_DEPTH)
        #: the value of an expression
        self.ev = self.core.ev

    @property
    def program(self) -> Module:
        """The file whose code is running."""
        return self.core.frame.scope.program

    def let_go(self) -> None:
        """Nothing is run any more: its parts, which know it, are gone at once."""
        self.core.let_go()
        vars(self).clear()

    def run_body(self, body: list[s.Stmt]) -> None:
        for stmt in body:
            self._statement(stmt)

    def run_program(self) -> None:
        try:
            self.run_body(self.program.core)
        except Unwound:
            pass

    def _statement(self, stmt: s.Stmt) -> None:
        self.core.spend()
        handler = _RUN.get(type(stmt))
        if handler is not None:
            handler(self, stmt)

    def _expression(self, stmt: s.ExprStmt) -> None:
        value = self.ev(stmt.value)
        if isinstance(value, v.Never):
            raise Raised
        call = stmt.value
        if isinstance(value, v.Tensor) and isinstance(call, s.Call) and isinstance(call.func, s.Attr):
            if call.func.name in IN_PLACE and isinstance(call.func.base, s.Name | s.Attr):
                self.core.assign(call.func.base, value)  # `loss.div_(n)`

    def _return(self, stmt: s.Return) -> None:
        raise Returned(self.ev(stmt.value) if stmt.value is not None else v.Known(None, "None"))

    def _for(self, stmt: s.For) -> None:
        self.loops.run_for(stmt)

    def _while(self, stmt: s.While) -> None:
        self.loops.run_while(stmt)

    def _declaration(self, stmt: s.Def | s.Class | s.Import | s.Scope) -> None:
        self.core.declare(stmt)

    def _jump(self, stmt: s.Jump) -> None:
        raise _LEAVE[stmt.kind]

    def _assignment(self, stmt: s.Assign) -> None:
        value = self.ev(stmt.value)
        for target in stmt.targets:
            self.core.assign(target, value, stmt.value)

    def _aug_assign(self, stmt: s.AugAssign) -> None:
        current, value = self.ev(stmt.target), self.ev(stmt.value)
        if isinstance(current, v.Grad) and not current.copy:
            self.gradients.aug_assign_grad(current, stmt, value)
            return
        if tensors.gradients_in(value) is not None:
            self.gradients.put_aside(value, stmt.target)
            self.core.assign(stmt.target, v.Unknown(s.render(stmt.target), called="sum"))
            return
        text = f"{s.render(stmt.target)} {stmt.op} {s.render(stmt.value)}"
        result: v.Value
        if isinstance(current, v.Unknown) and isinstance(value, v.Constant) and isinstance(value.value, int):
            # a counter with an unknown start
            down = stmt.op == "-"
            result = v.Known(
                WINDOW - value.value if down else value.value, s.render(stmt.target), exact=False, counter=True,
                window=current.key if down else "",
            )  # fmt: skip
        else:
            result = self.domain.binary(stmt.op, current, value, text)
            if isinstance(result, v.Known) and stmt.op in "+-":
                window = result.window or self._counted_down(stmt, current)
                result = v.Known(result.value, s.render(stmt.target), result.exact, True, window)
        self.core.assign(stmt.target, result)

    def _counted_down(self, stmt: s.AugAssign, current: v.Value) -> str:
        """`left -= 1` of a counter that starts with N: the window that is full when nothing is left."""
        if stmt.op != "-" or not isinstance(current, v.Known):
            return ""
        if current.counter:
            return current.window
        return self.conditions.sized(current) if self.run.does(Use.MODULUS, current) else ""

    # -- branches

    def _if(self, stmt: s.If) -> None:
        if _is_main_check(stmt.test):
            self.run_body(stmt.body)
            return
        if _is_type_checking(stmt.test):
            return
        if "unscale_" in self.program.words(stmt.body).called:
            if any(map(_UNSCALED.search, self.program.said(stmt.test).names)):
                self.run_body(stmt.orelse if self._is_unscaled() else stmt.body)
                return
        test = self.ev(stmt.test)
        closing = Closing()
        taken = self._where_it_clears(stmt, test)
        if taken is None:
            taken = self.conditions.decide(test, node=stmt, closing=closing)
        unsure = self._unsure_sync(stmt, test)
        guard = self._guard(stmt, test, closing)
        if guard is not None and not taken and self.program.words(stmt.body).jumps & _ENDS_TURN:
            self.run.guards.append(guard)  # `if not full: continue`: what follows belongs to the boundary
        picks = self._picks_parameters(stmt.test)
        body = stmt.body if taken else stmt.orelse
        aborts = self._aborts(stmt.test, body)
        self.run.partial += picks
        self.run.aborting += aborts
        try:
            self._run_guarded(body, guard if guard is not None and (taken or not guard.window) else None, unsure)
        finally:
            self.run.partial -= picks
            self.run.aborting -= aborts

    def _guard(self, stmt: s.If, test: v.Value, closing: Closing) -> Guard | None:
        """What this condition says of a window; without one, if it asks of every turn what was not understood."""
        window = self.conditions.window_of(test)
        text, site = s.render(stmt.test), self.run.site(stmt, "")
        if window is not None:
            return Guard(window.window, window.exact, window.modulo, text, site)
        if closing.window:
            named = roles.suspect(self.run.programs, Role.WINDOW, closing.window, "closes a window")
            return Guard(closing.window, False, False, text, site, named if closing.by_name else None)
        asks = self.conditions.varies(test) and not self._went_wrong(stmt.test)
        return Guard("", False, False, text, site) if asks else None

    def _where_it_clears(self, stmt: s.If, test: v.Value) -> bool | None:
        """`if starts_window(i): optimizer.zero_grad()`: whoever asks that is trusted to clear in time."""
        if not self.conditions.varies(test):
            return None
        then, other = (self.program.words(block) for block in (stmt.body, stmt.orelse))
        if any(words.steps or words.backward or words.jumps for words in (then, other)):
            return None
        clears, other_clears = (
            "zero_grad" in words.called or any(map(_lets_go, s.walk_stmts(block)))
            for words, block in ((then, stmt.body), (other, stmt.orelse))
        )  # fmt: skip
        return None if clears == other_clears or self._went_wrong(stmt.test) else clears

    def _aborts(self, test: s.Expr, body: list[s.Stmt]) -> bool:
        """`if not isfinite(norm): optimizer.zero_grad()`: what is done with a batch that went wrong."""
        words = self.program.words(body)
        if "zero_grad" not in words.called or words.backward or (words.steps and not self._clears_first(body)):
            return False
        return self._went_wrong(test)

    def _went_wrong(self, test: s.Expr) -> bool:
        """Asks whether a batch is any good."""
        if any(map(_WENT_WRONG.search, self.program.said(test).seen)):
            return True
        limits = (part for part in s.walk_expr(test) if isinstance(part, s.Compare) and part.op in _LIMITS)
        return any(_MEASURED.search(_compared(side)) for part in limits for side in (part.left, part.right))

    def _clears_first(self, body: list[s.Stmt]) -> bool:
        """A step right behind the clearing changes no weight, and is meant to: a scheduler or a scaler waits for it."""
        for stmt in s.walk_stmts(body):
            words = self.program.words([stmt]) if isinstance(stmt, s.ExprStmt) else None
            if words is not None and ("zero_grad" in words.called or words.steps):
                return "zero_grad" in words.called
        return False

    def _is_unscaled(self) -> bool:
        """Whoever asks the scaler, or a flag, whether the gradients are unscaled gets the right answer."""
        for event in reversed(self.run.events):
            if isinstance(event, Unscale | Step | Update | Backward):
                return isinstance(event, Unscale)
        return False

    def _picks_parameters(self, test: s.Expr) -> bool:
        """`if "head" in name:` in a loop over named parameters; whether they have a gradient is no choice."""
        if not self.run.over_parameters:
            return False
        for part in s.walk_expr(test):
            if isinstance(part, s.Call) and any(map(naming.speaks_of_gradients, identifiers(part))):
                return True  # `if not isfinite(p.grad).all()`: those few
            if isinstance(part, s.Name):
                value = self.core.frame.find(part.id)
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
        if "no_sync" not in self.program.all_words.seen:
            return False
        mentioned = "no_sync" in self.program.words(stmt.body).seen or "no_sync" in self.program.words(stmt.orelse).seen
        return mentioned and not self.conditions.certain(test)

    # -- contexts and exceptions

    def _with(self, stmt: s.With) -> None:
        if any(isinstance(item, s.Call) and self._fails(item.func) for item, _ in stmt.items):
            return  # what happens there is wrong on purpose
        depth, no_grad = len(self.run.contexts), self.core.frame.no_grad
        leaving: list[tuple[list[s.Stmt], Frame]] = []
        for item, target in stmt.items:
            value = self.ev(item)
            if isinstance(value, v.Context) and value.leaving is not None:
                leaving.append(value.leaving)
            for context in self._entered(value):
                self.run.open(context)
                if context.kind is Switch.WINDOW and isinstance(context.value, v.Managing):
                    self.frameworks.enter_window(context.value)
            if target is not None:
                inner = value.value if isinstance(value, v.Context) and value.value is not None else value
                self.core.assign(target, inner)
        try:
            self.run_body(stmt.body)
        finally:
            del self.run.contexts[depth:]
            self.core.frame.no_grad = no_grad
        for body, frame in reversed(leaving):
            outer, self.core.frame = self.core.frame, frame
            self.run_body(body)
            self.core.frame = outer

    def _fails(self, func: s.Expr) -> bool:
        return (func.name if isinstance(func, s.Attr) else "") in _FAILS or self.program.dotted(func) in _FAILS

    def _entered(self, value: v.Value) -> list[v.Context]:
        match value:
            case v.Context(value=v.Collection() as several):
                return [x for x in several.items if isinstance(x, v.Context)]
            case v.Context():
                return [value]
            case v.Unknown() if not _SYNC.isdisjoint(naming.words(naming.last(value.called or value.key))):
                # a context from elsewhere that has to do with syncing: it is taken care of
                return [v.Context(value.key, Switch.NO_SYNC, None, None, Sync.MANAGED)]
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


def _lets_go(stmt: s.Stmt) -> bool:
    """`p.grad = None`"""
    match stmt:
        case s.Assign(value=s.Const(value=None)):
            return any(isinstance(target, s.Attr) and target.name == "grad" for target in stmt.targets)
        case _:
            return False


_LEAVE: dict[s.Leave, type[Unwound]] = {
    s.Leave.BREAK: Break,
    s.Leave.CONTINUE: Continue,
    s.Leave.RAISE: Raised,
}
# by type, not by match: this runs for every statement of every turn
_RUN: dict[type[s.Node], Callable[[Interpreter, Any], None]] = {
    s.ExprStmt: Interpreter._expression,
    s.Assign: Interpreter._assignment,
    s.AugAssign: Interpreter._aug_assign,
    s.If: Interpreter._if,
    s.For: Interpreter._for,
    s.While: Interpreter._while,
    s.With: Interpreter._with,
    s.Try: Interpreter._try,
    s.Return: Interpreter._return,
    s.Jump: Interpreter._jump,
    s.Def: Interpreter._declaration,
    s.Class: Interpreter._declaration,
    s.Import: Interpreter._declaration,
    s.Scope: Interpreter._declaration,
}


def _compared(side: s.Expr) -> str:
    """The name of a number: `loss` of `self.loss` and of `loss.item()`."""
    while isinstance(side, s.Call) and isinstance(side.func, s.Attr):
        side = side.func.base
    return last(side)


def _is_main_check(test: s.Expr) -> bool:
    return isinstance(test, s.Compare) and s.render(test.left) == "__name__"


def _is_type_checking(test: s.Expr) -> bool:
    return s.render(test).rpartition(".")[2] == "TYPE_CHECKING"
