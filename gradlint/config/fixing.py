"""What a configuration or a command line says about fixing; None where it says nothing."""

from __future__ import annotations

from typing import NamedTuple


class FixChoice(NamedTuple):
    """The four switches of `--fix` and its companions, as one source of choices gives them."""

    fix: bool | None = None
    unsafe_fixes: bool | None = None
    fix_only: bool | None = None
    show_fixes: bool | None = None

    def over(self, below: FixChoice) -> FixChoice:
        """These choices where they were made, else those below."""
        return FixChoice(*(own if own is not None else other for own, other in zip(self, below, strict=True)))
