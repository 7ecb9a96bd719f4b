"""What the rules about loss numerics are asked about: a delicate operation, and what is known of its operand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.events import Site
from gradlint.facts.numbers import Fact, as_fact
from gradlint.knowledge import tensor_api as api
from gradlint.python import syntax as s
from gradlint.python.binding import called, identifiers, last, own_statements, target_names
from gradlint.python.values import Instance, Value
from gradlint.records import dataclass
from gradlint.subjects import Kind, Low, Prob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradlint import subjects
    from gradlint.python.evaluate import Evaluator
    from gradlint.python.frame import Frame
    from gradlint.python.module import Module

#: what a value is called of which `square` is the root
SQUARES = frozenset({"a square", "a squared difference"})
#: operations that are themselves a loss
LOSSES = frozenset({Kind.CROSS_ENTROPY, Kind.NLL, Kind.BCE})
#: the methods that run when a module is called
OF_MODELS = frozenset({"forward", "__call__"})
#: functions that draw an action with given probabilities
_DRAWS = frozenset({"multinomial", "choice", "choices"})
#: calls that pick entries; the index comes behind the dimension
_PICKS = frozenset({"gather", "index_select", "take_along_dim", "take", "batched_index_select"})
#: names are looked up so many times: `pi_a`, `pi.gather(1, a).squeeze()`, `a.long()`
_DEEPEST = 3
#: of code in messages: with it and a sentence of ours a message stays below 200 characters
_LENGTH = 56


@dataclass(slots=True, eq=False)
class Operation:
    """One evaluation of a delicate operation; what rules see of it is `gradlint.subjects.Operation`."""

    program: Module
    kind: Kind
    node: s.Call | s.Bin
    #: what is logged, rooted, divided by, handed to the loss
    operand: s.Expr
    fact: Fact
    #: the function that it stands in, None at the top of the file
    function: s.Def | None
    #: its result was seen to become a part of a loss that is trained on
    reached: bool = False
    #: the criterion's definition (`nn.CrossEntropyLoss()`), if it is not called as a function
    made: s.Call | None = None
    #: what is divided
    other: Fact | None = None
    #: it stands in a function that gives a loss, or in the training code itself, not somewhere in a model
    near: bool = True

    # -- places and words

    @property
    def site(self) -> Site:
        return self.program.owner(self.node.node).site(self.node)

    @property
    def operand_site(self) -> Site:
        return self.program.owner(self.operand.node).site(self.operand, "")

    @property
    def made_at(self) -> Site | None:
        made = self.fact.made
        return None if made is None else self.program.owner(made.node).site(made)

    @property
    def origin(self) -> Site | None:
        made = self.fact.made
        inside = any(part is made for part in s.walk_expr(self.operand))
        return None if inside else self.made_at

    @property
    def text(self) -> str:
        return s.render(self.node)

    @property
    def operand_text(self) -> str:
        return s.render(self.operand)

    def shown(self, length: int = _LENGTH) -> str:
        return cited(self.node, length)

    def operand_shown(self, length: int = _LENGTH) -> str:
        return cited(self.operand, length)

    def function_shown(self, length: int = _LENGTH) -> str:
        return cited(self.node.func if isinstance(self.node, s.Call) else self.node, length)

    @property
    def names(self) -> list[str]:
        return [part.id for part in s.walk_expr(self.operand) if isinstance(part, s.Name)]

    @property
    def name(self) -> str:
        return _name(self.operand)

    @property
    def plain_name(self) -> str:
        return last(self.operand)

    @property
    def absolute(self) -> str:
        x = self.fact.square
        if x is None or self.fact.zero not in SQUARES or _exponent(self.operand) != 2:
            return ""
        return cited(s.Call(x.node, s.Attr(x.node, x, "abs"), [], {}))

    # -- what is known of it

    @property
    def exposed(self) -> bool:
        """A gradient may flow through the operand, and nothing keeps it away from zero."""
        return self.fact.grad is not False and self.fact.low < Low.GUARDED

    @property
    def fused(self) -> str:
        """The one function of torch that does both steps, "" if there is none."""
        fact = self.fact
        if self.kind is Kind.LOG and _is_natural(self.node) and fact.grad is not False:
            if isinstance(self.operand, s.Bin) and not fact.exps:
                added = _one_plus(self.operand)
                if added is not None and (fact.grad or _names_prediction(added)):
                    return "torch.log1p"
            if not (fact.pure and fact.low is Low.ZERO and fact.home is self.function):
                return ""
            return {Prob.SOFTMAX: "log_softmax", Prob.SIGMOID: "logsigmoid", Prob.ONE_MINUS_SIGMOID: "logsigmoid"}.get(
                fact.prob or Prob.PIECE, ""
            )
        if self.kind is Kind.BCE and fact.prob is Prob.SIGMOID and fact.pure and fact.home is self.function:
            if fact.grad is False:
                return ""  # numbers made by hand: nothing is trained
            return "binary_cross_entropy_with_logits"
        return ""

    @property
    def ends_model(self) -> bool:
        """Its class stands in the project, and does not tell real from made up: GANs are trained on probabilities."""
        fact = self.fact
        if fact.prob is not Prob.SIGMOID or not fact.pure or fact.grad is False or fact.home is None:
            return False
        cls = self._class_of(fact.home) if fact.home.name in OF_MODELS else None
        if cls is None or api.LOSS_CLASS.search(cls.name):
            return False
        said = {cls.name, self.function.name if self.function is not None else "", *identifiers(self.operand)}
        return not any(api.ADVERSARIAL.search(name) for name in said)

    def _class_of(self, method: s.Def) -> s.Class | None:
        classes = self.program.owner(method.node).classes.values()
        return next((cls for cls in classes if any(stmt is method for stmt in cls.body)), None)

    @property
    def unbounded(self) -> bool:
        """Not shifted, not a distance or a similarity, not the logarithm of a scale that a model predicts."""
        operand, fact, name = self.operand, self.fact, last(self.operand)
        if any(api.UNIT.search(part) for part in self.names):
            return False
        if isinstance(operand, s.Call) and last(operand.func) == "lgamma":
            return False  # the gamma function is meant
        if isinstance(operand, s.Bin) and _cooled(operand):
            return False
        if isinstance(operand, s.Unary) and not fact.difference:
            if api.NEVER_BELOW_ZERO.search(s.render(operand.value).partition("(")[0]):
                return False
        scale = api.LOG_SCALE.search(name) and not api.LOGITS.search(name)
        return not fact.capped and fact.grad is not False and not scale

    @property
    def local(self) -> bool:
        return self.fact.made is not None and self.fact.home is self.function

    def shares_function(self, other: subjects.Operation) -> bool:
        return isinstance(other, Operation) and self.function is other.function

    @property
    def criterion(self) -> Site | None:
        return None if self.made is None else self.program.owner(self.made.node).site(self.made)

    @property
    def sampled(self) -> bool:
        return _sampled_action(self)

    @property
    def determinant(self) -> bool:
        return any(last(part).endswith("det") for part in s.walk_expr(self.operand))

    @property
    def softplus(self) -> bool:
        one_more = self.kind is Kind.LOG1P or (isinstance(self.operand, s.Bin) and self.operand.op == "+")
        return one_more and len(self.fact.exps) == 1 and "sum(" not in s.render(self.operand)


def _name(operand: s.Expr) -> str:
    match operand:
        case s.Name():
            return operand.id
        case s.Item():
            return _name(operand.base)
        case s.Bin() if operand.op == "-" and isinstance(operand.left, s.Const) and operand.left.value == 1:
            return _name(operand.right)
        case _:
            return ""


def _cooled(operand: s.Bin) -> bool:
    """`exp(similarity / temperature)`, as contrastive losses have it, of embeddings that were normalised elsewhere."""
    below = last(operand.right) if operand.op == "/" else ""
    return bool(api.TEMPERATURE.search(below)) and not api.SCORES.search(last(operand.left))


def _exponent(operand: s.Expr) -> object:
    """Of a power that stands there; all other squares are squares."""
    match operand:
        case s.Bin(op="**", right=s.Const() as exponent):
            return exponent.value
        case s.Call(func=s.Attr(name="pow"), args=[*_, s.Const() as exponent]):
            return exponent.value
        case _:
            return 2


def _is_natural(node: s.Call | s.Bin) -> bool:
    func = node.func if isinstance(node, s.Call) else node
    name = func.name if isinstance(func, s.Attr) else func.id if isinstance(func, s.Name) else ""
    return name.rstrip("_") == "log"


def _one_plus(operand: s.Bin) -> s.Expr | None:
    """x of `1 + x`."""
    if operand.op != "+":
        return None
    for one, other in ((operand.left, operand.right), (operand.right, operand.left)):
        if isinstance(one, s.Const) and one.value == 1:
            return other
    return None


def _names_prediction(expr: s.Expr) -> bool:
    return any(isinstance(part, s.Name) and api.PREDICTION.search(part.id) for part in s.walk_expr(expr))


# -- where they lead


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a function while it runs."""

    #: what happens here is not trained on: an evaluation, a sample
    quiet: bool = False
    #: what it returns is a loss
    loss: bool = False


class Losses:
    """The delicate operations of a file, as they are met, and which of them lead to a loss."""

    def __init__(self, program: Module, core: Evaluator) -> None:
        self._program = program
        self._core = core
        self.operations: list[Operation] = []

    @property
    def state(self) -> State:
        return _state(self._core.frame)

    @property
    def function(self) -> s.Def | None:
        """The one that is running."""
        return self._core.frame.function

    def enter(self, frame: Frame, caller: Frame) -> State:
        """What is trained on in a function, by its name and that of its class."""
        around, function = _state(caller), frame.function
        if function is None or function is caller.function:
            return State(around.quiet)
        cls = _class_of(frame)
        loss = gives_loss(function, cls)
        foreign = self._core.classes_of(cls).foreign(cls) if cls is not None else set()
        if any(base.rpartition(".")[2] == "Function" for base in foreign):
            frame.no_grad = True  # torch.autograd.Function has a backward of its own
        if api.TARGET.search(function.name) and not loss:
            frame.no_grad = True  # `def ground_truth(…)`
        tests = cls is not None and any(api.TEST.search(name) for name in (cls.name, *foreign))
        evaluates = bool(api.EVALUATION.search(function.name)) and not self._trains(function)
        return State(around.quiet or evaluates or tests, loss)

    def _trains(self, function: s.Def) -> bool:
        """`def test_time_training(…)` runs a backward and steps; in a file of unit tests that is no training."""
        program = self._program.owner(function.node)
        words = program.own_words(function.body)
        if not (words.backward and words.steps):
            return False
        return not any(name.partition(".")[0] in api.TEST_PACKAGES for name in program.imports.values())

    def operate(
        self, kind: Kind, node: s.Call | s.Bin, operand: s.Expr, fact: Fact, *,
        made: s.Call | None = None, other: Fact | None = None,
    ) -> Operation | None:  # fmt: skip
        frame = self._core.frame
        if frame.no_grad:
            return None
        operation = Operation(self._program, kind, node, operand, fact, frame.function, False, made, other, self.near)
        if kind in LOSSES:
            operation.reached = not _state(frame).quiet
        self.operations.append(operation)
        return operation

    @property
    def near(self) -> bool:
        """What stands in a model's forward, or in a helper of it, is far from the loss."""
        function, cls = self._core.frame.function, _class_of(self._core.frame)
        if self.state.loss or function is None:
            return True
        if cls is not None and api.LOSS_CLASS.search(cls.name):
            return True
        return function.name not in OF_MODELS and "backward" in self._program.own_words(function.body).called

    def reach(self, value: Value) -> None:
        """A value turns out to be (a part of) a loss."""
        if self.state.quiet or self._core.frame.no_grad:
            return
        for operation in as_fact(value).ops:
            operation.reached = True


def _state(frame: Frame) -> State:
    assert isinstance(frame.state, State)
    return frame.state


def _class_of(frame: Frame) -> s.Class | None:
    """The class of the object, or that which a static method stands in."""
    return frame.owner.cls.node if isinstance(frame.owner, Instance) else frame.scope.cls


def gives_loss(node: s.Def, cls: s.Class | None) -> bool:
    """What the function returns is trained on, by its name or that of its class."""
    if api.LOSS_FUNCTION.search(node.name):
        return True
    return cls is not None and node.name in OF_MODELS and bool(api.LOSS_CLASS.search(cls.name))


# -- policy gradients


def _sampled_action(operation: Operation) -> bool:
    """The operand is the probability of an action that was drawn from this very distribution, as far as can be seen.

    Drawing keeps it above 0. Actions that are replayed, or were drawn before the weights changed (PPO), are others.
    """
    body = operation.program.once(_Bodies).of(operation.function)
    index = {name for expr in _indices(operation.operand, body.given) for name in _names(expr, body.given)}
    if index & body.drawn:
        return True
    if body.replays:
        return False
    if any(api.ACTION.search(name) for name in index):
        return body.returns
    # REINFORCE: the probabilities themselves were kept, and are weighed with what followed
    kept = isinstance(operation.operand, s.Name | s.Attr | s.Item) and not index
    return kept and id(operation.node) in body.weighed


class _Body:
    """A function, or the module, as all operations in it ask about it."""

    def __init__(self, body: list[s.Stmt], function: s.Def | None) -> None:
        self.statements = list(own_statements(body))
        self.given = _given(self.statements)
        self.drawn = {name for name, values in self.given.items() if any(map(_holds_draw, values))}
        names = (name for stmt in self.statements for expr in s.expressions(stmt) for name in identifiers(expr))
        said = {*names, *(param.name for param in (function.params if function is not None else ()))}
        self.replays = any(map(api.REPLAY.search, said))
        self.returns = any(map(api.RETURN.search, said))
        #: what is multiplied by what followed
        self.weighed = set(_weighed(self.statements)) if self.returns else set()


class _Bodies:
    """Those of a file; ask `program.once(_Bodies)`."""

    def __init__(self, program: Module) -> None:
        self._program = program
        self._known: dict[int, _Body] = {}

    def of(self, function: s.Def | None) -> _Body:
        key = -1 if function is None else function.node
        if key not in self._known:
            self._known[key] = _Body(self._program.body if function is None else function.body, function)
        return self._known[key]


def _given(statements: list[s.Stmt]) -> dict[str, list[s.Expr]]:
    """What each name of a function is set to."""
    found: dict[str, list[s.Expr]] = {}
    for stmt in statements:
        if isinstance(stmt, s.Assign):
            for target in stmt.targets:
                for name in target_names(target):
                    found.setdefault(name, []).append(stmt.value)
    return found


def _holds_draw(expr: s.Expr) -> bool:
    return any(map(_draws, s.walk_expr(expr)))


def _draws(part: s.Expr) -> bool:
    """`Categorical(pi).sample()`, `torch.multinomial(pi, 1)`; what a memory gives is no fresh draw."""
    if not isinstance(part, s.Call):
        return False
    if called(part) != "sample":
        return called(part) in _DRAWS
    return not part.args and not any(api.REPLAY.search(name) for name in identifiers(part.func))


def _indices(expr: s.Expr, given: dict[str, list[s.Expr]], depth: int = 0) -> Iterator[s.Expr]:
    """What picks entries on the way to an expression: `a` of `pi.gather(1, a)`, `pi[rows, a]`, `pi * one_hot(a)`."""
    for part in s.walk_expr(expr):
        match part:
            case s.Call() if called(part) in _PICKS:
                yield from (*part.args[1:], *part.kwargs.values())
            case s.Call() if called(part) == "one_hot":
                yield from part.args[:1]
            case s.Item():
                yield part.index
            case s.Name() if depth < _DEEPEST:
                for value in given.get(part.id, []):
                    yield from _indices(value, given, depth + 1)


def _names(expr: s.Expr, given: dict[str, list[s.Expr]], depth: int = 0) -> Iterator[str]:
    for name in identifiers(expr):
        yield name
        if depth < _DEEPEST:
            for value in given.get(name, []):
                yield from _names(value, given, depth + 1)


def _weighed(statements: list[s.Stmt]) -> Iterator[int]:
    """The (ids of) expressions that are multiplied by what followed an action, in their own statement."""
    for stmt in statements:
        for expr in s.expressions(stmt):
            for part in s.walk_expr(expr):
                if isinstance(part, s.Bin) and part.op == "*":
                    for one, other in ((part.left, part.right), (part.right, part.left)):
                        if any(map(api.RETURN.search, identifiers(other))):
                            yield from map(id, s.walk_expr(one))


def cited(expr: s.Expr, length: int = _LENGTH) -> str:
    """The user's own code in a message: `torch.sum(…)` for a long call; else the beginning."""
    # an index of several parts is not kept by the small tree
    text = s.render(expr).replace("[:]", "[…]")
    if len(text) <= length:
        return text
    if isinstance(expr, s.Call):
        head = cited(expr.func)
        if len(head) + 3 <= length and not head.endswith("…"):
            return f"{head}(…)"
    return text[: length - 1].rstrip() + "…"
