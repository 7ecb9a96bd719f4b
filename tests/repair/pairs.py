"""Pairs of fixtures: `bad_x.py`, and `fixed_x.py`, which is what the fixer makes of it, to the byte."""

from __future__ import annotations

import re
from pathlib import Path

from gradlint.config import Layer, Settings
from gradlint.engine import fix
from gradlint.model import FileResult, Fixed, FixSafety
from gradlint.repair.edits import applied
from gradlint.rule import Rule
from tests.rules.expectations import rule_of

_EXPECT = re.compile(r"[ \t]*# expect: .*$", re.MULTILINE)


def without_expectations(path: Path) -> bytes:
    """A bad fixture without what it says to the test of the findings."""
    return _EXPECT.sub("", path.read_bytes().decode()).encode()


def bad_of(fixed: Path) -> Path:
    """The other half of a pair."""
    return fixed.with_name(fixed.name.replace("fixed", "bad", 1))


def fixed_of(bad: Path) -> Path:
    """The other half of a pair; it need not be there."""
    return bad.with_name(bad.name.replace("bad", "fixed", 1))


def settings(rule: type[Rule], *, fixable: bool = True) -> Settings:
    """As most people lint, with this rule turned on too, and only its fixes applied, or none."""
    fixes = Layer(fixable=(rule.meta.code,)) if fixable else Layer(unfixable=("ALL",))
    return Settings(layers=(fixes._replace(extend_select=(rule.meta.code,)),))


def fix_with(rule: type[Rule], source: bytes, path: Path) -> Fixed:
    outcome = fix(source, str(path), settings(rule), unsafe=rule.meta.fix is FixSafety.UNSAFE)
    assert outcome.result.crashes == (), outcome.result.crashes[0].traceback
    return outcome


def is_mended(bad: Path, result: FileResult) -> bool:
    """Whether the rule of its folder makes `fixed_x.py` of a bad file in which this was found.

    By the fixes that are offered for it, all at once; those that touch, or of which one comes of the one before, are
    left to the fixer.
    """
    rule, wanted = rule_of(bad), fixed_of(bad).read_bytes().decode()
    fixes = [finding.fix for finding in result.findings if finding.code == rule.meta.code and finding.fix is not None]
    together = applied(bad.read_bytes().decode(), [edit for offered in fixes for edit in offered.edits])
    return (
        _EXPECT.sub("", together) == wanted or fix_with(rule, without_expectations(bad), bad).source.decode() == wanted
    )
