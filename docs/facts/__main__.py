"""`python -m docs.facts`: runs the experiments, and prints or checks the tables; `python -m docs` writes them."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from docs.facts.compare import all_differences
from docs.facts.experiment import EXPERIMENTS, Experiment
from gradlint.docs.facts import FILE, Facts, all_facts

FAMILIES = ("clipping", "mixed_precision", "accumulation", "loop", "distributed", "loss_numerics", "model")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.facts", description="What each mistake does, measured.")
    parser.add_argument("codes", nargs="*", metavar="CODE", help="run and print only these (GL101)")
    parser.add_argument("--check", action="store_true", help="compare with the file instead of printing")
    arguments = parser.parse_args()
    known = experiments()
    codes = [code.upper() for code in arguments.codes] or sorted(known)
    unknown = [code for code in codes if code not in known]
    if unknown:
        parser.error(f"no experiment for {', '.join(unknown)}")
    fresh = {code: known[code].run() for code in codes}
    if arguments.check:
        kept = all_facts()
        return check({code: kept[code] for code in codes if code in kept} if arguments.codes else kept, fresh)
    print("\n".join(f"# {code}\n\n{table.section()}" for code, table in fresh.items()))
    return 0


def experiments() -> dict[str, Experiment]:
    """All of them, by code."""
    for family in FAMILIES:
        importlib.import_module(f"docs.facts.{family}")
    return EXPERIMENTS


def check(kept: dict[str, Facts], fresh: dict[str, Facts]) -> int:
    """0 if the file says what was measured just now."""
    problems = list(all_differences(kept, fresh))
    for problem in problems:
        print(problem, file=sys.stderr)
    print("run: python -m docs --measure" if problems else f"{len(fresh)} tables are up to date")
    return 1 if problems else 0


def write(tables: dict[str, Facts]) -> None:
    entries = {code: {"setting": t.setting, "rows": [row.cells for row in t.rows]} for code, t in tables.items()}
    version = next(iter(tables.values())).torch
    text = json.dumps({"torch": version, "rules": entries}, indent=1, ensure_ascii=False) + "\n"
    Path(FILE).write_text(text, encoding="utf-8")
    print(f"wrote {len(tables)} tables, measured with torch {version}")


if __name__ == "__main__":
    sys.exit(main())
