"""What the rules about loss numerics are asked about: a delicate operation, and what is known of its operand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.events import Site
from gradlint.facts.numerics.facts import Fact
from gradlint.facts.numerics.policy import sampled_action
from gradlint.knowledge import tensor_api as api
from gradlint.python import syntax as s
from gradlint.python.cited import LENGTH, cited
from gradlint.python.written import last
from gradlint.records import dataclass
from gradlint.subjects import Kind, Low, Prob

if TYPE_CHECKING:
    from gradlint.python.module import Program

#: what a value is called of which `square` is the root
SQUARES = frozenset({"a square", "a squared difference"})
#: operations that are themselves a loss
LOSSES = frozenset({Kind.CROSS_ENTROPY, Kind.NLL, Kind.BCE})


@dataclass(slots=True, eq=False)
class Operation:
    """One evaluation of a delicate operation; what rules see of it is `gradlint.subjects.Operation`."""

    program: Program
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
        return self.program.site(self.node)

    @property
    def operand_site(self) -> Site:
        return self.program.site(self.operand, "")

    @property
    def made_at(self) -> Site | None:
        return None if self.fact.made is None else self.program.site(self.fact.made)

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

    def shown(self, length: int = LENGTH) -> str:
        return cited(self.node, length)

    def operand_shown(self, length: int = LENGTH) -> str:
        return cited(self.operand, length)

    def function_shown(self, length: int = LENGTH) -> str:
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

    @property
    def criterion(self) -> Site | None:
        return None if self.made is None else self.program.site(self.made)

    @property
    def sampled(self) -> bool:
        return sampled_action(self, self.program)

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
