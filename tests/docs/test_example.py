"""The examples on the rules' pages, beside what the fixer really makes of them."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from gradlint.config import Layer, Settings
from gradlint.docs.example import Comparison, Row, comparison, example, page_with_fix, record_with_fix
from gradlint.docs.pages import page, sections
from gradlint.docs.terminal import terminal_page
from gradlint.engine import lint
from gradlint.model import FixSafety
from gradlint.registry import all_rules, by_code
from gradlint.rule import Rule
from tests.sampling import sample, spread

IN_TWO_WIDTHS = sample(all_rules(), 14)
every_rule = pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.meta.code)

#: where the page gives other advice than the fixer follows, and why
OTHER_ADVICE = {
    "GL112": "the norm that the clip returns is the better thing to log; the fixer keeps what the user logs",
    "GL402": "clears once more in front of the loop, in case the model comes with gradients",
}


def _compared(rule: type[Rule]) -> Comparison:
    found = comparison(rule)
    assert found is not None, f"{rule.meta.code} has no fix for its own example"
    return found


@pytest.mark.parametrize("rule", spread(all_rules(), 14), ids=lambda rule: rule.meta.code)
def test_the_page_shows_what_the_fix_makes_of_the_example(rule: type[Rule]) -> None:
    """All in one test, because each of these needs the same fix."""
    text = page_with_fix(rule)
    if rule.meta.fix is FixSafety.NONE:
        assert text == page(rule)
        return
    compared = _compared(rule)
    _is_shown_as_a_diff(rule, text)
    _has_all_lines_of_both_sides(rule, compared)
    _is_clean(rule, compared.fixed)
    follows = sections(rule)["Use instead"] == f"```python\n{compared.fixed}```"
    assert follows is (rule.meta.code not in OTHER_ADVICE), "the page recommends something else"


def _is_shown_as_a_diff(rule: type[Rule], text: str) -> None:
    (block,) = re.findall(r"```diff\n(.*?)\n```\n\n## Fix safety\n", text, flags=re.DOTALL)
    assert "".join(f"{line[1:]}\n" for line in block.splitlines() if line[0] != "+") == example(rule)
    assert ("--unsafe-fixes" in text) is (rule.meta.fix is FixSafety.UNSAFE)


def _has_all_lines_of_both_sides(rule: type[Rule], compared: Comparison) -> None:
    assert [row.bad for row in compared.rows if row.bad is not None] == example(rule).splitlines()
    assert [row.fixed for row in compared.rows if row.fixed is not None] == compared.fixed.splitlines()
    assert any(row.changed for row in compared.rows)


def _is_clean(rule: type[Rule], fixed: str) -> None:
    settings = Settings(layers=(Layer(extend_select=(rule.meta.code,)),))
    found = lint(fixed.encode(), "example.py", settings).findings
    assert [(f.code, f.span.start.row) for f in found if f.code == rule.meta.code] == []


def test_lines_that_were_indented_stand_beside_themselves() -> None:
    compared = Comparison("a()  # too early\nb()\nc()\n", "with x:\n    a()\nb()\nd()\n", "")
    assert compared.rows == [
        Row(None, "with x:", True),
        Row("a()  # too early", "    a()", True),
        Row("b()", "b()", False),
        Row("c()", "d()", True),
    ]
    assert list(compared.diff()) == ["-a()  # too early", "+with x:", "+    a()", " b()", "-c()", "+d()"]


def test_remarks_go_and_pragmas_stay() -> None:
    """A remark on a line that is not changed does not make it a changed one."""
    assert "# params is empty by now" in example(by_code()["GL106"])
    compared = _compared(by_code()["GL106"])
    assert "#" not in compared.fixed
    assert [row.fixed for row in compared.rows if row.changed] == ["params = list(model.parameters())"]
    assert "# gradlint: ignore" in _compared(by_code()["GL901"]).bad


def test_a_record_holds_the_code() -> None:
    record = record_with_fix(by_code()["GL401"])
    assert record["example"] == example(by_code()["GL401"])
    assert record["fixed"] == _compared(by_code()["GL401"]).fixed
    assert record_with_fix(by_code()["GL105"])["fixed"] is None


def _terminal(rule: type[Rule], width: int) -> list[str]:
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=True, no_color=True, legacy_windows=False)
    console.print(*terminal_page(rule, width), sep="\n")
    text = re.sub(r"\x1b\][^\\]*\x1b\\|\x1b\[[0-9;]*m", "", stream.getvalue())
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.slow
@every_rule
def test_a_page_fits_the_terminal(rule: type[Rule]) -> None:
    for width in (40, 100) if rule in IN_TWO_WIDTHS else (40,):
        lines = _terminal(rule, width)
        assert max(map(len, lines)) <= width
        assert "".join("".join(lines).split()).count("Knownlimits") == 1


def test_a_narrow_terminal_shows_one_below_the_other() -> None:
    lines = _terminal(by_code()["GL401"], 80)
    start, made = lines.index("Example"), lines.index("After gradlint check --fix")
    assert lines[start + 2 : made - 1] == [f"  {line}" for line in example(by_code()["GL401"]).splitlines()]
    assert lines[made + 5] == "+         optimizer.zero_grad()"
    assert "Use instead" not in lines


def test_a_wide_terminal_shows_two_columns() -> None:
    lines = _terminal(by_code()["GL401"], 100)
    (start,) = [n for n, line in enumerate(lines) if re.fullmatch(r"Example {10,}After gradlint check --fix", line)]
    head = "  def train(model, loader, criterion):"
    assert lines[start + 2] == head.ljust(51) + head.rstrip()
    assert " " * 51 + "+         optimizer.zero_grad()" in lines


def test_long_lines_are_folded() -> None:
    lines = _terminal(by_code()["GL101"], 100)
    at = next(n for n, line in enumerate(lines) if line.startswith("-"))
    assert [line[:49].rstrip() for line in lines[at : at + 3]] == [
        "-     torch.nn.utils.clip_grad_norm_(",
        "-         model.parameters(), max_norm=1.0)",
        "-         # too late",
    ]


def test_advice_that_the_fixer_does_not_follow_is_shown_as_well() -> None:
    assert "Use instead" in _terminal(by_code()["GL112"], 120)


def test_without_a_fix_the_page_stays_as_it_is() -> None:
    lines = _terminal(by_code()["GL105"], 120)
    assert "Use instead" in lines
    assert not [line for line in lines if line.startswith("After gradlint")]
