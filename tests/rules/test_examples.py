"""The examples on a rule's page are true: the bad one is found by the rule, the good one is clean."""

from __future__ import annotations

import re

import pytest

from gradlint.docs.pages import sections
from gradlint.registry import all_rules
from gradlint.rule import Rule
from tests.rules.expectations import lint_with

every_rule = pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.rule_name())


def _blocks(rule: type[Rule], section: str) -> list[str]:
    found = re.findall(r"```python\n(.*?)```", sections(rule).get(section, ""), flags=re.DOTALL)
    assert found, f"{rule.rule_name()} has no ```python block under {section}"
    return found


@every_rule
def test_the_bad_example_is_found(rule: type[Rule]) -> None:
    for block in _blocks(rule, "Example"):
        codes = {finding.code for finding in lint_with(rule, block, "example.py").findings}
        assert rule.meta.code in codes, block


@every_rule
def test_the_good_example_is_clean(rule: type[Rule]) -> None:
    for block in _blocks(rule, "Use instead"):
        findings = lint_with(rule, block, "example.py").findings
        assert [(f.code, f.span.start.row, f.message) for f in findings] == [], block
