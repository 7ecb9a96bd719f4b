"""What the project costs as it grows: trees of files that import each other, made, doubled and checked.

    python -m benchmarks.projects [SHAPE …] [--files 50000] [--doublings 2] [--json]

    chain    training files of which each imports the next, 1,000 in 50,000 files; all others have no gradients
    cycle    the same in a circle, 500 in 50,000

Each size is a cold `gradlint check --no-cache -j 1` in a process of its own, with `--project` and without. What is
printed: files, CPU seconds with and without the project, what the project adds for each file of the chain, and the peak
of memory. Exits with 1 if a file of the largest chain costs more than twice what one of the smallest costs.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable

LINK = """\
import torch

from link_{next} import advance_{next}


def advance_{n}(model, optimizer, loss):
    loss.backward()
    advance_{next}(model, optimizer, loss)


def train_{n}(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""
LAST = "def advance_{n}(model, optimizer, loss):\n    optimizer.step()\n"
OTHER = "def other_{n}(a, b):\n    return a + {n} * b\n"
#: the files of a folder
_FOLDER = 500


def chain(folder: pathlib.Path, files: int) -> int:
    """One file in fifty is a link; gives their number."""
    links = max(2, files // 50)
    _links(folder, links, circle=False)
    _others(folder, files - links)
    return links


def cycle(folder: pathlib.Path, files: int) -> int:
    """One file in a hundred is a link, and the last one leads to the first."""
    links = max(2, files // 100)
    _links(folder, links, circle=True)
    _others(folder, files - links)
    return links


SHAPES: dict[str, Callable[[pathlib.Path, int], int]] = {"chain": chain, "cycle": cycle}


def _links(folder: pathlib.Path, count: int, *, circle: bool) -> None:
    for n in range(count):
        text = LAST if n == count - 1 and not circle else LINK
        written = text.format(n=n, next=(n + 1) % count)
        (folder / f"link_{n}.py").write_text(written, encoding="utf-8")


def _others(folder: pathlib.Path, count: int) -> None:
    for n in range(count):
        inside = folder / f"part_{n // _FOLDER}"
        if n % _FOLDER == 0:
            inside.mkdir()
        (inside / f"other_{n}.py").write_text(OTHER.format(n=n), encoding="utf-8")


def checked(folder: pathlib.Path, *options: str) -> tuple[float, float]:
    """CPU seconds and the peak of memory in MB of a cold run."""
    command = [sys.executable, "-m", "gradlint", "check", "--no-cache", "-j", "1", "-q", *options, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(shape: str, files: int) -> dict[str, float | str]:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / "gradlint.toml").write_text("")
        links = SHAPES[shape](folder, files)
        without, _ = checked(folder, "--no-project")
        with_it, memory = checked(folder, "--project")
    each = 1000 * (with_it - without) / links
    return {
        "shape": shape, "files": files, "links": links, "without (s)": round(without, 2), "with (s)": round(with_it, 2),
        "ms a link": round(each, 2), "MB": round(memory),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=", ".join(SHAPES))
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--doublings", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    rows: list[dict[str, float | str]] = []
    grows = False
    for shape in args.shapes or SHAPES:
        sizes = [args.files // 2**n for n in range(args.doublings, -1, -1)]
        found = [measure(shape, size) for size in sizes]
        grows |= float(found[-1]["ms a link"]) > 2 * max(0.1, float(found[0]["ms a link"]))
        rows += found
    if args.json:
        print(json.dumps(rows, indent=2))
    else:
        print("".join(f"{name:>12}" for name in rows[0]))
        for row in rows:
            print("".join(f"{value:>12}" for value in row.values()))
    return int(grows)


if __name__ == "__main__":
    sys.exit(main())
