"""Ways to put a finding right: what a rule proposes, and what the fixer tries out on the text.

Each family has its module. The rewrites themselves need libcst and are imported when they are tried: most files have
nothing to mend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gradlint.model import FixSafety
from gradlint.records import dataclass

if TYPE_CHECKING:
    from gradlint.rewrite.bench import Bench


@dataclass(frozen=True, slots=True)
class Remedy:
    """One rewrite. `act` works on a copy of the file, and raises NotFixable with a reason if it cannot be done."""

    message: str
    act: Callable[[Bench], None]
    #: less than what the rule promises, if this way is not as safe
    safety: FixSafety | None = None
