"""The README's table of rules, kept between two markers and made from the rules."""

from __future__ import annotations

from collections.abc import Iterable

from gradlint.model import Category
from gradlint.registry import all_rules
from gradlint.rule import Rule

BEGIN = "<!-- rules: made by `python -m docs` -->"
END = "<!-- end of rules -->"


def rule_table(rules: Iterable[type[Rule]] | None = None) -> str:
    """One Markdown table per family, by code."""
    chosen = list(all_rules() if rules is None else rules)
    parts = []
    for category in Category:
        family = [rule for rule in chosen if rule.meta.category is category]
        if family:
            parts.append(_family(category, family))
    return "\n\n".join(parts)


def _family(category: Category, rules: list[type[Rule]]) -> str:
    lines = [f"**{category.value}**", "", "| code | name | severity | what it finds |", "|---|---|---|---|"]
    for rule in rules:
        off = "" if rule.meta.default else " (off by default)"
        summary = rule.summary().rstrip(".").replace("|", "\\|")
        lines.append(f"| {rule.meta.code} | {rule.rule_name()} | {rule.meta.severity.label}{off} | {summary} |")
    return "\n".join(lines)


def with_table(readme: str, table: str) -> str:
    """The README with the table between its markers."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README has no place for the rules: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"
