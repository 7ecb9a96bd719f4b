"""What the rules about loss numerics are asked about: a delicate operation, and what is known of its operand."""

from __future__ import annotations

import enum

from gradlint.frontend import syntax as s
from gradlint.frontend.numerics.facts import Fact, Low, Prob
from gradlint.knowledge import tensor_api as api
from gradlint.records import dataclass


class Kind(enum.Enum):
    """Which operation it is."""

    LOG = "log"
    LOG1P = "log1p"
    ROOT = "sqrt"
    EXP = "exp"
    DIVIDE = "division"
    CROSS_ENTROPY = "cross_entropy"
    NLL = "nll_loss"
    BCE = "binary_cross_entropy"


#: operations that are themselves a loss
LOSSES = frozenset({Kind.CROSS_ENTROPY, Kind.NLL, Kind.BCE})


@dataclass(slots=True, eq=False)
class Operation:
    """One evaluation of a delicate operation. The same place may be met several times, with other operands."""

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
