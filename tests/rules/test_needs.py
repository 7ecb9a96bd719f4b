"""The events that a rule says it needs happen wherever it speaks: files without their words are not read for it."""

from __future__ import annotations

import ast

import pytest

from gradlint.paths.explorer import Explorer
from gradlint.python.lower import Lowering
from gradlint.python.module import Module
from gradlint.registry import all_rules
from gradlint.rule import Rule
from tests.rules.expectations import FIXTURES
from tests.sampling import evenly, spread

#: bad fixtures of each rule
_SAMPLE = 4
NEEDY = [rule for rule in all_rules() if any(isinstance(need, type) for need in rule.needs)]


@pytest.mark.parametrize("rule", spread(NEEDY, 10), ids=lambda rule: rule.meta.code)
def test_a_file_with_a_finding_has_all_that_its_rule_needs(rule: type[Rule]) -> None:
    files = sorted((FIXTURES / rule.rule_name().replace("-", "_")).glob("bad*.py"))
    for path in evenly(files, _SAMPLE):
        program = Module(Lowering(ast.parse(path.read_text(encoding="utf-8"))).body)
        happened = {type(event) for way in Explorer(program).paths() for event in way.events}
        assert {need for need in rule.needs if isinstance(need, type)} <= happened, path.name
