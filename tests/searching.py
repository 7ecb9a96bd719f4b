"""How hypothesis looks for counterexamples: with the same examples each time, or for long and at random.

`pytest` must be no lottery, so its examples are seeded, and `pytest -m "not slow"` tries a few of them. `pytest
--hypothesis-profile=search` looks at many more, other ones each time; it runs before releases. What it finds becomes an
`@example`, or a test of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypothesis import settings

SEEDED, FEW, SEARCH = "seeded", "few", "search"
_USUAL = 100


def register() -> None:
    """Imports hypothesis, which is large: not before it is known where bytecode is kept."""
    from hypothesis import settings

    settings.register_profile(SEEDED, max_examples=_USUAL, derandomize=True, database=None, deadline=None)
    settings.register_profile(FEW, settings.get_profile(SEEDED), max_examples=_USUAL // 5)
    settings.register_profile(SEARCH, max_examples=_USUAL * 20, derandomize=False, deadline=None, print_blob=True)
    settings.load_profile(SEEDED)


def try_few() -> None:
    from hypothesis import settings

    settings.load_profile(FEW)


def examples(count: int) -> settings:
    """So many of them; more when searching, fewer in the quick run."""
    from hypothesis import settings

    return settings(max_examples=max(1, count * settings().max_examples // _USUAL))
