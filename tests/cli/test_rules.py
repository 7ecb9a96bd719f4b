"""`gradlint rules`, `gradlint rule` and `gradlint new-rule`."""

from __future__ import annotations

import ast
import typing
from pathlib import Path

import pytest

from gradlint.docs.pages import SECTIONS
from gradlint.registry import all_rules
from gradlint.rule import HOOKS, Rule
from tests.cli.conftest import Command


def test_rules_lists_every_rule(gradlint: Command) -> None:
    lines = gradlint("rules").out.splitlines()
    assert [line.split()[0] for line in lines] == [rule.meta.code for rule in all_rules()]


def test_rules_as_json(gradlint: Command) -> None:
    records = gradlint("rules", "--output-format", "json").json()
    assert [record["code"] for record in records] == [rule.meta.code for rule in all_rules()]
    assert {"name", "category", "severity", "default", "fix", "summary", "options"} <= records[0].keys()


@pytest.mark.parametrize("word", ["GL901", "gl901", "unused-suppression", "unused_suppression"])
def test_rule_by_code_or_name(gradlint: Command, word: str) -> None:
    page = gradlint("rule", word).out
    assert page.startswith("# unused-suppression (GL901)\n")
    positions = [page.index(f"## {section}\n") for section in SECTIONS]
    assert positions == sorted(positions)


def test_rule_as_json(gradlint: Command) -> None:
    assert gradlint("rule", "GL900", "--output-format", "json").json()["name"] == "syntax-error"


def test_rule_as_json_holds_the_example_and_its_fix(gradlint: Command) -> None:
    record = gradlint("rule", "GL405", "--output-format", "json").json()
    assert "optimizer.zero_grad\n" in record["example"]
    assert record["fixed"] == record["example"].replace("optimizer.zero_grad\n", "optimizer.zero_grad()\n")


def test_a_page_that_is_piped_shows_the_fix_as_a_diff(gradlint: Command) -> None:
    page = gradlint("rule", "GL405").out
    assert "\n-        optimizer.zero_grad\n+        optimizer.zero_grad()\n" in page
    assert "\x1b" not in page


@pytest.mark.parametrize(("width", "beside"), [("80", False), ("100", True), ("140", True)])
def test_a_terminal_shows_the_fix_beside_the_example(
    gradlint: Command, monkeypatch: pytest.MonkeyPatch, width: str, beside: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setenv("NO_COLOR", "1")
    lines = gradlint("rule", "GL405").out.splitlines()
    assert any("Example" in line and "After gradlint check --fix" in line for line in lines) is beside


def test_an_unknown_rule_names_the_nearest(gradlint: Command) -> None:
    outcome = gradlint("rule", "unused-supression")
    assert outcome.code == 2
    assert outcome.err == "gradlint: error: unknown rule `unused-supression`; did you mean `unused-suppression`?\n"


@pytest.fixture
def checkout(project: Path) -> Path:
    for name in ("rules/__init__.py", "gradlint/registry.py"):
        (project / name).parent.mkdir()
        (project / name).write_text("")
    return project


def test_new_rule_writes_a_rule_and_its_fixtures(gradlint: Command, checkout: Path) -> None:
    outcome = gradlint("new-rule", "my-new-mistake", "--code", "GL199")
    assert outcome.code == 0
    source = (checkout / "rules" / "my_new_mistake.py").read_text()
    (found,) = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    assert found.name == "MyNewMistake"
    page = ast.get_docstring(found) or ""
    assert [f"## {section}" in page for section in SECTIONS] == [True] * len(SECTIONS)
    assert "# expect: GL199" in (checkout / "fixtures" / "my_new_mistake" / "bad.py").read_text()
    assert "expect" not in (checkout / "fixtures" / "my_new_mistake" / "good.py").read_text()
    assert gradlint("new-rule", "my-new-mistake", "--code", "GL199").code == 2


@pytest.mark.parametrize("hook", HOOKS)
def test_a_new_rule_of_every_hook_can_be_loaded(gradlint: Command, checkout: Path, hook: str) -> None:
    assert gradlint("new-rule", f"my-{hook[3:]}-mistake", "--code", "GL199", "--hook", hook[3:]).code == 0
    source = (checkout / "rules" / f"my_{hook[3:]}_mistake.py").read_text()
    names: dict[str, object] = {"__name__": "new"}
    exec(compile(source, "new.py", "exec"), names)
    (rule,) = [x for x in names.values() if isinstance(x, type) and issubclass(x, Rule) and x is not Rule]
    assert rule.hooks == {hook}
    assert bool(rule.calls) == (hook == "on_call")
    assert bool(rule.operations) == (hook == "on_operation")
    typing.get_type_hints(getattr(rule, hook), names)


def test_new_rule_with_an_unknown_hook(gradlint: Command, checkout: Path) -> None:
    outcome = gradlint("new-rule", "my-mistake", "--code", "GL199", "--hook", "clips")
    assert outcome.code == 2
    assert "`clip`" in outcome.err


@pytest.mark.parametrize(
    ("name", "code", "complaint"),
    [
        ("MyMistake", "GL199", "is no rule name"),
        ("my-mistake", "XX1", "is no rule code"),
        ("my-mistake", "GL901", "taken by unused-suppression"),
        ("unused-suppression", "GL199", "exists already"),
    ],
)
def test_new_rule_refuses(gradlint: Command, checkout: Path, name: str, code: str, complaint: str) -> None:
    outcome = gradlint("new-rule", name, "--code", code)
    assert outcome.code == 2
    assert complaint in outcome.err


def test_new_rule_outside_a_checkout(gradlint: Command, project: Path) -> None:
    outcome = gradlint("new-rule", "my-mistake", "--code", "GL199")
    assert outcome.code == 2
    assert "no checkout of gradlint" in outcome.err
