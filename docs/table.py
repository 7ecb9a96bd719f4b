"""The README's table of rules, made from the rules, and the places between two comments where made things stand."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gradlint.model import Category
from gradlint.registry import all_rules
from gradlint.rule import Rule


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


def placed(document: str, name: str, made: str) -> str:
    """A document with what was made for it between the two comments that carry this name."""
    found = re.search(rf"(<!-- {name}: made by [^\n]* -->\n).*?(<!-- end of {name} -->)", document, flags=re.DOTALL)
    if found is None:
        raise ValueError(f"there is no place for it: <!-- {name}: made by … --> … <!-- end of {name} -->")
    return f"{document[: found.end(1)]}\n{made}\n\n{document[found.start(2) :]}"
