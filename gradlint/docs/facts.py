"""What really happens, rule by rule: tables that were measured on torch, kept as data, shown without torch."""

from __future__ import annotations

import functools
import os

from gradlint.records import dataclass

FILE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "facts.json")
HEADING = "What really happens"
COLUMNS = ("what is measured", "with the mistake", "put right")


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
