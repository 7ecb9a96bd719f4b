"""The documentation is made from the rules; these tests fail when it is stale."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from docs import hooks, picture
from docs.table import placed, rule_table
from gradlint.config.schema import settings_from
from gradlint.docs.pages import page
from gradlint.registry import all_rules
from gradlint.rule import HOOKS, Rule

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_rule_table_is_up_to_date() -> None:
    assert placed(README, "rules", rule_table()) == README, "run: python -m docs"


def test_the_tables_for_rule_writers_are_up_to_date() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert placed(text, "hooks", hooks.tables()) == text, "run: python -m docs"


def test_the_tables_for_rule_writers_say_something_of_everything() -> None:
    rows = [line.strip("| ").split(" | ") for line in hooks.tables().splitlines() if line.startswith("| ")]
    assert [row for row in rows if not all(cell.strip() for cell in row)] == []
    assert {f"`{name}" for name in HOOKS} <= {row[0].partition("(")[0] for row in rows}


def _tables(text: str) -> list[dict[str, object]]:
    tomllib = pytest.importorskip("tomllib")
    blocks = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    return [tomllib.loads(block)["tool"]["gradlint"] for block in blocks]


def test_the_readmes_configuration_is_valid() -> None:
    (table,) = _tables(README)
    settings_from(table, "README.md")


def test_the_examples_on_configuration_are_valid() -> None:
    """(docs/reference.md, which is made, has every key.)"""
    for name in ("configure.md", "ci.md"):
        tables = _tables((ROOT / "docs" / name).read_text(encoding="utf-8"))
        assert tables
        for table in tables:
            settings_from(table, name)


def test_the_readme_is_short() -> None:
    """What is said at length has its place in docs/."""
    assert len(README.split()) < 2000


@pytest.mark.slow
def test_the_picture_shows_what_the_example_gives_today() -> None:
    """Compares the words, since another version of rich may draw them differently."""
    drawn, kept = picture.picture(), picture.PICTURE.read_text(encoding="utf-8")
    assert picture.words(drawn) == picture.words(kept), "run: python -m docs"


def test_the_ci_runs_the_readmes_test_command() -> None:
    command = 'pip install -e ".[dev]" && pytest'
    assert command in README
    script = ROOT / ".ci" / "run"
    assert command in script.read_text(encoding="utf-8")
    assert os.access(script, os.X_OK)


@pytest.mark.slow
@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.meta.code)
def test_every_page_renders(rule: type[Rule]) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(record=True, width=100, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 # closed at exit
    console.print(Markdown(page(rule)))
    assert rule.meta.code in console.export_text()


def test_pictures_need_no_network() -> None:
    svg = (ROOT / "docs" / "check.svg").read_text(encoding="utf-8")
    assert "@font-face" not in svg
    assert set(re.findall(r"https?://[^\"' )]+", svg)) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
