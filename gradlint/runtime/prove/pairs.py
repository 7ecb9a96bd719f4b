"""The two scripts of a case: the one with the mistake, and what the fixer makes of it at this moment."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gradlint.config.selectors import Layer
from gradlint.config.settings import Settings
from gradlint.engine import fix, lint
from gradlint.model import FixSafety
from gradlint.registry import by_code
from gradlint.runtime.prove.case import Case

#: what a script says to the tests
_EXPECT = re.compile(r"[ \t]*# expect: .*$", re.MULTILINE)

BY_HAND = "by hand"


class PairError(Exception):
    """The linter does not find the mistake, or the fixer does not mend it: nothing can be proved."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts to run."""

    case: Case
    before: str
    after: str
    #: "safe" or "unsafe", as the fixer calls it; "by hand" for rules that have none
    fix: str
    #: findings of the code that the linter still has in the second
    left: int


def pair(case: Case) -> Pair:
    """Lints the script, mends it, and lints what came of it."""
    settings = _settings(case)
    before = _EXPECT.sub("", case.script.read_text(encoding="utf-8"))
    if _found(before, case, settings) == 0:
        raise PairError(f"the linter does not find {case.code} in {case.script.name}")
    if case.right is not None:
        after, kind = case.right.read_text(encoding="utf-8"), BY_HAND
    else:
        after, kind = _mended(before, case, settings), by_code()[case.code].meta.fix.value
    return Pair(case, before, after, kind, _found(after, case, settings))


def _mended(before: str, case: Case, settings: Settings) -> str:
    unsafe = by_code()[case.code].meta.fix is FixSafety.UNSAFE
    outcome = fix(before.encode(), case.script.name, settings, unsafe=unsafe)
    if case.code not in {finding.code for finding in outcome.applied}:
        raise PairError(f"the fixer does not mend {case.script.name}: {'; '.join(outcome.result.notes) or 'no reason'}")
    return outcome.source.decode()


def _found(text: str, case: Case, settings: Settings) -> int:
    result = lint(text.encode(), case.script.name, settings)
    if result.crashes:
        raise PairError(f"the linter failed on {case.script.name}: {result.crashes[0].error}")
    return sum(finding.code == case.code for finding in result.findings)


def _settings(case: Case) -> Settings:
    """As most people lint, with this rule turned on too, and only its fixes applied."""
    return Settings(layers=(Layer(extend_select=(case.code,), fixable=(case.code,)),))
