"""Holds every rule to the same promises: its name, its page, its size, its fixtures and its imports."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gradlint.docs.pages import SECTIONS, sections
from gradlint.model import FAMILIES, Category
from gradlint.registry import all_rules
from gradlint.rule import Rule

ROOT = Path(__file__).resolve().parent.parent
#: the door for rules; what they need of the machine, the readings and the bench comes through it
ALLOWED_IMPORTS = ("gradlint.rule", "gradlint.events", "gradlint.knowledge")
#: where codes stand beside their rules, in strings that are no documentation
CODES_ELSEWHERE = (
    "gradlint/model.py",  # the rules about gradlint itself: GL900 to GL902
    "gradlint/runtime/measure/",  # what a mistake amounts to in a run, until rules have their proofs
    "gradlint/runtime/operations.py",  # which rule explains a NaN of an operation
    "gradlint/runtime/monitor/",  # advice that names the rule which explains it
)
#: what is asked of each rule; one test for a rule, because to start a test takes longer than any of these
PROMISES: list[Callable[[type[Rule]], None]] = []


def promise(check: Callable[[type[Rule]], None]) -> Callable[[type[Rule]], None]:
    PROMISES.append(check)
    return check


def _file(rule: type[Rule]) -> Path:
    return Path(inspect.getfile(rule))


def test_there_are_rules_and_their_codes_and_names_are_unique() -> None:
    codes = Counter(rule.meta.code for rule in all_rules())
    names = Counter(rule.rule_name() for rule in all_rules())
    assert codes
    assert [word for word, count in (codes + names).items() if count > 1] == []


def test_a_module_holds_one_rule() -> None:
    modules = Counter(rule.__module__ for rule in all_rules())
    files = {f"gradlint.rules.{path.stem}" for path in (ROOT / "rules").glob("*.py")} - {"gradlint.rules.__init__"}
    assert modules == Counter(files)


@promise
def code_belongs_to_a_family(rule: type[Rule]) -> None:
    assert re.fullmatch(r"GL\d{3}", rule.meta.code)
    assert rule.meta.code[2] in FAMILIES


@promise
def file_is_named_after_the_rule(rule: type[Rule]) -> None:
    assert _file(rule).stem == rule.rule_name().replace("-", "_")
    assert "_" not in rule.__name__


@promise
def page_has_its_sections_in_order(rule: type[Rule]) -> None:
    assert tuple(sections(rule)) == SECTIONS
    assert all(sections(rule).values()), "an empty section"


@promise
def summary_is_one_sentence(rule: type[Rule]) -> None:
    summary = rule.summary()
    assert summary.endswith(".")
    assert summary[0].isupper() or summary.startswith("`")
    assert len(summary) <= 120
    assert rule.documentation().splitlines()[1] == ""


@promise
def examples_are_python(rule: type[Rule]) -> None:
    for section in ("Example", "Use instead"):
        blocks = re.findall(r"```python\n(.*?)```", sections(rule)[section], flags=re.DOTALL)
        assert blocks, f"no ```python block under {section}"
        if rule.rule_name() != "syntax-error":
            for block in blocks:
                ast.parse(block)


@promise
def message_is_short(rule: type[Rule]) -> None:
    assert 0 < len(rule.message) <= 120
    assert not rule.message.endswith(".")


@promise
def file_is_small(rule: type[Rule]) -> None:
    lines = len(_file(rule).read_text(encoding="utf-8").splitlines())
    assert lines <= 200, f"{_file(rule).name} has {lines} lines"


@promise
def options_are_plain_values_with_kebab_names(rule: type[Rule]) -> None:
    for name, value in rule.options.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert type(value) in (bool, int, float, str)


@promise
def imports_point_down(rule: type[Rule]) -> None:
    for module in _imports(_file(rule)):
        if module.split(".")[0] not in sys.stdlib_module_names:
            allowed = any(module == name or module.startswith(f"{name}.") for name in ALLOWED_IMPORTS)
            assert allowed, f"{_file(rule).name} imports {module}"


@promise
def declares_what_it_looks_for(rule: type[Rule]) -> None:
    """From this a file is known that the rule has nothing to say about."""
    hooks = rule.hooks
    assert bool(rule.calls) == ("on_call" in hooks)
    assert bool(rule.operations) == ("on_operation" in hooks)
    if rule.meta.category is not Category.META:
        assert hooks, "it overrides no hook"
        assert hooks != {"on_file"} or rule.words, "`words` says which files `on_file` is about"


def test_no_code_stands_outside_of_its_rule() -> None:
    found = []
    for path in sorted((ROOT / "gradlint").rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith(CODES_ELSEWHERE):
            codes = {code for text in _strings(path) for code in re.findall(r"GL\d{3}", text)}
            found += [f"{place}: {code}" for code in sorted(codes)]
    assert found == []


def test_places_that_may_hold_codes_do() -> None:
    for place in CODES_ELSEWHERE:
        files = [ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py")
        assert any(re.search(r"GL\d{3}", text) for path in files for text in _strings(path)), place


def _strings(path: Path) -> list[str]:
    """All strings of a module that names a code, but its documentation."""
    source = path.read_text(encoding="utf-8")
    if not re.search(r"GL\d{3}", source):
        return []
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone]
    return [node.value for node in constants if isinstance(node.value, str)]


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports reach other rules"
            found.add(node.module or "")
    return found


@promise
def fixtures_show_the_mistake_and_right_code(rule: type[Rule]) -> None:
    if rule.meta.category is Category.META:
        return  # tested with the part of gradlint it is about
    folder = ROOT / "fixtures" / rule.rule_name().replace("-", "_")
    bad, good = sorted(folder.glob("bad*.py")), sorted(folder.glob("good*.py"))
    assert bad, f"no {folder.relative_to(ROOT)}/bad*.py"
    assert good, f"no {folder.relative_to(ROOT)}/good*.py"
    for path in bad:
        expected = re.findall(r"# expect: (.*)", path.read_text(encoding="utf-8"))
        assert any(rule.meta.code in codes for codes in expected), f"{path.name} expects nothing"


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.meta.code)
def test_a_rule_keeps_all_promises(rule: type[Rule]) -> None:
    broken = {}
    for check in PROMISES:
        try:
            check(rule)
        except Exception as error:
            broken[check.__name__] = repr(error)
    assert broken == {}
