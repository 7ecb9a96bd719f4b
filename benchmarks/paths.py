"""How many paths are followed, how many of them show nothing new, and what they cost.

    python -m benchmarks.paths DIR [DIR …] [--files N]

Every file below DIR that trains is explored once. A path repeats another of the same starting point if all of its
events, optimizers and doubts are the same. Times are CPU; the counts are the same on every machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from gradlint.paths.explorer import Explorer
from gradlint.python.lower import Lowering
from gradlint.python.module import Module
from gradlint.python.source import Source, read


def explored(program: Module) -> Counter[str]:
    """What exploring one program came to."""
    found: Counter[str] = Counter(files=1)
    explorer = Explorer(program)
    seen: set[object] = set()
    begun = time.process_time()
    for path in explorer.paths():
        kind = "unusual" if path.unusual else "usual"
        found[kind] += 1
        found[f"{kind} broken off"] += path.exhausted
        shown = (path.start, path.events, tuple(path.optimizers.items()), path.doubts)
        found["repeated"] += shown in seen
        seen.add(shown)
        now = time.process_time()
        found[f"{kind} µs"] += round((now - begun) * 1e6)
        begun = time.process_time()
    found["notes"] += len(explorer.exhausted)
    return found


def programs(folders: Iterable[Path]) -> Iterable[Module]:
    """All that train, in the order of their names."""
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            source = read(file.read_bytes()) if file.is_file() else None
            if isinstance(source, Source):
                program = Module(Lowering(source.tree).body)
                if program.trains and not program.foreign:
                    yield program


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--files", type=int, help="stop after so many")
    options = parser.parse_args()
    sys.setrecursionlimit(5000)
    total: Counter[str] = Counter()
    for program in programs(options.folders):
        total += explored(program)
        if total["files"] == options.files:
            break
    for what, count in total.items():
        print(f"{count:>10,}  {what}")


if __name__ == "__main__":
    main()
