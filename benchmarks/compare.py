"""Compares two checkouts of gradlint: what each says of the same files, and what each would fix.

usage: python -m benchmarks.compare OLD NEW [--repos DIR] [--examples N]

OLD and NEW are checkouts. Both lint all fixtures of NEW, and every folder in DIR (checkouts of repositories), with all
rules on: JSON, and the diff of all fixes. Nothing is normalised. Differences are grouped by code and kind, with their
count and an example each; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

Row = dict[str, Any]
#: file, code, row and column: what makes two findings the same one
Key = tuple[str, str, int, int, int]

# without `site`: an editable install would put its own checkout's rules in the place of these
_START = "import sys; sys.path[:0] = [{checkout!r}]; sys.path += {packages!r}; from gradlint.cli import main; main()"


def run(checkout: Path, folder: Path, *options: str) -> str:
    """What a checkout prints about a folder."""
    packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    start = _START.format(checkout=str(checkout.resolve()), packages=packages)
    command = [sys.executable, "-S", "-c", start, "check", "--isolated", "--no-cache", "--exit-zero", *options, "."]
    environment = {**os.environ, "PYTHONPATH": "", "COLUMNS": "200"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:  # 1 as well: no finding makes it so here, but a package that is missing does
        sys.exit(f"{checkout} exited with {done.returncode} in {folder}:\n{done.stderr[-2000:]}")
    return done.stdout


def findings(checkout: Path, folder: Path) -> dict[Key, Row]:
    """All findings, by place; several of a rule at one place are told apart by their order."""
    found: dict[Key, Row] = {}
    for row in json.loads(run(checkout, folder, "--select", "ALL", "--output-format", "json") or "[]"):
        key = (row["filename"], row["code"], row["location"]["row"], row["location"]["column"], 0)
        while key in found:
            key = (*key[:4], key[4] + 1)
        found[key] = row
    return found


def differences(old: Mapping[Key, Row], new: Mapping[Key, Row]) -> Iterator[tuple[str, str]]:
    """(kind, example) of each difference."""
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        place = f"{key[0]}:{key[2]}:{key[3]}"
        if before is None or after is None:
            row = after or before or {}
            yield f"{key[1]} {'gone' if after is None else 'new'}", f"{place} {row['severity']}: {row['message']}"
            continue
        for field in sorted({*before, *after} - {"filename", "location"}):
            if before.get(field) != after.get(field):
                yield f"{key[1]} {field}", f"{place} {_short(before.get(field))} -> {_short(after.get(field))}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 160 else text[:157] + "…"


def compared(old: Path, new: Path, folder: Path) -> list[tuple[str, str]]:
    """All differences between two checkouts on one folder."""
    with ThreadPoolExecutor(2) as both:
        before, after = both.map(lambda checkout: findings(checkout, folder), (old, new))
        fixes = ("--select", "ALL", "--diff", "--unsafe-fixes")
        texts = list(both.map(lambda checkout: run(checkout, folder, *fixes), (old, new)))
    found = [(kind, f"{folder.name}: {example}") for kind, example in differences(before, after)]
    if texts[0] != texts[1]:
        found.extend(("diff of all fixes", f"{folder.name}: {line}") for line in _changed_lines(*texts))
    return found


def _changed_lines(old: str, new: str) -> list[str]:
    """The files whose diffs differ."""
    before, after = (dict(_by_file(text)) for text in (old, new))
    return [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]


def _by_file(diff: str) -> Iterator[tuple[str, str]]:
    for part in ("\n" + diff).split("\n--- ")[1:]:
        name, _, rest = part.partition("\n")
        yield name, rest


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--repos", type=Path, help="a folder of checkouts")
    parser.add_argument("--examples", type=int, default=1)
    options = parser.parse_args(arguments)
    folders = [options.new / "fixtures", *sorted(x for x in (options.repos or Path()).glob("*") if x.is_dir())]
    if options.repos is None:
        folders = folders[:1]
    groups: dict[str, list[str]] = defaultdict(list)
    for folder in folders:
        for kind, example in compared(options.old, options.new, folder):
            groups[kind].append(example)
    for kind in sorted(groups):
        print(f"{len(groups[kind]):5}  {kind}")
        for example in groups[kind][: options.examples]:
            print(f"       {example}")
    print(f"{sum(map(len, groups.values()))} differences in {len(folders)} folders")
    return 1 if groups else 0


if __name__ == "__main__":
    sys.exit(main())
