"""What is known of numbers on their way to the loss: facts, operations, and where a loss is seen."""

from __future__ import annotations

import ast
import textwrap

import pytest

from gradlint.config import Settings
from gradlint.engine import lint
from gradlint.facts import numbers
from gradlint.facts.delicate import operations
from gradlint.facts.numbers import DATA, UNKNOWN, Fact, join, join_low
from gradlint.facts.operations import Operation
from gradlint.python import syntax as s
from gradlint.python.lower import Lowering
from gradlint.python.module import Module
from gradlint.python.values import Collection
from gradlint.subjects import Kind, Low, Prob


def _operations(source: str) -> list[Operation]:
    return operations(Module(Lowering(ast.parse(textwrap.dedent(source))).body), divisions=True)


def _reached(source: str) -> list[tuple[str, str]]:
    """Kind and operand of what reaches a loss, once each, in order."""
    return list(dict.fromkeys((op.kind.value, s.render(op.operand)) for op in _operations(source)))


def _operand(expression: str) -> Fact:
    """What is known of an expression of p (a softmax), q (a sigmoid), a and b, where its logarithm is taken."""
    found = _operations(f"""
        def example_loss(logits, a, b, eps):
            p, q = torch.softmax(logits, dim=-1), torch.sigmoid(logits)
            return torch.log({expression})
        """)
    return next(op for op in found if op.kind is Kind.LOG).fact


@pytest.mark.parametrize(
    ("expression", "low"),
    [
        ("a", Low.UNKNOWN),
        ("p", Low.ZERO),
        ("1 - q", Low.ZERO),
        ("p.clamp(min=1e-6)", Low.POSITIVE),
        ("p.clamp(1e-6, 1)", Low.POSITIVE),
        ("p.clamp(max=1)", Low.ZERO),
        ("torch.clamp(a, min=0)", Low.ZERO),
        ("torch.clamp_min(a, eps)", Low.POSITIVE),
        ("p + eps", Low.POSITIVE),
        ("p + 1e-8", Low.POSITIVE),
        ("1e-8 + p.sum(-1)", Low.POSITIVE),
        ("p.mean()", Low.GUARDED),
        ("a ** 2 + 1", Low.POSITIVE),
        ("a ** 2", Low.ZERO),
        ("a ** 3", Low.UNKNOWN),
        ("torch.maximum(p, eps)", Low.POSITIVE),
        ("torch.where(p > 0, p, b)", Low.GUARDED),
        ("p[p > 0]", Low.GUARDED),
        ("F.softplus(a)", Low.POSITIVE),
        ("torch.exp(a)", Low.POSITIVE),
        ("p * q", Low.ZERO),
        ("a.norm()", Low.ZERO),
        ("1 + eps - q", Low.GUARDED),
    ],
)
def test_how_far_a_value_keeps_from_zero(expression: str, low: Low) -> None:
    assert _operand(expression).low is low


@pytest.mark.parametrize(
    ("expression", "prob"),
    [
        ("p", Prob.SOFTMAX),
        ("q", Prob.SIGMOID),
        ("1 - q", Prob.ONE_MINUS_SIGMOID),
        ("1 - (1 - q)", Prob.SIGMOID),
        ("p.view(-1, 4)", Prob.SOFTMAX),
        ("p.gather(1, b)", Prob.PIECE),
        ("p[mask]", Prob.SOFTMAX),
        ("p[range(4), b]", Prob.PIECE),
        ("p * labels", Prob.PIECE),
        ("a", None),
        ("p + a", None),
    ],
)
def test_what_is_a_probability(expression: str, prob: Prob | None) -> None:
    assert _operand(expression).prob is prob


@pytest.mark.parametrize(
    "expression",
    ["p.detach()", "labels", "torch.ones(3)", "torch.tensor(2.0)", "args.scale", "p.argmax()", "a.item()"],
)
def test_no_gradient_goes_through(expression: str) -> None:
    assert _operand(expression).grad is False


@pytest.mark.parametrize(
    ("source", "reached"),
    [
        ("loss = torch.log(x)", True),
        ("losses['kl'] = torch.log(x)", False),  # a table of anything
        ("table['kl_loss'] = torch.log(x)", True),
        ("self.loss = -x.log().mean()", True),
        ("torch.log(x).mean().backward()", True),
        ("accelerator.backward(torch.log(x))", True),
        ("scaler.scale(x.log().mean()).backward()", True),
        ("F.nll_loss(torch.log(x), y)", True),
        ("entropy = torch.log(x)\nwriter.add_scalar('entropy', entropy)", False),
        ("loss = torch.log(x).detach()", False),
        ("loss = float(torch.log(x).item())", False),
        ("with torch.no_grad():\n    loss = torch.log(x)", False),
        ("@torch.no_grad()\ndef measure(x):\n    loss = torch.log(x)\nmeasure(x)", False),
        ("def evaluate(x):\n    loss = torch.log(x)", False),
        ("def step(x):\n    kl = torch.log(x)\n    return kl\nloss = step(x)", True),
        ("def step(x):\n    kl = torch.log(x)\n    return kl\nshown = step(x)", False),
        ("def kl_loss(x):\n    return torch.log(x)", True),
        ("def entropy_of(x):\n    return torch.log(x)", False),
        ("class DiceLoss(nn.Module):\n    def forward(self, x):\n        return torch.log(x)", True),
        ("class Head(nn.Module):\n    def forward(self, x):\n        return torch.log(x)", False),
        ("parts = []\nparts.append(torch.log(x))\nloss = sum(parts)", True),
        ("total = 0\nfor x in xs:\n    total = total + torch.log(x)\ntotal.backward()", True),
        ("loss_fn = torch.log(x)", False),  # the name of a function
    ],
)
def test_what_becomes_a_part_of_a_loss(source: str, reached: bool) -> None:
    assert any(kind == "log" for kind, _ in _reached("import torch\n" + source)) is reached


def test_a_softmax_is_followed_through_a_models_forward_and_its_tuple() -> None:
    source = """
        class Net(nn.Module):
            def __init__(self):
                self.head = nn.Sequential(nn.Linear(8, 3), nn.Softmax(dim=1))

            def forward(self, x):
                return x.mean(), self.head(x)

        def train(model, criterion, x, y):
            _, out = model(x)
            loss = criterion(out, y)
            loss.backward()

        train(DDP(Net().cuda()), nn.CrossEntropyLoss(), x, y)
        """
    found = [op for op in _operations(source) if op.kind is Kind.CROSS_ENTROPY]
    assert {op.fact.prob for op in found} == {Prob.SOFTMAX}
    assert {s.render(op.fact.made) for op in found} == {"nn.Softmax(dim=1)"}


def test_a_softmax_for_prediction_only_is_not_what_is_trained() -> None:
    source = """
        class Net(nn.Module):
            def forward(self, x):
                x = self.fc(x)
                if not self.training:
                    x = torch.softmax(x, dim=1)
                return x

        loss = F.cross_entropy(Net()(x), y)
        """
    assert [op.fact.prob for op in _operations(source) if op.kind is Kind.CROSS_ENTROPY] == [None]


def test_one_function_is_judged_by_all_its_callers() -> None:
    source = """
        def log_of(p):
            return torch.log(p)

        loss = log_of(torch.sigmoid(x).clamp_min(1e-6))
        other_loss = log_of(torch.sigmoid(x))
        """
    assert {op.fact.low for op in _operations(source) if op.kind is Kind.LOG} == {Low.POSITIVE, Low.ZERO}


def test_a_function_that_calls_itself_ends() -> None:
    assert _reached("def my_loss(x, n):\n    return torch.log(x) + my_loss(x, n - 1)") == [("log", "x")]


def test_a_file_without_anything_delicate_is_not_followed() -> None:
    program = Module(Lowering(ast.parse("loss = model(x).mean()\nloss.backward()")).body)
    assert operations(program) == []


class TestJoin:
    """What is known when either of two things may be the case."""

    def test_a_guard_on_one_side_silences(self) -> None:
        assert join_low(Low.ZERO, Low.POSITIVE) is Low.GUARDED
        assert join_low(Low.UNKNOWN, Low.GUARDED) is Low.GUARDED
        assert join_low(Low.UNKNOWN, Low.ZERO) is Low.UNKNOWN

    def test_a_probability_on_one_side_is_none(self) -> None:
        joined = join(Fact(prob=Prob.SOFTMAX), Fact())
        assert isinstance(joined, Fact)
        assert joined.prob is None

    def test_items_are_joined_one_by_one(self) -> None:
        joined = join(Collection([DATA, UNKNOWN]), Collection([DATA, Fact(low=Low.POSITIVE)]))
        assert isinstance(joined, Collection)
        assert [fact.low for fact in joined.items if isinstance(fact, Fact)] == [Low.UNKNOWN, Low.GUARDED]


@pytest.mark.parametrize(
    ("expression", "capped"),
    [
        ("a", False),
        ("-a", False),
        ("a - b", True),  # shifted, or a ratio of probabilities
        ("-(a ** 2)", True),
        ("torch.tanh(a)", True),
        ("F.normalize(a) @ F.normalize(b)", True),
        ("F.normalize(a) @ b", True),  # who normalises one side normalises the other
        ("F.normalize(a) @ self.fc(b)", True),
        ("torch.tanh(a) * net(b)", False),
        ("-(a - b)", False),
        ("2 * (a - b)", False),
        ("-(torch.max(a, b) - b)", True),
        ("a.clamp(max=80)", True),
        ("F.log_softmax(a, -1)", True),
    ],
)
def test_what_cannot_overflow_in_an_exp(expression: str, capped: bool) -> None:
    found = _operations(f"def example_loss(a, b):\n    return torch.exp({expression}).sum()")
    assert [op.fact.capped for op in found if op.kind is Kind.EXP] == [capped]


@pytest.mark.parametrize(
    ("expression", "zero"),
    [
        ("(a - b) ** 2", "a squared difference"),
        ("((a - b) ** 2).sum(1)", "a sum of squared differences"),
        ("((a - b) ** 2).mean()", "a mean squared error"),
        ("(a ** 2).sum()", "a sum of squares"),
        ("F.mse_loss(a, b)", "a mean squared error"),
        ("a.var()", "a variance"),
        ("(a - b) ** 2 + args.c ** 2", ""),
        ("a[:, 0] * a[:, 1]", ""),
    ],
)
def test_why_a_root_meets_zero(expression: str, zero: str) -> None:
    found = _operations(f"def example_loss(a, b):\n    return torch.sqrt({expression})")
    fact = next(op.fact for op in found if op.kind is Kind.ROOT)
    assert (fact.zero if fact.low is Low.ZERO else "") == zero


def test_numbers_are_computed() -> None:
    node = s.Name(0, "x")
    two, three = Fact(number=2), Fact(number=3)
    assert numbers.binary("**", two, three, False, node).number == 8
    assert numbers.binary("/", two, Fact(number=0), False, node).number is None


@pytest.mark.slow
def test_deep_code_ends_without_an_error() -> None:
    deep = "x" + ".view(-1)" * 300
    source = f"def my_loss(x):\n    y = {deep}\n    return torch.log(torch.sigmoid(y))\n"
    result = lint(source.encode(), "train.py", Settings())
    assert result.crashes == ()
    assert [finding.code for finding in result.findings] == ["GL605"]


def test_a_crash_takes_no_other_finding_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(program: Module, *, divisions: bool) -> list[Operation]:
        raise ValueError("broken")

    monkeypatch.setattr("gradlint.facts.delicate.operations", crash)
    source = b"optimizer.zero_grad\nloss = torch.log(torch.sigmoid(x))\nloss.backward()\noptimizer.step()\n"
    result = lint(source, "train.py", Settings())
    assert [found.rule for found in result.crashes] == ["numerics"]
    assert "GL405" in {finding.code for finding in result.findings}


LOGGED = "def nothing(x):\n    return torch.log(x)\nclass C:\n    def update(self, x):\n        return torch.log(x)\n"


@pytest.mark.parametrize(
    ("source", "reached"),
    [
        ("loss = nothing(x)", True),
        ("loss = C().update(x)", True),
        ("loss = meter.update(x)", False),
        ("loss = update(x)", False),
        ("def f(nothing):\n    loss = nothing(x)", False),
        ("def f():\n    from elsewhere import nothing\n    loss = nothing(x)", False),
        ("def f():\n    C = other\n    loss = C().update(x)", False),
        ("def f():\n    from numpy import log\n    loss = log(x)\nf()", False),
        ("def f():\n    from torch import log\n    loss = log(x)\nf()", True),
        ("def f():\n    from torch import log\ndef g():\n    loss = log(x)\ng()", False),
        ("with timer('no_grad_probe'):\n    loss = nothing(x)", True),
        ("with torch.no_grad(), torch.enable_grad():\n    loss = nothing(x)", True),
        ("with torch.set_grad_enabled(False):\n    loss = nothing(x)", False),
    ],
)
def test_names_mean_what_their_scope_says(source: str, reached: bool) -> None:
    assert bool(_reached(f"import torch\n{LOGGED}{source}")) is reached
