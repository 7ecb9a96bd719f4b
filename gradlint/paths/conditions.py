"""Decides conditions: computes what can be computed, ties flags that go together, asks the oracle for the rest."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradlint.events import WINDOW
from gradlint.knowledge import naming
from gradlint.knowledge.words import EVENT_METHODS
from gradlint.paths import values as v
from gradlint.paths.branches import Branches, Weight
from gradlint.paths.oracle import AMP, NOW
from gradlint.python import constants
from gradlint.python import syntax as s
from gradlint.python.constants import as_float
from gradlint.python.scope import Scope
from gradlint.python.usage import Use
from gradlint.records import dataclass

if TYPE_CHECKING:
    from gradlint.paths.interpreter import Interpreter

_EQUALITIES = ("is", "is not", "==", "!=", "in", "not in")
_ORDERS = ("==", "!=", "<", "<=", ">", ">=")

_NAMES = re.compile(r"[^\W\d]\w*")

#: the statement or expression that asks
Branch = s.If | s.IfExp | s.While | None


@dataclass(slots=True)
class Closing:
    """The window that the answer to a condition says is full: the text of its N, "" if it says nothing of the kind."""

    window: str = ""
    #: nothing but the name of a flag says so
    by_name: bool = False


@dataclass(frozen=True, slots=True)
class _Question:
    """Who asks, whether both answers are to be followed, and which one is usual."""

    node: Branch
    fork: bool
    usual: bool
    #: the first event to which the answer can matter
    since: int
    closing: Closing

    def inverted(self) -> _Question:
        return _Question(self.node, self.fork, not self.usual, self.since, self.closing)


class Conditions:
    """Numbers and truth."""

    def __init__(self, it: Interpreter) -> None:
        self.it = it
        self.run = it.run

    # -- numbers

    def number(self, value: v.Value) -> v.Constant | None:
        """The number this value is on this path; names that are used as a modulus have the size of a window."""
        match value:
            case v.Constant():
                return value if type(value.value) in (int, float) else None
            case v.Unknown() | v.External():
                if self.run.does(Use.MODULUS, value):
                    return v.Known(self.window_size(_last_name(value.key)), value.key, exact=True, made_up=True)
                return None
            case _:
                return None

    def window_size(self, name: str) -> int:
        """N of an unknown window; the unusual path has N = 1."""
        return 1 if self.run.oracle.forced.get(f"{name} > 1") is False else WINDOW

    def settle(self, key: str, value: v.Value, scope: Scope) -> v.Value:
        """A constant that is bound to the name of a modulus is made small, so that loops stay short."""
        if not isinstance(value, v.Constant) or isinstance(value.value, bool) or not isinstance(value.value, int):
            return value
        now = v.known(value)
        if not now.counter and not now.window and self.run.does_with(Use.MODULUS, key, scope):
            if value.value > 0:
                name = _last_name(key)
                return v.Known(
                    self.window_size(name), name, exact=now.exact, made_up=True, real=v.number_of(value)
                )  # fmt: skip
        return value

    def arithmetic(self, op: str, left: v.Value, right: v.Value, text: str) -> v.Known | None:
        a, b = self.number(left), self.number(right)
        if op != "%" and (a is None or b is None):
            return None
        if op == "%" and a is None and isinstance(left, v.Unknown) and self.run.loops and _counts(left):
            turn = self.run.loops[-1].number()
            a = v.Known(turn if left.counted is None else left.counted, left.key, exact=False, counter=True)
        if op == "%" and b is None and a is not None and isinstance(right, v.Unknown | v.External | v.Symbol):
            b = v.Known(WINDOW, right.key, made_up=True)
        if a is None or b is None:
            return None
        a, b = v.known(a), v.known(b)
        if op == "%" and isinstance(b.value, int) and b.value > 4 and not b.counter:
            b = v.Known(WINDOW, b.key, made_up=True, real=v.number_of(b))
        result = constants.binary(op, a.value, b.value)
        if not isinstance(result, int | float) or (isinstance(result, int) and abs(result) > 10**12):
            return None
        window = right.key or text if op == "%" else (a.window or b.window)
        return v.Known(
            result, text, exact=a.exact and b.exact, counter=a.counter or b.counter, window=window,
            modulo=op == "%" or a.modulo or b.modulo, made_up=a.made_up or b.made_up, real=v.real(op, a, b),
        )  # fmt: skip

    def counted(self, op: str, left: v.Value, right: v.Value) -> int | None:
        """What a counter that lives elsewhere, and a number more or less, would be in this turn of the loop."""
        if op == "+" and isinstance(left, v.Constant):
            left, right = right, left
        more = v.whole_number(right)
        if op not in ("+", "-") or more is None or not isinstance(left, v.Unknown):
            return None
        if isinstance(right, v.Known) and right.counter:
            return None
        if left.counted is None and not (self.run.loops and _counts(left)):
            return None
        start = self.run.loops[-1].turn if left.counted is None else left.counted
        return start + more if op == "+" else start - more

    # -- truth

    def compare(self, op: str, left: v.Value, right: v.Value, text: str) -> v.Value:
        """Known if both sides are, else a symbol to be decided where it is used."""
        if op in ("is", "is not") and isinstance(right, v.Constant) and right.value is None:
            if isinstance(left, v.Constant):
                return v.Known((left.value is None) == (op == "is"), text)
            if not isinstance(left, v.Unknown | v.External | v.Symbol):
                return v.Known(op == "is not", text)
            return v.Symbol(text, op, [left, right])
        a = left if isinstance(left, v.Constant) else self._number_beside(left, right)
        b = right if isinstance(right, v.Constant) else self._number_beside(right, left)
        if a is None or b is None:
            return v.Symbol(text, op, [left, right])
        a, b = v.known(a), v.known(b)
        if v.far_apart(a, b):
            return v.Symbol(text, op, [left, right])
        if v.unlike(a, b):
            return v.Symbol(text, op, [v.Unknown(x.key, called="len") if v.is_length(x) else x for x in (a, b)])
        if {a.value, b.value} & {1} and "1" in (a.key, b.key) and not (a.counter or b.counter):
            size = a if b.key == "1" else b
            if self.run.does(Use.MODULUS, size):
                self.run.oracle.decide(f"{naming.last(size.key)} > 1", True)
        result = constants.compare(op, a.value, b.value)
        if not isinstance(result, bool):
            return v.Symbol(text, op, [left, right])
        return v.Known(
            result, text, exact=a.exact and b.exact, counter=a.counter or b.counter,
            window=a.window or b.window or self._counted_window(a, b), modulo=a.modulo or b.modulo,
        )  # fmt: skip

    def _counted_window(self, a: v.Known, b: v.Known) -> str:
        """`count >= accumulate`: a counter beside the size of a window."""
        for counter, size in ((a, b), (b, a)):
            if counter.counter and not size.counter and self.run.does(Use.MODULUS, size):
                return self.sized(size)
        return ""

    def sized(self, size: v.Value) -> str:
        """The text of this N; what number it is, is remembered."""
        number = v.whole_number(size)
        if number is None:
            self.run.sizes.pop(size.key, None)
        else:
            self.run.sizes[size.key] = number
        self.run.counted_in[size.key] = self.it.core.frame.program.path
        return size.key

    def _number_beside(self, value: v.Value, other: v.Value) -> v.Constant | None:
        number = self.number(value)
        # `step > args.save_every`: a modulus name is a number beside numbers only
        return number if number is not None and self.number(other) is not None else None

    def decide(self, value: v.Value, *, node: Branch = None, fork: bool = True, closing: Closing | None = None) -> bool:
        """True or False, always. `node` is the statement that asks: it says what is usual and what matters.

        `closing` is told if the answer means that a window is full.
        """
        if isinstance(value, v.Constant):
            return bool(value.value) and not (isinstance(node, s.If) and _is_handed_already(node))
        if isinstance(node, s.If) and self._asks_for_kind(node):
            return True
        weight = self._weight(node) if fork else Weight.NOTHING
        since = NOW if weight is Weight.EVENTS else len(self.run.events)
        usual = not self._leaves(node)
        return self._decide(value, _Question(node, weight is not Weight.NOTHING, usual, since, closing or Closing()))

    def _decide(self, value: v.Value, q: _Question) -> bool:
        match value:
            case v.Constant():
                return bool(value.value)
            case v.Symbol():
                return self._decide_symbol(value, q)
            case v.Unknown() | v.External():
                return self._decide_atom(value, q)
            case v.Collection(kind=v.Kind.DICT, items=[_, *_]):
                return self._decide_atom(value, q)  # nobody knows what else is in it
            case v.Collection():
                return bool(value.items or value.entries) or value.kind is v.Kind.TUPLE
            case v.Tensor():
                return self._decide_atom(value, q)
            case _:
                return True

    def certain(self, value: v.Value) -> bool:
        """Whether a condition is computed, or hangs on flags that do not change while the loop runs."""
        match value:
            case v.Known():
                return value.exact or bool(value.window)
            case v.Symbol():
                return all(self.certain(x) for x in value.operands)
            case v.Unknown():
                name = _last_name(value.key)
                return not (self.run.does(Use.VARYING, value) or naming.BOUNDARY.search(name) or value.called)
            case v.Tensor():
                return False
            case _:
                return True

    def varies(self, value: v.Value) -> bool:
        """Whether a condition that cannot be computed may have another answer in each turn of a loop."""
        match value:
            case v.Symbol():
                return any(self.varies(x) or (isinstance(x, v.Known) and x.counter) for x in value.operands)
            case v.Unknown():
                return bool(self.run.loops) and (bool(value.called) or self._changes(value))
            case v.Tensor():
                return bool(self.run.loops)
            case _:
                return False

    def _changes(self, value: v.Unknown) -> bool:
        """`due`, `self.due`, `plan[i].due`: some name of it is assigned in a loop, or by it, or is an item."""
        if "[*]" in value.key:
            return True
        scope = value.scope or self.it.core.frame.scope
        return any(self.run.does_with(Use.VARYING, name, scope) for name in _NAMES.findall(value.key))

    def window_of(self, value: v.Value) -> v.Known | None:
        """The part of a condition that says that a window is full."""
        if isinstance(value, v.Known) and value.window:
            return value
        if isinstance(value, v.Symbol):
            for operand in value.operands:
                found = self.window_of(operand)
                if found is not None:
                    return found
        return None

    def _decide_symbol(self, value: v.Symbol, q: _Question) -> bool:
        operands = value.operands
        if value.op == "not":
            return not self._decide(operands[0], q.inverted())
        if value.op == "and":
            # the known parts first, as a full window; what is usually false is so by its last (`not done and i < n`)
            *first, last = sorted(operands, key=v.knownness)
            return all(self._decide(x, q if q.usual else q.inverted()) for x in first) and self._decide(last, q)
        if value.op == "or":
            return any(self._decide(x, q) for x in sorted(operands, key=v.knownness))
        limit = _limit(value)
        if limit is not None:
            known = self.run.oracle.implied(operands[0].key, value.op, limit)
            if known is not None:
                return known
        decided = self._decide_equality if value.op in _EQUALITIES else self._decide_order
        answer = decided(value, q)
        if limit is not None and q.fork:  # else the other answer, which is not followed, is as good
            self.run.oracle.note(operands[0].key, value.op, limit, answer)
        return answer

    def _decide_equality(self, value: v.Symbol, q: _Question) -> bool:
        left, right = value.operands
        positive = value.op in ("is", "==", "in")
        if isinstance(right, v.Constant) and right.value is None:
            return self._decide_atom(left, q.inverted() if positive else q) != positive
        counted = self._reset_window(value, q)
        if counted is None:
            counted = self._last_turn(value)
        if counted is not None:
            return counted == positive
        inner = q if positive else q.inverted()
        if isinstance(right, v.Constant) and value.op in ("==", "!="):
            if isinstance(right.value, bool):
                truth = self._decide_atom(left, inner if right.value else inner.inverted())
                return (truth == right.value) == positive
            return (
                self.run.oracle.decide_equal(left.key, right.key, inner.usual, fork=q.fork, since=q.since) == positive
            )
        key = f"{left.key} {value.op.removeprefix('not ').replace('!=', '==').replace('is not', 'is')} {right.key}"
        return self._ask(key, inner) == positive

    def _decide_order(self, value: v.Symbol, q: _Question) -> bool:
        left, right = value.operands
        counter = next((x for x in (left, right) if isinstance(x, v.Known) and (x.counter or not x.exact)), None)
        if counter is not None and isinstance(q.node, s.If):
            body, orelse = self.it.program.words(q.node.body), self.it.program.words(q.node.orelse)
            if body.jumps - {s.Leave.CONTINUE} and not body.steps:
                return False  # a limit on the number of steps: loops here end by themselves
            unknown = right if counter is left else left
            boundary = (body.steps and not body.backward) or (orelse.steps and not orelse.backward)
            if boundary and not naming.TOTAL.search(_last_name(unknown.key)):
                a = left if counter is left else v.Known(WINDOW, left.key)
                b = right if counter is right else v.Known(WINDOW, right.key)
                assert isinstance(a, v.Constant)
                assert isinstance(b, v.Constant)
                q.closing.window = self.sized(unknown)
                return constants.compare(value.op, a.value, b.value) is True
            if boundary:
                return bool(self._last_turn(v.Symbol(value.key, "==", value.operands)))
        return self._ask(value.key, q)

    def _reset_window(self, value: v.Symbol, q: _Question) -> bool | None:
        """`if count == n: step(); count = 0`: the counter starts anew in the block that it guards."""
        left, right = value.operands
        if not isinstance(left, v.Known) or not left.counter or not isinstance(q.node, s.If):
            return None
        body = self.it.program.words(q.node.body)
        if body.steps and not body.backward and _last_name(left.key) in self.it.program.assigned(q.node.body):
            q.closing.window = self.sized(right)
            return left.value == WINDOW
        return None

    def _last_turn(self, value: v.Symbol) -> bool | None:
        """`i + 1 == num_batches` with an unknown number: true in the last turn of the loop."""
        left, right = value.operands
        for a, b in ((left, right), (right, left)):
            if isinstance(a, v.Known) and a.counter and isinstance(b, v.Unknown) and self.run.loops:
                loop = self.run.loops[-1]
                return loop.number() == loop.turns - 1
        return None

    def _decide_atom(self, value: v.Value, q: _Question) -> bool:
        """Whether a thing is true, or there at all."""
        key = value.key
        if naming.AMP.search(_last_name(key)) or self._is_amp_switch(key):
            return self.run.oracle.decide(AMP, True, fork=q.fork, since=q.since)
        constant = self.known_as(value) in self.run.flags  # a default that the call leaves as it is, or a setting
        if naming.BOUNDARY.search(_last_name(key)) and self.run.loops and not constant:
            # an unknown flag that closes a window: usually it does so at each turn, unusually at every few
            each, closes = f"{key} at each turn", self._is_boundary(q.node)
            if closes and not self.run.oracle.decide(each, True, fork=q.fork, since=q.since):
                q.closing.window, q.closing.by_name = key, True
            if self.run.oracle.forced.get(each) is False:  # and so for whoever asks: one who picks a context, say
                return self.run.loops[-1].number() % WINDOW == WINDOW - 1
        return self._ask(self.known_as(value) or "a tensor", q)

    def known_as(self, value: v.Value) -> str:
        """The text by which a thing is known again: its name; that of a function's own parameter or local beside
        another of the same name, which is another thing, with the name of the function."""
        scope = value.scope if isinstance(value, v.Unknown) and value.key.isidentifier() else None
        first = self.run.met.setdefault(value.key, scope) if scope is not None else None
        if scope is None or scope is first or scope.definition is None:
            return value.key
        return f"{value.key} of {scope.definition.name}"

    def _ask(self, key: str, q: _Question) -> bool:
        usual = self.run.flags.get(key, q.usual)
        if test := _FINITE.search(key):
            usual = test["test"] == "isfinite"  # numbers usually are
        return self.run.oracle.decide(key, usual, fork=q.fork, since=q.since)

    def _leaves(self, node: Branch) -> bool:
        """`if not ok: continue`: usually it does not come to that."""
        if not isinstance(node, s.If):
            return False
        then, other = self.it.program.words(node.body), self.it.program.words(node.orelse)
        if then.jumps and not other.jumps and not then.backward and not then.steps:
            return True
        if node.orelse and _none_of(node.body) & self.it.program.assigned(node.orelse):
            return True  # `if not train: optimizer = None`: then there is nothing to follow
        return bool(then.jumps and not other.jumps and not (then.backward and then.steps) and other.backward)

    def _weight(self, node: Branch) -> Weight:
        """What hangs on the answer."""
        match node:
            case s.If():
                return max(self._block_weight(node.body), self._block_weight(node.orelse))
            case s.While():
                return Weight.NOTHING
            case s.IfExp() if self.it.program.expression_words(node.then, node.other).events:
                return Weight.EVENTS
            case _:
                return Weight.STATE

    def _block_weight(self, body: list[s.Stmt]) -> Weight:
        """Leaving early is of interest only once gradients are about."""
        found = self.it.program.once(Branches).weight(body)
        if found is Weight.NOTHING and self.it.program.words(body).jumps - {s.Leave.RAISE} and self.run.started:
            return Weight.STATE if self._leaves_something(body) else Weight.NOTHING
        return found

    def _leaves_something(self, body: list[s.Stmt]) -> bool:
        """A function, or a loop in which something happens; not one that looks for an entry to log."""
        jumps = self._jumps(body)
        loop = self.run.loops[-1] if self.run.loops else None
        idle = loop is not None and self.it.program.once(Branches).weight(loop.body) is Weight.NOTHING
        return s.Leave.RETURN in jumps or (bool(jumps - {s.Leave.RAISE}) and not idle)

    def _jumps(self, body: list[s.Stmt]) -> set[s.Leave]:
        """The ways out of a block that no other open condition stands before: only one is unusual on a path."""
        found = {
            s.Leave.RETURN if isinstance(x, s.Return) else x.kind for x in body if isinstance(x, s.Return | s.Jump)
        }
        for stmt in body:
            if isinstance(stmt, s.If):
                held = self.it.program.words(stmt.body).jumps | self.it.program.words(stmt.orelse).jumps
                if held and (self.it.program.said(stmt.test).called or isinstance(self.it.ev(stmt.test), v.Constant)):
                    found |= held
            elif not isinstance(stmt, s.Def | s.Class):
                for block in s.blocks(stmt):
                    inner = self._jumps(block)
                    found |= inner & {s.Leave.RETURN} if isinstance(stmt, s.For | s.While) else inner
        return found

    def _asks_for_kind(self, node: s.If) -> bool:
        """`if not is_sparse(optimizer): optimizer.zero_grad()`: somebody knows that other kinds need none."""
        test = node.test
        if isinstance(test, s.Unary) and test.op == "not":
            test = test.value
        if node.orelse or not isinstance(test, s.Call) or not test.args:
            return False
        happens = self.it.program.words(node.body).called & EVENT_METHODS
        named = isinstance(test.args[0], s.Name | s.Attr) and happens == {"zero_grad"}
        return named and self.run.optimizer_for(self.it.ev(test.args[0])) is not None

    def _is_amp_switch(self, key: str) -> bool:
        """It is asked whether to do without a scaler, here or in a file that was come by."""
        self.run.switches |= self.it.program.once(Branches).switches()
        return key in self.run.switches

    def _is_boundary(self, node: Branch) -> bool:
        if not isinstance(node, s.If):
            return False
        then, other = self.it.program.words(node.body), self.it.program.words(node.orelse)
        return then.steps and not then.backward and not other.steps


def _is_handed_already(node: s.If) -> bool:
    """`if theirs.grad is not None: return`: not the first time, and not where they were cleared."""
    match node:
        case s.If(
            test=s.Compare(left=s.Attr(name="grad" | "_grad"), op="is not", right=s.Const(value=None)),
            body=[s.Return(value=None)],
        ):
            return True
        case _:
            return False


_FINITE = re.compile(r"^[\w.]*\b(?P<test>isfinite|isnan|isinf)\(")


def _none_of(body: list[s.Stmt]) -> set[str]:
    """The optimizers that are not made here."""
    given = [x for x in body if isinstance(x, s.Assign) and isinstance(x.value, s.Const) and x.value.value is None]
    names = {naming.last(s.render(target)) for stmt in given for target in stmt.targets}
    return {name for name in names if naming.OPTIMIZER.search(name)}


def _limit(value: v.Symbol) -> float | None:
    """The number of a comparison between something that keeps its value and a number."""
    left, right = value.operands
    if value.op not in _ORDERS or not isinstance(left, v.Unknown) or left.called or not isinstance(right, v.Constant):
        return None
    return None if v.known(right).counter else as_float(right.value)


def _counts(value: v.Unknown) -> bool:
    """Its name is that of a counter, which goes with the turns of the loop, from a start that is unknown."""
    return bool(naming.COUNTER.search(_last_name(value.key))) or "step" in value.key or "iter" in value.key


def _last_name(key: str) -> str:
    """`args["steps"]` -> `steps`, `cfg.train.n` -> `n`."""
    if key.endswith('"]') and '["' in key:
        return key.rpartition('["')[2][:-2]
    return naming.last(key)
