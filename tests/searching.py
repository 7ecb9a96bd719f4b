"""How hypothesis looks for counterexamples: with the same examples each time, or for long and at random.

`pytest` must be no lottery, so its examples are seeded. `pytest --hypothesis-profile=search` looks at many more of
them, other ones each time; it runs before releases. What it finds becomes an `@example`, or a test of its own.
"""

from __future__ import annotations

from hypothesis import settings

SEEDED, SEARCH = "seeded", "search"
_USUAL = 100
_MORE = 20


def register() -> None:
    settings.register_profile(SEEDED, max_examples=_USUAL, derandomize=True, database=None, deadline=None)
    settings.register_profile(SEARCH, max_examples=_USUAL * _MORE, derandomize=False, deadline=None, print_blob=True)
    settings.load_profile(SEEDED)


def examples(count: int) -> settings:
    """So many of them; more, when searching."""
    return settings(max_examples=count if settings().derandomize else count * _MORE)
