"""A page for each rule, and a list of them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

from gradlint.docs.example import page_with_fix
from gradlint.docs.pages import FIX_LABELS
from gradlint.model import Category
from gradlint.registry import all_rules, by_code
from gradlint.rule import Rule

FOLDER = Path(__file__).resolve().parent / "rules"
INDEX = "README.md"
#: pages that send their readers to rules
GUIDES = ("right-loops.md", "guides/nan.md", "guides/accumulation.md")

#: code, and links that are there already, are left as they are
_KEPT = re.compile(r"(```.*?^```$|`[^`\n]*`|\[[^\]\n]*\]\([^)\n]*\)|^#.*?$)", flags=re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"\bGL\d{3}\b")


@functools.cache
def pages() -> dict[str, str]:
    """What the folder holds, by file name: the pages that `gradlint rule CODE` shows, with links, and the list."""
    return {INDEX: index(), **{f"{rule.meta.code}.md": linked_page(rule) for rule in all_rules()}}


def index() -> str:
    severities = (
        "**error**: the training that runs is not the training you meant, or it raises. **warning**: wasteful,\n"
        "fragile or very probably wrong. **advice**: there is a better way; advice alone does not fail a run."
    )
    parts = [
        "# The rules",
        severities,
        "Made by `python -m docs`; `gradlint rule CODE` shows the same pages offline.",
    ]
    for category, family in families():
        head = ("| code | name | what it finds | severity | fix |", "|---|---|---|---|---|")
        parts += [f"## {category.value}", "\n".join((*head, *map(_row, family)))]
    return "\n\n".join(parts) + "\n"


def families() -> Iterator[tuple[Category, list[type[Rule]]]]:
    """The rules by what they are about."""
    for category in Category:
        family = [rule for rule in all_rules() if rule.meta.category is category]
        if family:
            yield category, family


def linked_page(rule: type[Rule]) -> str:
    """The page with links to the rules that it speaks of, to its family, and to the guides that speak of it."""
    pieces = _KEPT.split(page_with_fix(rule))
    linked = "".join(
        piece if number % 2 else _CODE.sub(lambda found: _link(found[0], rule), piece)
        for number, piece in enumerate(pieces)
    )
    return f"{linked}\n## See also\n" + "\n".join(_neighbours(rule)) + "\n"


def _link(code: str, where: type[Rule]) -> str:
    known = code in by_code() and code != where.meta.code
    return f"[{code}]({code}.md)" if known else code


def _neighbours(rule: type[Rule]) -> Iterator[str]:
    for title, target in _guides().get(rule.meta.code, ()):
        yield f"- [{title}](../{target})"
    (family,) = [family for category, family in families() if category is rule.meta.category]
    shown = (f"**{r.rule_name()}**" if r is rule else f"[{r.rule_name()}]({r.meta.code}.md)" for r in family)
    yield f"- {rule.meta.category.value}: {', '.join(shown)}"
    yield f"- [All rules]({INDEX})"


@functools.cache
def _guides() -> dict[str, list[tuple[str, str]]]:
    """The parts of guides that lead to a rule, with their addresses, by its code."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name in GUIDES:
        title = heading = ""
        for line in (FOLDER.parent / name).read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                title = line[2:]
            elif line.startswith("## "):
                heading = line[3:]
            for code in dict.fromkeys(re.findall(r"rules/(GL\d{3})\.md", line)):
                place = (f"{title}: {heading}", f"{name}#{anchor(heading)}") if "right" in name else (title, name)
                if place not in found.setdefault(code, []):
                    found[code].append(place)
    return found


def anchor(heading: str) -> str:
    """What a heading is called in an address."""
    return re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")


def _row(rule: type[Rule]) -> str:
    code, off = rule.meta.code, "" if rule.meta.default else " (off by default)"
    summary = rule.summary().rstrip(".").replace("|", "\\|")
    severity = f"{rule.meta.severity.label}{off}"
    return f"| [{code}]({code}.md) | {rule.rule_name()} | {summary} | {severity} | {FIX_LABELS[rule.meta.fix]} |"
