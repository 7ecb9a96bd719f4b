"""Runs what compares numbers as other processors would run it.

usage: python -m benchmarks.processors [--only NAME,…] [--facts-only | --whole] [PYTEST ARGUMENTS…]

All cases of `gradlint prove`, whose numbers stand on the pages of the rules, and the tests of the runtime that compare
numbers, under each setting that changes in which order a processor adds: torch's kernels without vector instructions,
with AVX2 and with AVX-512 (where the machine has it), MKL's reproducible mode, one thread and four. The numbers must
hold under all of them.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNTIME = ROOT / "tests" / "runtime"
#: the tests that compare numbers themselves; verdicts on whole scripts and loops, are left to `--whole`
NUMBERS = ("diagnosis", "health", "monitor*", "prove", "recorder*", "verdicts")
SETTINGS = {
    "default": {"ATEN_CPU_CAPABILITY": "default"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "avx512": {"ATEN_CPU_CAPABILITY": "avx512"},
    "mkl": {"MKL_CBWR": "COMPATIBLE"},
    "one-thread": {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    "four-threads": {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SETTINGS), help="settings, comma-separated (default: all)")
    parser.add_argument("--facts-only", action="store_true", help="leave out the tests of the runtime")
    parser.add_argument("--whole", action="store_true", help="all tests of the runtime")
    args, more = parser.parse_known_args()
    tests = [str(RUNTIME)] if args.whole else _modules()
    failed = []
    for name in args.only.split(","):
        if name.startswith("avx") and not _has(name):
            print(f"{name}: this machine has it not")
            continue
        environment = {**os.environ, **SETTINGS[name]}
        commands = [["-m", "docs.facts", "--check"]]
        if not args.facts_only:
            commands += [["-m", "pytest", "-q", *more, *tests]]
        for command in commands:
            before = _seconds()
            done = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, check=False)
            told = f"{'passed' if done.returncode == 0 else 'FAILED'}, {_seconds() - before:.0f} s of a processor"
            print(f"{name}: {command[1]}: {told}", flush=True)
            if done.returncode:
                failed.append(name)
    return 1 if failed else 0


def _modules() -> list[str]:
    found = {pattern: sorted(map(str, RUNTIME.glob(f"test_{pattern}.py"))) for pattern in NUMBERS}
    gone = [pattern for pattern, paths in found.items() if not paths]
    if gone:
        sys.exit(f"no tests are called so any more: {', '.join(gone)}")
    return [path for paths in found.values() for path in paths]


def _seconds() -> float:
    """That all commands so far have cost, with what they started."""
    spent = os.times()
    return spent.children_user + spent.children_system


def _has(name: str) -> bool:
    import torch

    best = torch.backends.cpu.get_cpu_capability()
    return best == "AVX512" or best.lower() == name


if __name__ == "__main__":
    sys.exit(main())
