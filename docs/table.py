"""The README's table of rules, made from the rules, and the places between two comments where made things stand."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gradlint.model import Category
from gradlint.registry import all_rules
from gradlint.rule import Rule


def rule_table(rules: Iterable[type[Rule]] | None = None) -> str:
    """A row for each family: its rules by name, each with a link to its page; in brackets what is off by default."""
    chosen = list(all_rules() if rules is None else rules)
    lines = ["| family | rules |", "|---|---|"]
    for category in Category:
        family = [rule for rule in chosen if rule.meta.category is category]
        if family:
            first, last = family[0].meta.code, family[-1].meta.code
            lines.append(f"| **{category.value}** {first}–{last} | {', '.join(map(_linked, family))} |")
    return "\n".join(lines)


def _linked(rule: type[Rule]) -> str:
    link = f"[{rule.rule_name()}](docs/rules/{rule.meta.code}.md)"
    return link if rule.meta.default else f"({link})"


def placed(document: str, name: str, made: str) -> str:
    """A document with what was made for it between the two comments that carry this name."""
    found = re.search(rf"(<!-- {name}: made by [^\n]* -->\n).*?(<!-- end of {name} -->)", document, flags=re.DOTALL)
    if found is None:
        raise ValueError(f"there is no place for it: <!-- {name}: made by … --> … <!-- end of {name} -->")
    return f"{document[: found.end(1)]}\n{made}\n\n{document[found.start(2) :]}"
