"""The documentation is made from the rules; these tests fail when it is stale."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from types import ModuleType

import pytest

from gradlint.config.schema import KEYS, settings_from
from gradlint.docs.pages import page
from gradlint.docs.table import rule_table, with_table
from gradlint.registry import all_rules
from gradlint.rule import Rule

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_rule_table_is_up_to_date() -> None:
    assert with_table(README, rule_table()) == README, "run: python docs/make_readme.py"


def test_the_readmes_configuration_is_valid_and_shows_every_key() -> None:
    tomllib = pytest.importorskip("tomllib")
    (block,) = re.findall(r"```toml\n(.*?)```", README, flags=re.DOTALL)
    table = tomllib.loads(block)["tool"]["gradlint"]
    assert set(table) == set(KEYS)
    settings_from(table, "README.md")


def test_the_readmes_files_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_shows_what_the_example_gives_today() -> None:
    """Compares the words, since another version of rich may draw them differently."""
    script = _script("make_screenshot")
    assert _words(script.picture()) == _words(script.PICTURE.read_text(encoding="utf-8")), (
        "run: python docs/make_screenshot.py"
    )


def _words(svg: str) -> list[str]:
    return re.findall(r"GL\d{3}|[a-z]+(?:-[a-z]+){1,4}(?=<)", re.sub(r"<style>.*?</style>", "", svg, flags=re.DOTALL))


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
