"""Counts how many injected bugs other linters tell, beside gradlint.

    python -m benchmarks.peers --peers VENV [--per-code N] [--write]

Makes mutants of the right loops in tests/loops, each with one bug, some of each code. All tools look at the same files,
the right loops as well, with all of their rules. A bug counts as told if the tool says anything of the mutant that it
does not say of the right loop, whatever it is, wherever it stands: the question is only whether somebody would look.
What is said of right loops is counted, too; a rule of another kind (no `num_workers`) may well be right there.
`--write` puts the table into docs/compare.md.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from collections import Counter
from importlib import metadata

from benchmarks.mutate.__main__ import MUTATIONS, Mutant, few, sources
from benchmarks.recall import LOOPS
from docs.table import placed
from gradlint.model import Category
from gradlint.registry import by_code

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "compare.md"
_LINE = re.compile(r"^(.+?\.py):\d+:\d+: (\w+)", re.MULTILINE)

#: what is said of each file, by rule
Told = dict[str, Counter[str]]


def _output(command: list[str], folder: pathlib.Path) -> str:
    done = subprocess.run([*command, "."], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"{command[0]} exited {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def _lines(command: list[str], folder: pathlib.Path) -> Told:
    told: Told = collections.defaultdict(Counter)
    for path, code in _LINE.findall(_output(command, folder)):
        told[str(pathlib.PurePath(path))][code] += 1
    return told


def _diagnostics(command: list[str], folder: pathlib.Path) -> Told:
    told: Told = collections.defaultdict(Counter)
    for row in json.loads(_output(command, folder))["diagnostics"]:
        path = pathlib.Path(row["path"])
        told[str(path.relative_to(folder) if path.is_absolute() else path)][row["code"]] += 1
    return told


def asked(folder: pathlib.Path, peers: pathlib.Path) -> dict[str, Told]:
    """What each tool says of all files, with all of its rules on."""
    ours = [sys.executable, "-m", "gradlint", "check", "--isolated", "--no-cache", "-q", "--preset", "strict"]
    ruff = [str(pathlib.Path(sys.executable).with_name("ruff")), "check", "--isolated", "--no-cache", "-q"]
    there = peers / "bin"
    return {
        f"gradlint {metadata.version('torch-gradlint')}": _lines([*ours, "--output-format", "concise"], folder),
        f"torch-preflight {_version(peers, 'torch-preflight')}": _diagnostics(
            [str(there / "torch-preflight"), "check", "-f", "json", "--fail-on", "note"], folder
        ),
        f"TorchFix {_version(peers, 'torchfix')}": _lines([str(there / "torchfix"), "--select", "ALL"], folder),
        f"ruff {metadata.version('ruff')}": _lines(
            [*ruff, "--select", "ALL", "--output-format", "concise"], folder
        ),
    }  # fmt: skip


def _version(peers: pathlib.Path, name: str) -> str:
    script = f"from importlib.metadata import version; print(version({name!r}))"
    return subprocess.check_output([str(peers / "bin" / "python"), "-c", script], text=True).strip()


def table(mutants: list[Mutant], told: dict[str, Told]) -> str:
    """By family: the bugs that each tool tells; and what it says of right loops."""
    families = [c for c in Category if any(by_code()[m.code].meta.category is c for m in mutants)]
    rows = [("bugs in a loop that was right", "number", *told)]
    for family in (*families, None):
        chosen = [n for n, m in enumerate(mutants) if family in (None, by_code()[m.code].meta.category)]
        counts = [sum(_tells(found, n, mutants[n]) for n in chosen) for found in told.values()]
        label = "**all**" if family is None else family.value
        rows.append((label, str(len(chosen)), *map(str, counts)))
    right = {_right(mutant) for mutant in mutants}
    said = [sum(found[path].total() for path in right if path in found) for found in told.values()]
    rows.append(("remarks on the right loops", str(len(right)), *map(str, said)))
    rule = "|".join(["---", *("---:" for _ in rows[0][1:])])
    return "\n".join(("| " + " | ".join(rows[0]) + " |", f"|{rule}|", *("| " + " | ".join(r) + " |" for r in rows[1:])))


def _right(mutant: Mutant) -> str:
    return f"right/{mutant.source.name}"


def _tells(told: Told, number: int, mutant: Mutant) -> bool:
    nothing: Counter[str] = Counter()
    return bool(told.get(f"mutants/{number}.py", nothing) - told.get(_right(mutant), nothing))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=pathlib.Path, required=True, metavar="VENV", help="as for speed.py")
    parser.add_argument("--per-code", type=int, default=10, help="mutants of one code (default: 10)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/compare.md")
    args = parser.parse_args()
    mutants = list(few(list(sources([LOOPS])), MUTATIONS, args.per_code))
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch).resolve()
        (folder / "mutants").mkdir()
        (folder / "right").mkdir()
        for number, mutant in enumerate(mutants):
            (folder / "mutants" / f"{number}.py").write_text(mutant.text, encoding="utf-8")
            (folder / _right(mutant)).write_bytes(mutant.source.read_bytes())
        made = table(mutants, asked(folder, args.peers.absolute()))
    print(made)
    if args.write:
        PAGE.write_text(placed(PAGE.read_text(encoding="utf-8"), "peers", made), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
