"""The scripts of `gradlint prove`: the linter finds their mistake and nothing else, the fixer mends it as one would."""

from __future__ import annotations

import ast
import difflib
import subprocess
import sys
from pathlib import Path

import pytest

from gradlint.config import Layer, Settings
from gradlint.config.reading import ConfigError
from gradlint.engine import lint
from gradlint.model import FixSafety
from gradlint.registry import all_rules, by_code
from gradlint.runtime.prove.case import Case, all_cases, chosen, proofs
from gradlint.runtime.prove.proving import BY_HAND, PairError, pair
from tests.patience import PATIENCE
from tests.rules.expectations import expectations
from tests.sampling import spread

CASES = {case.code: case for case in all_cases()}
#: what the project promises to prove: every rule that does not say why no run can show it
PROMISED = [rule.meta.code for rule in all_rules() if not rule.meta.unshowable]

#: the lines that a fix takes away, and those that it writes
_CLIP = "nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)"
_LOG = "log.append(torch.stack([p.grad.norm() for p in model.parameters()]).norm().item())"
_STACK = [
    "    nn.Linear(8, 32), nn.Sigmoid(), nn.Linear(32, 32), nn.Sigmoid(), nn.Linear(32, 32), nn.Sigmoid(),",
    "    nn.Linear(32, 32), nn.Sigmoid(), nn.Linear(32, 32), nn.Sigmoid(), nn.Linear(32, 32), nn.Sigmoid(),",
    "    nn.Linear(32, 32), nn.Sigmoid(), nn.Linear(32, 1),",
]
_BOUNDARY = "if (i + 1) % ACCUMULATION_STEPS == 0 or i + 1 == len(loader):"
MENDED: dict[str, tuple[list[str], list[str]]] = {
    "GL101": ([f"    {_CLIP}"], [f"    {_CLIP}"]),
    "GL102": (["    loss.backward()"], ["    loss.backward()"]),
    "GL103": ([f"    {_CLIP}"], [f"        {_CLIP}"]),
    "GL104": (["    nn.utils.clip_grad_value_(model.parameters(), clip_value=1.0)"], [f"    {_CLIP}"]),
    "GL106": (["parameters = model.parameters()"], ["parameters = list(model.parameters())"]),
    "GL108": ([], [f"    {_CLIP}"]),
    "GL110": ([f"    {_CLIP.replace('norm_(', 'norm(')}"], [f"    {_CLIP}"]),
    "GL111": ([f"    {_CLIP}"], [f"    {_CLIP}"]),
    "GL112": ([f"    {_LOG}"], [f"    {_LOG}"]),
    "GL201": ([], ["    scaler.unscale_(optimizer)"]),
    "GL202": (["    scaler.unscale_(optimizer)"], []),
    "GL203": (["    optimizer.step()"], ["    scaler.step(optimizer)"]),
    "GL204": ([], ["    scaler.update()"]),
    "GL205": (["    scaler.unscale_(optimizer)"], ["        scaler.unscale_(optimizer)"]),
    "GL206": (["    loss.backward()"], ["    scaler.scale(loss).backward()"]),
    "GL207": (["    scaler.unscale_(optimizer)"], ["    scaler.unscale_(optimizer)"]),
    "GL208": (["        loss.backward()"], ["    loss.backward()"]),
    "GL210": (
        ["    with torch.cpu.amp.autocast(dtype=torch.bfloat16):"],
        ['    with torch.amp.autocast("cpu", dtype=torch.bfloat16):'],
    ),
    "GL211": (["    scaler.unscale_(optimizer)"], ["    scaler.unscale_(optimizer)"]),
    "GL213": (["    scaler.update()"], []),
    "GL301": (["    loss.backward()"], ["    (loss / ACCUMULATION_STEPS).backward()"]),
    "GL302": (
        [
            "    loss.backward()",
            "    for p in model.parameters():",
            "        if p.grad is not None:",
            "            p.grad.div_(ACCUMULATION_STEPS)",
        ],
        ["    (loss / ACCUMULATION_STEPS).backward()"],
    ),
    "GL304": (["        if (i + 1) % ACCUMULATION_STEPS == 0:"], [f"        {_BOUNDARY}"]),
    "GL305": (["    scheduler.step()"], ["        scheduler.step()"]),
    "GL306": (
        ["            loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS"],
        ["            loss = nn.functional.mse_loss(model(x), y)"],
    ),
    "GL308": (["    if i % ACCUMULATION_STEPS == 0 or i + 1 == len(loader):"], [f"    {_BOUNDARY}"]),
    "GL401": ([], ["    optimizer.zero_grad()"]),
    "GL402": (["    optimizer.zero_grad()"], ["        optimizer.zero_grad()"]),
    "GL403": (["    optimizer.zero_grad()"], ["    optimizer.zero_grad()"]),
    "GL404": (["    loss.backward()"], ["    loss.backward()"]),
    "GL405": (["    optimizer.step  # noqa: B018"], ["    optimizer.step()  # noqa: B018"]),
    "GL406": (["    optimizer.step()"], ["    optimizer.step()"]),
    "GL501": (
        ["    loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS", "    loss.backward()"],
        [
            "",
            "from contextlib import nullcontext",
            "    with (",
            "        nullcontext()",
            "        if (i + 1) % ACCUMULATION_STEPS == 0 or i + 1 == len(loader)",
            "        else model.no_sync()",
            "    ):",
            "        loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS",
            "        loss.backward()",
        ],
    ),
    "GL502": (
        ["    loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS"],
        ["        loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS"],
    ),
    "GL503": (
        ["    with model.no_sync() if last else nullcontext():"],
        ["    with nullcontext() if last else model.no_sync():"],
    ),
    "GL504": (
        ["import torch.distributed as dist", "    for p in model.parameters():", "        dist.all_reduce(p.grad)"],
        [],
    ),
    "GL505": ([f"    {_CLIP}"], ["    model.clip_grad_norm_(max_norm=1.0)"]),
    "GL601": (
        ["    loss = -torch.log(prediction).mean()"],
        ["    loss = -torch.log(prediction.clamp_min(1e-6)).mean()"],
    ),
    "GL603": (["    loss = torch.sqrt((prediction - y) ** 2).mean()"], ["    loss = (prediction - y).abs().mean()"]),
    "GL604": (
        ["    loss = torch.log(torch.exp(logits).sum(dim=1)).mean()"],
        ["    loss = torch.logsumexp(logits, dim=1).mean()"],
    ),
    "GL605": (
        ["    loss = -torch.log(torch.softmax(logits, dim=1))[:, 1].mean()"],
        ["    loss = -torch.log_softmax(logits, dim=1)[:, 1].mean()"],
    ),
    "GL606": (
        [
            "    probabilities = torch.softmax(model(x), dim=1)",
            "    loss = nn.functional.cross_entropy(probabilities, labels)",
        ],
        ["    raw_logits = model(x)", "    loss = nn.functional.cross_entropy(raw_logits, labels)"],
    ),
    "GL701": (_STACK, [line.replace("Sigmoid", "ReLU") for line in _STACK]),
    "GL702": (
        ["    hidden = checkpoint(model[:2], x)"],
        ["    hidden = checkpoint(model[:2], x, use_reentrant=False)"],
    ),
}


def _settings(code: str) -> Settings:
    return Settings(layers=(Layer(extend_select=(code,), fixable=(code,)),))


def test_what_is_promised_is_there() -> None:
    assert list(CASES) == PROMISED


def test_every_script_belongs_to_a_case() -> None:
    used = {case.script for case in CASES.values()}
    used |= {case.right for case in CASES.values() if case.right is not None}
    assert set(proofs().glob("*/proof*.py")) == used


@pytest.mark.parametrize("case", spread(list(CASES.values()), 12), ids=lambda case: case.code)
def test_the_linter_finds_it_and_nothing_else(case: Case) -> None:
    text = case.script.read_text(encoding="utf-8")
    findings = lint(text.encode(), case.script.name, _settings(case.code)).findings
    expected = [(expectation.line, expectation.code) for expectation in expectations(text)]
    assert [(finding.span.start.row, finding.code) for finding in findings] == expected
    assert [code for _, code in expected] == [case.code]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.code)
def test_the_fixed_copy(case: Case) -> None:
    made = pair(case)
    ast.parse(made.after)
    assert made.left == 0
    assert lint(made.after.encode(), case.script.name, _settings(case.code)).findings == ()
    if by_code()[case.code].meta.fix is FixSafety.NONE:
        assert made.fix == BY_HAND
    else:
        assert made.fix == by_code()[case.code].meta.fix.value
        assert _changed(made.before, made.after) == MENDED[case.code]


def _changed(before: str, after: str) -> tuple[list[str], list[str]]:
    lines = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    return [line[2:] for line in lines if line[0] == "-"], [line[2:] for line in lines if line[0] == "+"]


def test_a_script_without_the_mistake_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["GL101"]
    (tmp_path / "clip_after_step").mkdir()
    (tmp_path / "clip_after_step" / "proof.py").write_text("print('nothing to find')\n", encoding="utf-8")
    monkeypatch.setattr("gradlint.runtime.prove.case.proofs", lambda: tmp_path)
    with pytest.raises(PairError, match="does not find GL101"):
        pair(case)


def test_choosing() -> None:
    assert [case.code for case in chosen(())] == sorted(CASES)
    assert [case.code for case in chosen(["gl301", "missing-no-sync"])] == ["GL301", "GL501"]
    assert [case.code for case in chosen(["GL4"])] == ["GL401", "GL402", "GL403", "GL404", "GL405", "GL406"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [("GL999", "did you mean"), ("clip-after-stop", "`clip-after-step`"), ("GL703", "no run can show GL703")],
)
def test_choosing_what_is_not_there(wrong: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        chosen([wrong])


@pytest.mark.slow
def test_choosing_costs_no_torch() -> None:
    script = "import sys, gradlint.runtime.prove.proving as p, gradlint.runtime.prove.case as c; c.all_cases(); "
    script += "print('torch' in sys.modules)"
    outcome = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert outcome.stdout.strip() == "False"
