"""A rule's page, put together from its metadata, its docstring and what was measured, which is kept as data."""

from __future__ import annotations

import functools
import os
import re

from gradlint.model import FixSafety
from gradlint.records import dataclass
from gradlint.rule import Rule

SECTIONS = ("What it does", "Why is this bad?", "Example", "Use instead", "Fix safety", "Known limits", "References")

FIX_LABELS = {FixSafety.NONE: "–", FixSafety.SAFE: "safe", FixSafety.UNSAFE: "unsafe"}

FILE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "facts.json")
HEADING = "What really happens"
COLUMNS = ("what is measured", "with the mistake", "put right")


def page(rule: type[Rule]) -> str:
    """The page in Markdown."""
    text, measured = page_without_facts(rule), facts(rule.meta.code)
    if measured is None:
        return text
    return text.replace("\n## Example\n", f"\n{measured.section()}\n## Example\n", 1)


def page_without_facts(rule: type[Rule]) -> str:
    """The page as it is written, with no table of what really happens."""
    summary, _, body = rule.documentation().partition("\n")
    silent = f"No run can show it: {rule.meta.unshowable}." if rule.meta.unshowable else ""
    parts = [f"# {rule.rule_name()} ({rule.meta.code})", _about(rule), summary, silent, body.strip()]
    if rule.options:
        parts.append(_options(rule))
    return "\n\n".join(part for part in parts if part) + "\n"


def sections(rule: type[Rule]) -> dict[str, str]:
    """The text under each `##` heading, in order."""
    pieces = re.split(r"^## +(.+?) *$", rule.documentation(), flags=re.MULTILINE)
    return {heading: text.strip() for heading, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def record(rule: type[Rule]) -> dict[str, object]:
    """What programs may want to know of a rule."""
    measured = facts(rule.meta.code)
    return {
        "code": rule.meta.code,
        "name": rule.rule_name(),
        "category": rule.meta.category.value,
        "severity": rule.meta.severity.label,
        "default": rule.meta.default,
        "fix": rule.meta.fix.value,
        "summary": rule.summary(),
        "message": rule.message,
        "options": dict(rule.options),
        "explanation": rule.documentation(),
        "facts": None if measured is None else measured.record(),
    }


def _about(rule: type[Rule]) -> str:
    state = "on by default" if rule.meta.default else "off by default"
    fix = "no automatic fix" if rule.meta.fix is FixSafety.NONE else f"{rule.meta.fix.value} fix"
    return f"*{rule.meta.category.value} · {rule.meta.severity.label} · {state} · {fix}*"


def _options(rule: type[Rule]) -> str:
    lines = [f"{name} = {_toml(value)}" for name, value in rule.options.items()]
    return "\n".join(["## Options", "", "```toml", f"[tool.gradlint.rules.{rule.rule_name()}]", *lines, "```"])


def _toml(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


# -- what really happens -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity, as it is printed: with the mistake, and with the code put right."""

    what: str
    mistake: str
    right: str

    @property
    def cells(self) -> tuple[str, str, str]:
        return self.what, self.mistake, self.right


@dataclass(frozen=True, slots=True)
class Facts:
    """The table of one rule."""

    code: str
    setting: str
    rows: tuple[Row, ...]
    torch: str

    @property
    def origin(self) -> str:
        return f"Measured with torch {self.torch} on CPU by `gradlint prove {self.code}`."

    def table(self) -> str:
        """The rows in Markdown."""
        lines = [COLUMNS, ("---",) * len(COLUMNS), *(row.cells for row in self.rows)]
        return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)

    def section(self) -> str:
        """The part of the rule's page, in Markdown."""
        return f"## {HEADING}\n{self.setting}\n\n{self.table()}\n\n{self.origin}\n"

    def record(self) -> dict[str, object]:
        """What programs may want to know of it."""
        rows = [{"what": row.what, "mistake": row.mistake, "right": row.right} for row in self.rows]
        return {"torch": self.torch, "setting": self.setting, "rows": rows}


def facts(code: str) -> Facts | None:
    """None for a rule with nothing to measure."""
    return all_facts().get(code)


@functools.cache
def all_facts() -> dict[str, Facts]:
    """Every table of the shipped file, by code."""
    import json  # only who asks for a page pays for it

    with open(FILE, encoding="utf-8") as file:
        data = json.load(file)
    return {
        code: Facts(code, entry["setting"], tuple(Row(*cells) for cells in entry["rows"]), data["torch"])
        for code, entry in data["rules"].items()
    }
