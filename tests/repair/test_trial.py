"""What is offered, what is not and why, and what it costs to find out."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from typing import Any

import pytest

from gradlint.config import Layer, Settings
from gradlint.engine import fix, lint
from gradlint.events import Clip, Event, Step
from gradlint.inquiry import Inquiry, Reading
from gradlint.machine import effects
from gradlint.machine.effects import Licence
from gradlint.machine.judge import Judge
from gradlint.model import FileResult, FixSafety, Severity
from gradlint.python import lower
from gradlint.python import syntax as s
from gradlint.python.anchor import Anchors
from gradlint.python.lower import Lowering
from gradlint.python.source import Source
from gradlint.repair import bench
from gradlint.repair.change import Change
from gradlint.repair.document import Document
from gradlint.repair.edits import applied
from gradlint.repair.nodes import NotFixable
from gradlint.repair.trial import newly_unswitched
from gradlint.rule import Draft, Repair
from gradlint.states import Path
from tests.rules.expectations import FIXTURES
from tests.sources import CLIP_AFTER_STEP

NORM_USED = """\
import torch


def train(model, optimizer, loader, accum):
    optimizer.zero_grad()
    for i, batch in enumerate(loader):
        (model(batch).mean() / accum).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
        print(norm)
"""


def test_a_refusal_has_a_reason() -> None:
    result = lint(NORM_USED.encode(), "train.py", Settings())
    assert [(f.code, f.fix) for f in result.findings] == [("GL103", None)]
    assert result.notes == ("8:16: GL103 has no fix here: `norm` would be used where it may not be bound",)


def test_what_is_not_to_be_fixed_is_not_offered() -> None:
    settings = Settings(layers=(Layer(unfixable=("GL1",)),))
    assert [f.fix for f in lint(CLIP_AFTER_STEP.encode(), "train.py", settings).findings] == [None]


def test_what_a_fix_uncovers_is_mended_with_it() -> None:
    scaled = CLIP_AFTER_STEP.replace("loss.backward()", "scaler.scale(loss).backward()").replace(
        "optimizer.step()", "scaler.step(optimizer)\n        scaler.update()"
    )
    source = scaled.replace("(model, optimizer,", "(model, optimizer, scaler,")
    (finding,) = lint(source.encode(), "train.py", Settings()).findings
    assert finding.code == "GL101"
    assert finding.fix is not None
    assert finding.fix.safety is FixSafety.SAFE
    assert "scaler.unscale_(optimizer)\n" in applied(source, finding.fix.edits)


def test_a_path_that_was_not_followed_to_its_end_has_no_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind its end might be changed, too."""
    monkeypatch.setattr("gradlint.paths.explorer.PATH_BUDGET", 60)
    result = lint(CLIP_AFTER_STEP.encode(), "train.py", Settings())
    assert [(f.code, f.fix) for f in result.findings] == [("GL101", None)]
    assert result.notes == ("10:9: GL101 has no fix here: the code is too long to follow to its end",)


@pytest.mark.parametrize("given", ["0", "-1", "'adam'", "first if warm else second", "first or second"])
def test_a_clearing_is_not_made_of_what_has_no_name(given: str) -> None:
    """`0.zero_grad()` does not parse, and `first or second.zero_grad()` clears only the second."""
    source = f"""\
def train(model, scaler, loader, first, second, warm):
    for x in loader:
        scaler.scale(model(x).mean()).backward()
        scaler.step({given})
        scaler.update()
"""
    result = lint(source.encode(), "train.py", Settings())
    assert result.crashes == ()
    assert [(f.code, f.fix) for f in result.findings] == [("GL401", None)]
    assert result.notes == ("3:9: GL401 has no fix here: its optimizer has no name",)


def test_a_statement_that_does_not_parse_is_refused() -> None:
    anchors = Inquiry([], None, {}).lowered(Source.of("x = 1\n")).anchors
    document = Document(anchors)
    with pytest.raises(NotFixable, match=r"`0\.zero_grad\(\)` would not parse"):
        document.new("0.zero_grad()", document.root)


def test_a_fixer_that_fails_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> str:
        raise KeyError("oops")

    monkeypatch.setattr("gradlint.repair.document.Document.text", failing)
    result = lint(CLIP_AFTER_STEP.encode(), "train.py", Settings())
    assert result.crashes == ()
    assert [(f.code, f.fix) for f in result.findings] == [("GL101", None)]
    assert result.notes == ("10:9: GL101 has no fix here: its fixer failed: KeyError: 'oops'",)


def test_a_rule_that_fails_on_the_result_takes_the_fix_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file as it is was judged by all rules, so the run has not failed."""
    asked = Judge.judge

    def failing(self: Judge, path: Path) -> Iterator[Draft]:
        order = [type(event) for event in path.events if isinstance(event, Clip | Step)]
        if order[:1] == [Clip]:
            self._rules._on_crash("GL103", KeyError("oops"))
        return asked(self, path)

    monkeypatch.setattr(Judge, "judge", failing)
    result = lint(CLIP_AFTER_STEP.encode(), "train.py", Settings())
    assert (result.crashes, [f.fix for f in result.findings]) == ((), [None])
    assert result.notes == ("10:9: GL101 has no fix here: GL103 fails on the result",)


def test_an_error_may_leave_advice() -> None:
    """The clearing goes behind the step; that the last window is dropped (GL304) is no reason to keep the error."""
    source = """\
def train(model, loader, optimizer, loss_fn, n):
    for i, (x, y) in enumerate(loader):
        (loss_fn(model(x), y) / n).backward()
        if (i + 1) % n == 0:
            optimizer.step()
        optimizer.zero_grad()
"""
    fixed = fix(source.encode(), "train.py", Settings(), unsafe=False)
    assert fixed.source.decode() == source.replace("        optimizer.zero_grad()", "            optimizer.zero_grad()")
    assert [(f.code, f.severity) for f in fixed.result.findings] == [("GL304", Severity.ADVICE)]


def test_rules_that_are_off_are_watched_all_the_same() -> None:
    """Selecting one rule does not make its fix careless of the others."""
    only = Settings(layers=(Layer(select=("GL101",)),))
    usual = lint(CLIP_AFTER_STEP.encode(), "train.py", Settings()).findings[0].fix
    assert lint(CLIP_AFTER_STEP.encode(), "train.py", only).findings[0].fix == usual


SWITCHED = "def f(scaler, loss, opt, amp):\n    if amp:\n        scaler.step(opt)\n    else:\n        opt.step()\n"


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ("    scaler.unscale_(opt)\n", ("scaler",)),
        ("    if amp:\n        scaler.unscale_(opt)\n", ()),
        ("    scaler.update() if amp else None\n", ()),
        ("    if opt:\n        scaler.update()\n", ("scaler",)),
    ],
)
def test_a_scaler_stays_under_its_flag(added: str, expected: tuple[str, ...]) -> None:
    assert newly_unswitched(ast.parse(SWITCHED), ast.parse(SWITCHED + added)) == expected


def test_a_scaler_behind_an_early_return_stays_there() -> None:
    guard = "def f(scaler, opt):\n    if scaler is None:\n        return opt.step()\n"
    before = ast.parse(guard + "    scaler.step(opt)\n")
    assert newly_unswitched(before, ast.parse(guard + "    scaler.unscale_(opt)\n    scaler.step(opt)\n")) == ()
    early = guard.replace("opt):\n", "opt):\n    scaler.unscale_(opt)\n", 1)
    assert newly_unswitched(before, ast.parse(early + "    scaler.step(opt)\n")) == ("scaler",)


LOOP = """\
def train_{n}(model, loader, optimizer):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""
HELPED = f"""\
{LOOP}        log(x)
"""
METHOD = """\
    def train_{n}(self, loader):
        for x in loader:
            self.optimizer.zero_grad()
            self.model(x).mean().backward()
            self.optimizer.step()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
"""
TRAINER = """\
class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

"""


def _loops(count: int, head: str = "", loop: str = LOOP) -> str:
    gap = "\n" if loop is METHOD else "\n\n"
    return f"import torch\n\n\n{head}" + gap.join(loop.format(n=n) for n in range(count))


def _costs(source: str, monkeypatch: pytest.MonkeyPatch) -> tuple[FileResult, int, list[Reading]]:
    """What is said of a text, the steps that this took, and the readings of the trials."""
    readings: list[Reading] = []
    asked = Inquiry.asked

    def counted(self: Inquiry, *given: Any) -> Reading:
        readings.append(asked(self, *given))
        return readings[-1]

    with monkeypatch.context() as patched:
        patched.setattr(Inquiry, "asked", counted)
        result = lint(source.encode(), "train.py", Settings())
    return result, readings[0].steps, readings[1:]


def _steps(readings: list[Reading]) -> int:
    return sum(reading.steps for reading in readings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "head", "loop"),
    [(80, "def log(x):\n    print(x)\n\n\n", HELPED), (20, "", LOOP), (20, TRAINER, METHOD)],
    ids=["loops that share a helper", "loops", "methods"],
)
def test_a_trial_costs_what_comes_by_the_change(
    count: int, head: str, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Each loop has a mistake: however many there are, a trial follows the paths of one of them."""
    some, _, few = _costs(_loops(10, head, loop), monkeypatch)
    more, whole, many = _costs(_loops(count, head, loop), monkeypatch)
    assert [len([f for f in x.findings if f.fix is not None]) for x in (some, more)] == [10, count]
    # each is read before its fix and after it
    assert (len(few), len(many)) == (20, 2 * count)
    followed = [{path.entry for path in reading.paths} - {""} for reading in many]
    assert followed == [{f"train_{n}"} for n in range(count) for _ in ("before", "after")]
    assert 10 * _steps(many) == count * _steps(few)
    assert _steps(many) <= 3 * whole


def test_what_a_trial_does_not_change_is_not_lowered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The helper is long, and every loop comes by it."""
    lowered: list[str] = []
    asked = Lowering._function

    def noted(self: Lowering, node: ast.FunctionDef | ast.AsyncFunctionDef) -> s.Stmt:
        lowered.append(node.name)
        return asked(self, node)

    monkeypatch.setitem(lower._STATEMENTS, ast.FunctionDef, noted)
    result = lint(_loops(8, "def log(x):\n    print(x)\n\n\n", HELPED).encode(), "train.py", Settings())
    assert all(finding.fix is not None for finding in result.findings)
    assert Counter(lowered) == {"log": 1, **{f"train_{n}": 2 for n in range(8)}}


@pytest.mark.slow
def test_a_change_of_what_all_come_by_is_tried_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each loop calls the function that steps, and the fix is made in that: nothing of the file may be left out."""
    step = """\
def step(model, optimizer):
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


"""
    loop = """\
def train_{n}(model, loader, optimizer):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        step(model, optimizer)
"""
    result, _, trials = _costs(_loops(8, step, loop), monkeypatch)
    assert [(f.code, f.fix is not None) for f in result.findings] == [("GL101", True)]
    assert {path.entry for path in trials[-1].paths} >= {f"train_{n}" for n in range(8)}


def _definitions(path: FilePath, number: int) -> tuple[list[str], str] | None:
    """The imports and the definitions of a fixture, with names of their own; None if there is anything else in it."""
    source = path.read_text(encoding="utf-8")
    found = ast.parse(source).body[1:]
    plain = [x for x in found if isinstance(x, ast.Import | ast.ImportFrom)]
    defined = [x for x in found if isinstance(x, ast.FunctionDef | ast.ClassDef)]
    if len(plain) + len(defined) < len(found) or not defined:
        return None
    code = "\n\n\n".join(ast.unparse(x) for x in defined)
    for name in {x.name for x in defined}:
        code = re.sub(rf"\b{name}\b", f"{name}_{number}", code)
    return [ast.unparse(x) for x in plain], code


def _joined(paths: Iterable[FilePath]) -> str:
    """One file of several fixtures."""
    parts = [found for n, path in enumerate(paths) if (found := _definitions(path, n)) is not None]
    imports = dict.fromkeys(line for lines, _ in parts for line in lines)
    return "\n\n\n".join(["\n".join(imports), *(code for _, code in parts)]) + "\n"


BAD = sorted(FIXTURES.glob("*/bad*.py"))
LARGE = [_joined(BAD[first::90]) for first in (0, 45)]


@pytest.mark.slow
@pytest.mark.parametrize("source", LARGE, ids=["one", "another"])
def test_a_part_is_judged_as_the_whole_file(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixtures of all kinds in one file: what comes by a change is less than half of it, and the fixes are the same."""
    monkeypatch.setattr("gradlint.repair.trial._LEAST", 10**6)
    part, _, trials = _costs(source, monkeypatch)
    monkeypatch.setattr(Change, "is_apart", lambda *_: False)
    full, _, more = _costs(source, monkeypatch)
    assert sum(finding.fix is not None for finding in part.findings) > 5
    assert (part.findings, part.notes, part.crashes) == (full.findings, full.notes, ())
    assert 2 * _steps(trials) < _steps(more)


@pytest.mark.slow
def test_trials_cost_at_most_three_times_what_linting_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, every fix concerns all; the advice at the head of the file has to wait until the errors were tried."""
    monkeypatch.setattr("gradlint.repair.trial._LEAST", 0)
    loops = _loops(8).removeprefix("import torch").replace("def train_", "# ").replace("\n    ", "\n")
    advice = "from torch.utils.checkpoint import checkpoint\nhidden = checkpoint(block, x)\n"
    result, whole, trials = _costs(f"import torch\n{advice}{loops}", monkeypatch)
    assert 0 < _steps(trials) <= 3 * whole
    fixed = [f.severity for f in result.findings if f.fix is not None]
    assert 0 < len(fixed) < len(result.findings)
    assert set(fixed) == {Severity.ERROR} < {f.severity for f in result.findings}
    spent = [note for note in result.notes if note.endswith("the steps for trying fixes in this file are spent")]
    assert len(spent) == len(result.findings) - len(fixed)


def _updates(count: int) -> bytes:
    """A loop with so many updates, of which nobody clears anything: a finding each, and one fix for all of them."""
    update = "    loss.backward()\n    optimizer.step()\n"
    return f"import torch\nfor x in loader:\n    loss = model(x)\n{update * count}".encode()


def test_what_is_mended_in_one_long_loop_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each repair goes through all events of the path: findings times events, once, however many there were."""
    gone_through: list[int] = []
    carried_out = bench.carried_out

    def counted(repair: Repair, anchors: Anchors, origins: Any, events: Iterable[Event]) -> str | NotFixable:
        gone_through.append(len([*events]))
        return carried_out(repair, anchors, origins, events)

    monkeypatch.setattr(bench, "carried_out", counted)
    result = lint(_updates(50), "train.py", Settings())
    assert len(result.findings) == 50
    assert sum(gone_through) <= 12_000, "the least that a file may spend on trials, and one more"
    spent = [note for note in result.notes if note.endswith("the steps for trying fixes in this file are spent")]
    assert 0 < len(spent) == sum(f.fix is None for f in result.findings) < 50


def test_findings_that_share_a_fix_share_what_is_said_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Licence] = []
    harm = effects.harm

    def counted(before: Iterable[Path], after: Iterable[Path], licence: Licence) -> str | None:
        asked.append(licence)
        return harm(before, after, licence)

    monkeypatch.setattr("gradlint.repair.trial.harm", counted)
    result = lint(_updates(8), "train.py", Settings())
    assert [f.fix is not None for f in result.findings] == [True] * 8
    assert len({f.fix.edits for f in result.findings if f.fix is not None}) == 1
    assert len(asked) == 1
