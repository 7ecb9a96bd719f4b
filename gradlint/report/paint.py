"""Terminal colours by role, or none: plain text comes from the same code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import IO

from gradlint.model import Severity

_CODES = {
    "error": "1;31",
    "warning": "1;33",
    "advice": "1;36",
    "code": "1",
    "name": "2",
    "gutter": "34",
    "story": "36",
    "path": "1",
    "good": "1;32",
    "fix": "1;36",
    "added": "32",
    "removed": "31",
    "plain": "",
}


class Paint:
    """Wraps text in the escape codes of its role when colours are on."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def __call__(self, text: str, role: str) -> str:
        code = _CODES[role]
        return f"\x1b[{code}m{text}\x1b[0m" if self.enabled and text and code else text

    def severity(self, text: str, severity: Severity) -> str:
        return self(text, severity.label)


def wants_colour(stream: IO[str], environment: Mapping[str, str] | None = None) -> bool:
    """Colours for terminals only; NO_COLOR turns them off and FORCE_COLOR on, as https://no-color.org asks."""
    given = os.environ if environment is None else environment
    if given.get("NO_COLOR"):
        return False
    if given.get("FORCE_COLOR", "0") not in ("", "0", "false"):
        return True
    return stream.isatty() and given.get("TERM") != "dumb"
