"""Regular expressions for names: compiled when first asked, and each name is looked at once."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

_REMEMBERED = 4096


class Pattern:
    """`search` and `match` as in `re`. A file has few names, and the interpreter meets each of them many times."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __getattr__(self, method: str) -> Callable[[str], re.Match[str] | None]:
        if method not in ("search", "match", "fullmatch"):
            raise AttributeError(method)
        found = functools.lru_cache(_REMEMBERED)(getattr(re.compile(self.text), method))
        setattr(self, method, found)  # from now on nothing comes by here
        return found
