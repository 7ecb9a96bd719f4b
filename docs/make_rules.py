"""Writes a page for each rule, and a list of them: `python docs/make_rules.py`."""

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
    parts = ["# The rules", "Made by `python docs/make_rules.py`; `gradlint rule CODE` shows the same pages offline."]
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


def stale() -> list[str]:
    """The names of pages that are missing, out of date, or of rules that are gone."""
    wanted = pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    wanted = pages()
    changed = stale()
    for name in changed:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name], encoding="utf-8", newline="\n")
        else:
            (FOLDER / name).unlink()
    print("docs/rules is up to date" if not changed else f"docs/rules: wrote {', '.join(changed)}")


if __name__ == "__main__":
    main()
