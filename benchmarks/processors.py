"""Runs what compares numbers as other processors would run it.

usage: python -m benchmarks.processors [--only NAME,…] [PYTEST ARGUMENTS…]

All cases of `gradlint prove`, whose numbers stand on the pages of the rules, and the tests of the runtime, under each
setting that changes in which order a processor adds: torch's kernels without vector instructions, with AVX2 and with
AVX-512 (where the machine has it), MKL's reproducible mode, one thread and four. The numbers must hold under all of
them.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
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
    args, more = parser.parse_known_args()
    failed = []
    for name in args.only.split(","):
        if name.startswith("avx") and not _has(name):
            print(f"{name}: this machine has it not")
            continue
        environment = {**os.environ, **SETTINGS[name]}
        commands = [["-m", "docs.facts", "--check"]]
        if not args.facts_only:
            commands += [["-m", "pytest", "-q", "tests/runtime", *more]]
        for command in commands:
            done = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, check=False)
            print(f"{name}: {' '.join(command[1:])}: {'passed' if done.returncode == 0 else 'FAILED'}", flush=True)
            if done.returncode:
                failed.append(name)
    return 1 if failed else 0


def _has(name: str) -> bool:
    import torch

    best = torch.backends.cpu.get_cpu_capability()
    return best == "AVX512" or best.lower() == name


if __name__ == "__main__":
    sys.exit(main())
