"""Where the project lives: the one place that knows its address."""

from __future__ import annotations

#: OWNER stands for whoever publishes the repository
HOME = "https://github.com/OWNER/gradlint"


def rule_url(code: str) -> str:
    """The page of a rule; `gradlint rule CODE` shows the same offline."""
    return f"{HOME}/blob/main/docs/rules/{code}.md"
