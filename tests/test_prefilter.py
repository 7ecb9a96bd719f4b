"""What is asked of the bytes follows from what rules declare, holds back most files, and never one with a finding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gradlint.config import Layer, Settings
from gradlint.engine import lint
from gradlint.events import Backward, Step
from gradlint.prefilter import Prefilter, clauses_of, prefilter
from gradlint.records import replace
from gradlint.registry import all_rules, by_code
from gradlint.rule import Call, Draft, GradientState, Rule, RuleMeta, Severity, Trace
from tests.rules.expectations import FIXTURES, rule_of
from tests.sampling import spread

RULES = [rule for rule in all_rules() if rule.hooks]
#: functions of other people, none of which has anything to do with gradients
PADDING = "\n\n" + "\n\n".join(f"def helper_{n}(a, b):\n    return (a + b) * {n}\n" for n in range(250))
BAD = [path for path in sorted(FIXTURES.glob("*/bad*.py")) if rule_of(path).hooks]
EVERYTHING = Settings(layers=(Layer(select=("ALL",), unfixable=("ALL",)),))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.meta.code)
def test_every_bad_fixture_is_let_in_by_its_own_rule_alone(rule: type[Rule]) -> None:
    own = Prefilter([rule])
    files = [path for path in BAD if rule_of(path) is rule]
    assert files
    for path in files:
        source = path.read_bytes()
        assert own.accepts(source), path.name
        assert own.accepts(PADDING.encode() + b"\n\n" + source), path.name


@pytest.mark.parametrize("path", spread(BAD, 6, 30), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_behind_other_functions_the_same_is_found(path: Path) -> None:
    assert len(PADDING) > 10_000
    source = path.read_text(encoding="utf-8")
    alone, behind = (lint(text.encode(), "a.py", EVERYTHING) for text in (source, source + PADDING))
    assert alone.findings
    assert behind.findings == alone.findings


@pytest.mark.parametrize(
    "path", spread(sorted(FIXTURES.glob("*/*.py")), 10, 80), ids=lambda p: f"{p.parent.name}/{p.stem}"
)
def test_without_it_the_same_is_said(path: Path) -> None:
    source = path.read_bytes()
    assert lint(source, "a.py", EVERYTHING) == lint(source, "a.py", replace(EVERYTHING, prefilter=False))


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"print('hello')\n",
        b"import torch\nmodel = torch.nn.Linear(2, 2)\n",
        b"env.step(action)\n",  # something steps, but no gradient is made
        b"loss.backward()\n",  # made, but never used
        b"with torch.no_grad():\n    model(x)\n",
        b"with model.no_sync():\n    pass\n",
        b"Accelerator(gradient_accumulation_steps=4)\n",
        b"Trainer(accumulate_grad_batches=4)\n",
        b"load_checkpoint(path)\nsave_checkpoint(model, path)\nimport torch.utils.data\n",
        b"# this is backward compatible, step by step\n",
        b"from transformers import CLIPModel\nwith torch.no_grad():\n    clip(x)\n",
        b"x = torch.log(p)\n",  # no loss in sight
        b"import torch\nloss = model(x)\n",
        b"import torch\nloss = torch.log(p + 1e-8)\n",
        b"loss = math.sqrt(d) + np.log(2)\n",
        b"import torch\ndef my_loss(x):\n    return x.mean()\n\ndef positions(x):\n    return torch.log(x)\n",
        b"attn_weights = F.softmax(scores, -1)\nloss = F.cross_entropy(logits, y)\n",
        b"loss = F.nll_loss(F.log_softmax(x, 1), y)\n",
        b'import torch\n"""The loss is `log(p)`."""\nloss = model(x)\n',
        b"import torch\nx = torch.tanh(self.a(x))\n",
        b"import torch\n" + b"gate = torch.sigmoid(x)\n" * 6,
        b"x.clamp_(0, 1)\nself.gradient_checkpointing = True\n",  # `.grad` is a whole name
        b"import torch\nloss = contrast(text @ image * self.logit_scale.exp())\n",
    ],
)
def test_files_without_anything_are_held_back(source: bytes) -> None:
    assert not prefilter().accepts(source)


@pytest.mark.parametrize(
    "source",
    [
        b"# loss.backward()\n# optimizer.step()\n",  # words that are no code
        b'"""First loss.backward(), then optimizer.step()."""\n',
        b"with torch.autocast('cuda'):  # not torch.cuda.amp.autocast()\n    model(x)\n",
    ],
)
def test_words_that_are_no_code_do_not_count(source: bytes) -> None:
    assert not prefilter().accepts(source + PADDING.encode())


@pytest.mark.parametrize(
    "source",
    [
        b"loss.backward()\noptimizer.step()\n",
        b"self.manual_backward(loss)\nopt.step()\n",
        b"advance = optimizer.step\nloss.backward()\n",
        b"clip_grad_norm_(model.parameters(), 1.0)\n",
        b"from torch.nn.utils import clip_grad_norm_ as clip\nclip(p, 1.0)\n",
        b"for p in ps: p.grad.data.clamp_(-1, 1)\n",
        b"my_grad_clipper(model)\n",
        b"from torch.cuda.amp import autocast as cast\n",
        b"Trainer(gradient_clip_algorithm='value')\n",
        b"deepspeed.initialize(config={'gradient_clipping': 0.01})\n",
        b"loss.backward\noptimizer.step\n",  # the parentheses are missing: that is a finding, too
        b"\xef\xbb\xbfloss.backward()\r\noptimizer.step()\r\n",
        b"import torch\ndef my_loss(p):\n    return torch.log(p)\n",
        b"import torch\nloss = (x ** 2).sum() ** 0.5\n",
        b"import torch\ndef helper(p):\n    return torch.log(p)\n\ndef train(p):\n    loss = helper(p)\n",
        b"import torch\nloss = torch.log(p + 1e-8) + torch.log(1 - p)\n",  # one of two is guarded
        b"import torch\nloss = torch.sqrt(torch.clamp(x ** 2, min=0))\n",  # a clamp at 0 guards no root
        b"from torch import log\nloss = -log(p)\n",
        b"loss = F.cross_entropy(x.softmax(1), y)\n",
        b"loss = nn.BCELoss()(torch.sigmoid(x), y)\n",
        b"import torch\nnn.Tanh(), nn.Tanh(),\nnn.Tanh(),\nnn.Tanh()\n",
        b"import torch.utils.checkpoint as c\nc.checkpoint(f, x)\n",
        b"import torch\ndef loss(logits):\n    return logits.exp()\n",
        b"import torch\ndef loss(logits):\n    return torch.exp(\n        logits,\n    )\n",
        b"print(f'after {loss.backward()} and {optimizer.step()}')\n",
        b"x = 'never ended\n# loss.backward()\n# optimizer.step()\n",  # what is a comment here is not clear
        b"from torch.cuda import amp\nwith amp.autocast():\n    model(x)\n",
    ],
)
def test_files_with_something_are_let_in(source: bytes) -> None:
    assert prefilter().accepts(source)
    assert prefilter().accepts(source + PADDING.encode())


def test_what_imported_files_hold_counts() -> None:
    own = Prefilter([by_code()["GL401"]])
    missing = frozenset(part for clause in clauses_of(by_code()["GL401"]) for part in clause)
    source = b"from engine import train\n"
    assert not own.accepts(source)
    assert not own.accepts_with(source, lambda part: False)
    assert own.accepts_with(source, missing.__contains__)


def test_only_rules_that_are_on_are_asked() -> None:
    source = b"import torch\nratio = loss / torch.softmax(x, -1)\n"
    assert not prefilter(frozenset({"GL101"})).accepts(source)
    assert prefilter(frozenset({"GL602"})).accepts(source)


def test_of_a_file_that_is_let_in_only_some_rules_can_speak() -> None:
    source = b"import torch.utils.checkpoint as c\nc.checkpoint(f, x)\n"
    assert prefilter().speaking(source) == {"GL702"}
    assert prefilter(frozenset({"GL101", "GL702"})).speaking(source + b"loss.backward()\noptimizer.step()\n") == {
        "GL702"
    }


def test_paths_are_followed_only_for_rules_that_can_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    source = b"import torch.utils.checkpoint as c\nfor x in y:\n    c.checkpoint(f, x).backward()\n"
    expected = lint(source, "a.py", Settings()).findings
    assert [finding.code for finding in expected] == ["GL702"]
    monkeypatch.setattr("gradlint.paths.explorer.Explorer.paths", None)  # nobody asks for them
    assert lint(source, "a.py", Settings()).findings == expected


class Speechless(Rule):
    """It sees paths, and does not say which."""

    meta = RuleMeta("GL798", Severity.ADVICE)
    message = ""

    def on_trace(self, trace: Trace) -> Iterator[Draft]:
        yield from ()


def test_a_rule_from_which_no_word_follows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"GL798: nothing follows from on_trace"):
        list(clauses_of(Speechless))


def test_so_is_a_hook_from_which_no_word_follows() -> None:
    class Forgetful(Speechless):
        """It sees calls, and does not say of what; its other hook would find files."""

        on_trace = Rule.on_trace

        def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
            yield from ()

        def on_call(self, call: Call) -> Iterator[Draft]:
            yield from ()

    with pytest.raises(ValueError, match=r"GL798: nothing follows from on_call"):
        list(clauses_of(Forgetful))


def test_needs_make_a_clause_of_it() -> None:
    class Needy(Speechless):
        needs = (Backward, Step)

    (clause,) = clauses_of(Needy)
    assert len(clause) == 2
