"""What may be mended of a file where callers in other files have another opinion than the file alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gradlint.fingerprints import fingerprints
from gradlint.model import FileResult
from gradlint.records import replace
from gradlint.runner.ledger import Keep


class Disputed(NamedTuple):
    """Codes of which a file alone would mend more than its callers in other files let it, and what of them is left."""

    codes: frozenset[str]
    left: frozenset[str]

    @classmethod
    def of(cls, alone: FileResult, told: FileResult, text: str | None, *, unsafe: bool) -> Disputed:
        prints = zip(told.ordered(), fingerprints(told, text), strict=True)
        left = frozenset(one.value for finding, one in prints if finding.fixable(unsafe=unsafe))
        safe = {(finding.code, finding.span) for finding in told.findings if finding.fixable(unsafe=unsafe)}
        mended = (finding for finding in alone.findings if finding.fixable(unsafe=unsafe))
        return cls(frozenset(finding.code for finding in mended if (finding.code, finding.span) not in safe), left)

    def without(self, result: FileResult, text: str) -> FileResult:
        """What may be mended of a result."""
        pairs = zip(result.ordered(), fingerprints(result, text), strict=True)
        kept = (finding for finding, one in pairs if finding.code not in self.codes or one.value in self.left)
        return replace(result, findings=tuple(kept))


def undisputed(settle: Callable[[FileResult], FileResult], keep: Keep | None, *, unsafe: bool) -> Keep:
    """What may be mended of a file alone, round after round: what `settle`, which is asked once, and `keep` leave."""
    disputed: list[Disputed] = []

    def kept(result: FileResult, text: str) -> FileResult:
        if not disputed:
            disputed.append(Disputed.of(result, settle(result), text, unsafe=unsafe))
        result = disputed[0].without(result, text)
        return result if keep is None else keep(result, text)

    return kept
