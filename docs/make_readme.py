"""Writes the table of rules into README.md: `python docs/make_readme.py`."""

from __future__ import annotations

from pathlib import Path

from gradlint.docs.table import rule_table, with_table

README = Path(__file__).resolve().parent.parent / "README.md"


def main() -> None:
    old = README.read_text(encoding="utf-8")
    new = with_table(old, rule_table())
    if new != old:
        README.write_text(new, encoding="utf-8")
    print("README.md is up to date" if new == old else "README.md: wrote the table of rules")


if __name__ == "__main__":
    main()
