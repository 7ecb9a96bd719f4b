"""What really happens: the tables that were measured on torch, and the pages that show them."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from docs.facts import differences, same, shown
from gradlint.docs.pages import COLUMNS, HEADING, Facts, Row, all_facts, facts, page, record
from gradlint.docs.terminal import terminal_page
from gradlint.registry import all_rules, by_code
from gradlint.rule import Rule
from gradlint.runtime.prove.case import Value, all_cases
from tests.patience import PATIENCE
from tests.sampling import sample

ROOT = Path(__file__).resolve().parent.parent.parent
MEASURED = [rule for rule in all_rules() if not rule.meta.unshowable or rule.meta.code in all_facts()]
UNMEASURED = sorted(by_code().keys() - {rule.meta.code for rule in MEASURED})
every_measured_rule = pytest.mark.parametrize("rule", MEASURED, ids=lambda rule: rule.meta.code)


def _facts(rule: type[Rule]) -> Facts:
    found = facts(rule.meta.code)
    assert found is not None, f"{rule.meta.code} has no table, and does not say why"
    return found


@every_measured_rule
def test_every_rule_has_a_table(rule: type[Rule]) -> None:
    found = _facts(rule)
    assert found.setting.endswith(".")
    assert 2 <= len(found.rows) <= 4
    assert len({row.what for row in found.rows}) == len(found.rows)
    assert all(cell and cell == " ".join(cell.split()) for row in found.rows for cell in row.cells)


@every_measured_rule
def test_every_table_shows_a_difference(rule: type[Rule]) -> None:
    assert any(row.mistake != row.right for row in _facts(rule).rows)


def test_every_table_belongs_to_a_rule() -> None:
    assert {*all_facts()} <= {*by_code()}
    assert UNMEASURED, "comments and files that cannot be read have nothing to measure"


@every_measured_rule
def test_the_page_shows_the_table_above_the_example(rule: type[Rule]) -> None:
    text, found = page(rule), _facts(rule)
    (shown,) = re.findall(rf"^## {HEADING}\n(.*?)\n## Example\n", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for line in shown.splitlines() if line.startswith("| ")]
    assert [re.split(r" (?<!\\)\| ", line[2:-2]) for line in lines if "---" not in line] == [
        list(COLUMNS),
        *([cell.replace("|", "\\|") for cell in row.cells] for row in found.rows),
    ]
    assert found.origin in shown
    assert f"`gradlint prove {rule.meta.code}`" in found.origin


@pytest.mark.parametrize("code", UNMEASURED)
def test_a_page_with_nothing_to_measure_has_no_table(code: str) -> None:
    assert HEADING not in page(by_code()[code])
    assert record(by_code()[code])["facts"] is None


@pytest.mark.slow
@pytest.mark.parametrize("rule", sample(MEASURED, 17), ids=lambda rule: rule.meta.code)
def test_the_terminal_shows_the_table(rule: type[Rule]) -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=160, no_color=True)
    console.print(*terminal_page(rule, 160), sep="\n")
    words = " ".join(stream.getvalue().split())
    assert words.count(HEADING) == 1
    assert "Measured with torch" in words
    for heading in COLUMNS:
        assert heading in words
    for row in _facts(rule).rows:
        if len(row.mistake) < 30:  # longer ones are folded
            assert row.mistake.replace("`", "") in words


def test_a_record_holds_the_table() -> None:
    found = record(by_code()["GL101"])["facts"]
    assert found == _facts(by_code()["GL101"]).record()
    assert isinstance(found, dict)
    assert [set(row) for row in found["rows"]] == [{"what", "mistake", "right"}] * len(found["rows"])


def test_a_table_survives_bars_in_its_cells() -> None:
    table = Facts("GL101", "One.", (Row("|x|", "1", "2"),), "2.13.0").table()
    assert table.splitlines()[-1] == "| \\|x\\| | 1 | 2 |"


def test_pages_need_no_torch_and_the_module_no_json() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "import gradlint.docs.pages\n"
        "assert 'json' not in sys.modules\n"
        "print(gradlint.docs.pages.facts('GL101').torch)"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert outcome.stderr == ""
    assert outcome.stdout.strip() == _facts(by_code()["GL101"]).torch


@pytest.mark.parametrize(
    ("before", "now", "alike"),
    [
        ("37.2", "37.3", True),
        ("37.2", "37.4", False),
        ("9.99", "10.0", True),
        ("9.98", "10.1", False),
        ("0", "0.00100", False),
        ("1.53e-05", "1.54e-05", True),
        ("1.53e-05", "1.55e-05", False),
        ("1.53e-05", "1.53e-04", False),
        ("4", "5", False),
        ("4", "4.0", False),
        ("0.500, 0.250", "0.501, 0.250", True),
        ("0.500, 0.250", "0.500", False),
        ("-1.00", "1.00", False),
        ("nan", "inf", False),
        ("0 of 4; 0.258", "1 of 4; 0.258", False),
        ("RuntimeError: a", "RuntimeError: b", False),
        ("under 1e-06", "under 1e-05", False),
        ("over 1000", "999.0", False),
    ],
)
def test_what_counts_as_the_same(before: str, now: str, alike: bool) -> None:
    assert same(before, now) is alike


def test_a_stale_table_is_told() -> None:
    def table(code: str, value: str, *, setting: str = "One.", torch: str = "2.13.0", rows: int = 1) -> Facts:
        return Facts(code, setting, (Row("norm", value, "1.00"),) * rows, torch)

    kept = {code: table(code, "37.2") for code in ("GL101", "GL102", "GL103", "GL104", "GL105", "GL106")}
    fresh = {
        "GL101": table("GL101", "37.2"),
        "GL102": table("GL102", "12.0"),
        "GL103": table("GL103", "37.2", setting="Two."),
        "GL104": table("GL104", "37.2", torch="2.14.0"),
        "GL105": table("GL105", "37.2", rows=2),
        "GL107": table("GL107", "37.2"),
    }
    assert list(differences(kept, fresh)) == [
        "GL102: norm: 37.2 in the file, 12.0 measured",
        "GL103: 'One.' with torch 2.13.0 in the file, 'Two.' with 2.13.0 now",
        "GL104: 'One.' with torch 2.13.0 in the file, 'One.' with 2.14.0 now",
        "GL105: 1 rows in the file, 2 measured",
        "GL106: in the file, but there is no proof",
        "GL107: not in the file",
    ]


@pytest.mark.slow
def test_a_run_on_the_plainest_processor_says_the_same() -> None:
    """Without the vector instructions that the tables were measured with: sums come in another order.

    (A third of the tables, of those that need one process; `benchmarks.processors` runs all of them on every kind of
    processor.)
    """
    alone = [case.code for case in all_cases() if case.ranks == 1 and case.code in all_facts()]
    outcome = subprocess.run(
        [sys.executable, "-m", "docs.facts", "--check", *alone[::3]],
        cwd=ROOT,
        env={**os.environ, "ATEN_CPU_CAPABILITY": "default"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize(
    ("name", "value", "half", "said"),
    [
        ("norm_at_step", 196.6323, False, "196.6"),
        ("norm_at_step", 1.00000008, False, "1.00"),
        ("norm_at_step", 2e-43, False, "under 1e-06"),
        ("relative_error", 8.6e-8, False, "under 0.0001"),
        ("relative_error", 0.0, False, "under 0.0001"),
        ("relative_error", 0.0005, True, "under 0.02"),
        ("gradient_to_large_batch", 1024.18, True, "about 1024"),
        ("gradient_to_large_batch", 0.000977, True, "about 1/1024"),
        ("gradient_to_large_batch", 1.0002, True, "about 1"),
        ("gradient_to_large_batch", 0.0, False, "0"),
        ("clips_per_update", 4.0, False, "4"),
        ("share_of_updates_clipped", 0.2, False, "20 %"),
        ("micro_batches_per_update", [4, 4, 2], False, "4, 4, 2"),
        ("updates", 4, True, "4"),
        ("exception", None, False, "none"),
    ],
)
def test_numbers_hold_on_another_machine(name: str, value: Value, half: bool, said: str) -> None:
    """Rounding is told by its bound, half precision by what it is near."""
    assert shown(name, value, half) == said
