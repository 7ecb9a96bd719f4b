"""A page for each rule, and a list of them."""

from __future__ import annotations

import functools
from pathlib import Path

from gradlint.docs.example import page_with_fix
from gradlint.docs.pages import FIX_LABELS
from gradlint.model import Category
from gradlint.registry import all_rules
from gradlint.rule import Rule

FOLDER = Path(__file__).resolve().parent / "rules"
INDEX = "README.md"


@functools.cache
def pages() -> dict[str, str]:
    """What the folder holds, by file name: the pages that `gradlint rule CODE` shows, and the list."""
    return {INDEX: index(), **{f"{rule.meta.code}.md": page_with_fix(rule) for rule in all_rules()}}


def index() -> str:
    parts = ["# The rules", "Made by `python -m docs`; `gradlint rule CODE` shows the same pages offline."]
    for category in Category:
        family = [rule for rule in all_rules() if rule.meta.category is category]
        if family:
            parts.append(f"## {category.value}")
            parts.append(
                "\n".join(
                    ("| code | name | severity | fix | what it finds |", "|---|---|---|---|---|", *map(_row, family))
                )
            )
    return "\n\n".join(parts) + "\n"


def _row(rule: type[Rule]) -> str:
    code, off = rule.meta.code, "" if rule.meta.default else " (off by default)"
    summary = rule.summary().rstrip(".").replace("|", "\\|")
    severity = f"{rule.meta.severity.label}{off}"
    return f"| [{code}]({code}.md) | {rule.rule_name()} | {severity} | {FIX_LABELS[rule.meta.fix]} | {summary} |"
