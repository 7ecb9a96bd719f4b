"""Comments that silence findings, and the findings about such comments (GL901, GL902).

`# gradlint: ignore[GL101, clip-after-step]`, `# gradlint: ignore`, `# noqa: GL101`, `# noqa`, on any line of what
was found; `# gradlint: ignore-file[...]` anywhere for the whole file. What stays silent, and why:
a bare `# noqa` and codes of other tools are never called unused (they may serve another linter), nor is a code
that is switched off for the file (the comment is right again as soon as the rule is on).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradlint.model import Finding


def apply(
    text: str, findings: Sequence[Finding], enabled: frozenset[str], known: frozenset[str]
) -> tuple[list[Finding], int]:
    """The findings that stay, with those about the comments themselves, and how many were silenced."""
    lowered = text.lower()
    if "gradlint:" not in lowered and "noqa" not in lowered:
        return list(findings), 0  # most files: nothing more need be imported
    from gradlint.comments import judge

    return judge(text, findings, enabled, known)
