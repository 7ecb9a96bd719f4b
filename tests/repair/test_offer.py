"""What is offered, what is not and why, and that edits say exactly what changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradlint.config import Layer, Settings
from gradlint.engine import fix, lint
from gradlint.events import Clip, Path, Step
from gradlint.inquiry import Inquiry, Reading
from gradlint.machine.judge import Judge
from gradlint.model import FileResult, FixSafety, Severity
from gradlint.python.source import Source, read
from gradlint.registry import by_code
from gradlint.repair.document import Document
from gradlint.repair.edits import applied, difference
from gradlint.repair.focus import Focus
from gradlint.repair.nodes import NotFixable
from gradlint.repair.switches import newly_unswitched
from gradlint.rule import Draft
from tests.searching import examples
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
            self._on_crash(by_code()["GL103"](), KeyError("oops"))
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


LINES = st.lists(st.sampled_from(["a\n", "b\n", "    c\n", "\n", "d\r\n", "\x0c\n", "e"]), max_size=12).map("".join)


@examples(200)
@given(old=LINES, new=LINES)
def test_edits_make_the_new_text_of_the_old(old: str, new: str) -> None:
    assert applied(old, difference(old, new, exact=True)) == new


def test_empty_lines_alone_are_no_fix() -> None:
    old = "a = 1\n\n\nb = 2\nc = 3\n"
    assert difference(old, "a = 1\n\nb = 2\nc = 3\n") == ()
    assert applied(old, difference(old, "a = 1\n\nb = 2\nc = 4\n")) == "a = 1\n\n\nb = 2\nc = 4\n"
    assert applied(old, difference(old, "a = 1\n\n\nc = 3\n")) == "a = 1\n\n\nc = 3\n"
    text = 's = """x\n\ny"""\n'
    assert applied(text, difference(text, 's = """x\ny"""\n')) == 's = """x\ny"""\n'


def test_an_edit_inside_a_line_names_only_what_changes() -> None:
    (edit,) = difference("x = 1\nloss.backward\n", "x = 1\nloss.backward()\n")
    assert (edit.span.start.row, edit.span.start.column, edit.span.end.column, edit.content) == (2, 14, 14, "()")


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


FILE = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(6)) + "def caller():\n    f1()\n    f2()\n"


def test_only_what_a_fix_concerns_is_looked_at() -> None:
    focus = Focus(Source.of(FILE))
    alone = focus.concerned(_tried(focus, FILE.replace("return 3", "return 33")))
    called = focus.concerned(_tried(focus, FILE.replace("return 1", "return 11")))
    assert (alone, called) == (frozenset({"f3"}), frozenset({"f1", "f2", "caller"}))
    assert focus.concerned(_tried(focus, FILE + "f1()\n")) is None, "the module itself was changed"
    assert ast.unparse(focus.narrowed(ast.parse(FILE), frozenset({"f3"}))) == "def f3():\n    return 3"
    left = ast.unparse(focus.narrowed(ast.parse(FILE + "f1()\n"), frozenset({"f3"})))
    assert left == "def f1():\n    pass\n\ndef f3():\n    return 3\nf1()"


def _tried(focus: Focus, text: str) -> ast.Module:
    found = focus.read(text)
    assert isinstance(found, Source)
    return found.tree


@pytest.mark.parametrize(
    "new",
    [
        FILE.replace("return 3", "return 33"),
        FILE.replace("    return 5\n\n\n", "    return 5\n    f1()\n"),
        FILE.replace("    return 5\n\n\n", '    return """5\n\n\n') + '"""\n',
        FILE.replace("def f3", "@cache\ndef f3"),
        FILE.replace("def f3():\n    return 3\n\n\n", ""),
        "import torch\n" + FILE,
        FILE + "    f3()",
        FILE.replace("return 3", "return \\\n        3"),
        FILE.replace("return 3\n\n\n", "return 3; \\\n\n\n"),
        FILE.replace("return 3", "return 3\r\n\x0c"),
        "",
    ],
)
def test_a_text_is_read_as_if_it_were_read_whole(new: str) -> None:
    found = Focus(Source.of(FILE)).read(new)
    whole = read(new.encode())
    assert type(found) is type(whole)
    if isinstance(found, Source) and isinstance(whole, Source):
        assert ast.dump(found.tree) == ast.dump(whole.tree)


@pytest.mark.parametrize("after", ["x = 1; y = 2\nz = 3\n", "x = 0; y = 1\nz = 4\n", "x = 0\ny = 1\nz = 3\n"])
def test_statements_that_share_a_row_are_read_together(after: str) -> None:
    assert ast.dump(_tried(Focus(Source.of("x = 0; y = 2\nz = 3\n")), after)) == ast.dump(ast.parse(after))


def _loops(count: int) -> str:
    return "".join(
        f"""def train_{n}(model, loader, optimizer):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


"""
        for n in range(count)
    )


def _costs(source: str, monkeypatch: pytest.MonkeyPatch) -> tuple[FileResult, int, list[int]]:
    """What is said of a text, the steps that this took, and those of each reading for trials."""
    steps: list[int] = []
    read_on = Inquiry.read

    def counted(self: Inquiry, *given: Any) -> Reading:
        reading = read_on(self, *given)
        steps.append(reading.steps)
        return reading

    with monkeypatch.context() as patched:
        patched.setattr(Inquiry, "read", counted)
        result = lint(source.encode(), "train.py", Settings())
    return result, steps[0], steps[1:]


def test_a_trial_costs_what_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    some, _, few = _costs(_loops(10), monkeypatch)
    more, whole, many = _costs(_loops(40), monkeypatch)
    assert [len([f for f in x.findings if f.fix is not None]) for x in (some, more)] == [10, 40]
    assert sum(many) == 4 * sum(few)
    assert sum(many) <= 3 * whole


def test_trials_cost_at_most_three_times_what_linting_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, every fix concerns all; the advice at the head of the file has to wait until the errors were tried."""
    monkeypatch.setattr("gradlint.repair.trial._LEAST", 0)
    loops = _loops(8).replace("def train_", "# ").replace("\n    ", "\n")
    advice = "from torch.utils.checkpoint import checkpoint\nhidden = checkpoint(block, x)\n"
    result, whole, trials = _costs(f"import torch\n{advice}{loops}", monkeypatch)
    assert 0 < sum(trials) <= 3 * whole
    fixed = [f.severity for f in result.findings if f.fix is not None]
    assert 0 < len(fixed) < len(result.findings)
    assert set(fixed) == {Severity.ERROR} < {f.severity for f in result.findings}
    spent = [note for note in result.notes if note.endswith("the steps for trying fixes in this file are spent")]
    assert len(spent) == len(result.findings) - len(fixed)
