"""Measure gradlint's speed and memory as ratios to other tools, in one run on one machine.

    python benchmarks/speed.py --large DIR --accelerate DIR [--peers VENV] [--only large,start] [--json]

Absolute times say little on a shared machine, so every figure is a ratio: the contenders run in turn, round after
round, and the best of each one's rounds counts. What is measured:

    large    cold `gradlint check --no-cache --isolated DIR` / `ruff check --no-cache --isolated DIR`     goal <= 0.75
    warm     the same with a filled cache / without one                                                    goal <= 0.2
    peers    torch-preflight / gradlint and TorchFix / gradlint, on a checkout of huggingface/accelerate   goal >= 30
    start    one clean small file, and one without torch / `python -c "import click"`                      goal <= 3
    memory   peak of gradlint and all its processes on the large checkout                               goal <= 300 MB

Times of `large` and `start` are user and system time of all processes, which others on the machine disturb least; the
time on the clock stands beside them. The others are times on the clock.

Exits with 1 if a goal is missed. The peers take minutes; `--peers` names a virtual environment that holds them,
`--install-peers` one to make and fill first.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import resource
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

PEERS = {"torch-preflight": ["torch-preflight", "check", "-q"], "torchfix": ["torchfix"]}
SMALL_FILE = """\
import torch


def train(model, loader, loss_fn):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
"""
PLAIN_FILE = """\
import os


def size(path):
    return os.stat(path).st_size
"""


@dataclasses.dataclass(frozen=True)
class Command:
    """Something to time: what runs, and where."""

    name: str
    args: list[str]
    cwd: pathlib.Path


@dataclasses.dataclass(frozen=True)
class Time:
    """What a command took, in seconds."""

    #: until it was over
    clock: float
    #: of the processors, by all its processes together
    used: float


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the report."""

    name: str
    value: float
    goal: str
    passed: bool
    detail: str


def run(command: Command) -> subprocess.Popen[bytes]:
    """Start a command, its output thrown away; bytecode is kept, as it is in any installation."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.Popen(
        command.args,
        cwd=command.cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(command: Command, process: subprocess.Popen[bytes]) -> Time:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    _, errors = process.communicate()
    clock, now = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
    if process.returncode not in (0, 1):  # 1: findings
        sys.exit(f"{shlex.join(command.args)} exited {process.returncode}\n{errors.decode(errors='replace')[-2000:]}")
    return Time(clock, used)


def measured(command: Command) -> Time:
    return finish(command, run(command))


def best(commands: list[Command], rounds: int) -> dict[str, Time]:
    """The best times of each command, run in turn so that a busy moment hits all alike."""
    times: dict[str, list[Time]] = {c.name: [] for c in commands}
    for _ in range(rounds):
        for command in commands:
            times[command.name].append(measured(command))
    return {name: Time(min(x.clock for x in t), min(x.used for x in t)) for name, t in times.items()}


def at_most(name: str, value: float, goal: float, detail: str, unit: str = "x") -> Row:
    return Row(name, value, f"<= {goal:g}{unit}", value <= goal, detail)


def at_least(name: str, value: float, goal: float, detail: str) -> Row:
    return Row(name, value, f">= {goal:g}x", value >= goal, detail)


@dataclasses.dataclass(frozen=True)
class Bench:
    """The paths and commands of this run."""

    gradlint: list[str]
    ruff: list[str]
    python: str
    rounds: int
    scratch: pathlib.Path
    large: pathlib.Path | None
    accelerate: pathlib.Path | None
    peers: pathlib.Path | None

    def check(self, name: str, path: pathlib.Path, *options: str) -> Command:
        args = [*self.gradlint, "check", "--isolated", "-q", *options, str(path)]
        return Command(name, args, self.scratch)

    def measure_large(self) -> Iterator[Row]:
        if self.large is None:
            return
        ruff = Command("ruff", [*self.ruff, "check", "--no-cache", "--isolated", "-q", str(self.large)], self.scratch)
        t = best([self.check("gradlint", self.large, "--no-cache"), ruff], self.rounds)
        ours, theirs = t["gradlint"], t["ruff"]
        detail = f"gradlint {ours.used:.2f} s, ruff {theirs.used:.2f} s; on the clock {ours.clock / theirs.clock:.2f}x"
        yield at_most("large: cold gradlint / ruff", ours.used / theirs.used, 0.75, detail)

    def measure_warm(self) -> Iterator[Row]:
        if self.large is None:
            return
        kept = self.scratch / "kept"
        warm = self.check("warm", self.large, "--cache-dir", str(kept))
        measured(warm)  # fills the cache
        if not list(kept.glob("*.json")):
            sys.exit(f"nothing was written into {kept}")
        t = best([self.check("cold", self.large, "--no-cache"), warm], self.rounds)
        warmed, cold = t["warm"].clock, t["cold"].clock
        yield at_most("warm: cached / cold", warmed / cold, 0.2, f"warm {warmed:.2f} s, cold {cold:.2f} s")

    def measure_peers(self) -> Iterator[Row]:
        if self.accelerate is None or self.peers is None:
            return
        ours = self.check("gradlint", self.accelerate, "--no-cache")
        for peer, (program, *options) in PEERS.items():
            args = [str(self.peers / "bin" / program), *options, str(self.accelerate)]
            # the peers take a minute each: once is enough beside the best of ours before and after
            before = best([ours], self.rounds)["gradlint"].clock
            theirs = measured(Command(peer, args, self.scratch)).clock
            mine = min(before, best([ours], self.rounds)["gradlint"].clock)
            detail = f"gradlint {mine:.2f} s, {peer} {theirs:.1f} s"
            yield at_least(f"peers: {peer} / gradlint", theirs / mine, 30, detail)

    def measure_start(self) -> Iterator[Row]:
        files = {"one small file": SMALL_FILE, "one without torch": PLAIN_FILE}
        commands = [Command("click", [self.python, "-c", "import click"], self.scratch)]
        for number, (name, text) in enumerate(files.items()):
            path = self.scratch / f"start_{number}.py"
            path.write_text(text)
            commands.append(self.check(name, path, "--no-cache"))
        t = best(commands, max(self.rounds, 10))
        click = t["click"]
        for name in files:
            detail = (
                f"gradlint {t[name].used * 1000:.0f} ms, import click {click.used * 1000:.0f} ms; "
                f"on the clock {t[name].clock / click.clock:.2f}x"
            )
            yield at_most(f"start: {name} / import click", t[name].used / click.used, 3, detail)

    def measure_memory(self) -> Iterator[Row]:
        if self.large is None:
            return
        if not pathlib.Path("/proc/self/smaps_rollup").exists():
            print("memory: skipped, it is read from Linux's /proc", file=sys.stderr)
            return
        command = self.check("gradlint", self.large, "--no-cache")
        process = run(command)
        peak = PeakMemory(process.pid)
        peak.start()
        finish(command, process)
        detail = f"{peak.processes} processes at the peak, shared pages counted once"
        yield at_most("memory: peak of all processes", peak.finish() / 1e6, 300, detail, " MB")


class PeakMemory(threading.Thread):
    """The largest proportional set size of a process with its descendants, asked every few milliseconds."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peak, self.processes = pid, 0, 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.02):
            sizes = [proportional_size(p) for p in family(self.pid)]
            if sum(sizes) > self.peak:
                self.peak, self.processes = sum(sizes), sum(s > 0 for s in sizes)

    def finish(self) -> int:
        self.done.set()
        self.join()
        return self.peak


def family(pid: int) -> list[int]:
    """A process and all its descendants that are alive now."""
    members = [pid]
    for member in members:
        try:
            for task in os.listdir(f"/proc/{member}/task"):
                members += map(int, pathlib.Path(f"/proc/{member}/task/{task}/children").read_text().split())
        except OSError:
            pass  # it ended between two looks
    return members


def proportional_size(pid: int) -> int:
    """The memory of a process in bytes, a page shared by n processes counted as 1/n."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # it ended between two looks
    return 0


def install_peers(venv: pathlib.Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([str(venv / "bin" / "pip"), "install", "-q", *PEERS], check=True)


def report(rows: list[Row], as_json: bool) -> None:
    if as_json:
        print(json.dumps([dataclasses.asdict(r) for r in rows], indent=2))
        return
    print(f"{'what':42}{'value':>10}  {'goal':10}{'':7}detail")
    for r in rows:
        print(f"{r.name:42}{r.value:10.2f}  {r.goal:10}{'pass' if r.passed else 'FAIL':7}{r.detail}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["large", "warm", "peers", "start", "memory"]
    parser.add_argument(
        "--large", type=pathlib.Path, metavar="DIR", help="a large checkout, such as huggingface/transformers"
    )
    parser.add_argument("--accelerate", type=pathlib.Path, metavar="DIR", help="a checkout of huggingface/accelerate")
    parser.add_argument("--peers", type=pathlib.Path, metavar="VENV", help="holds torch-preflight and torchfix")
    parser.add_argument("--install-peers", action="store_true", help="make the environment of --peers first")
    parser.add_argument(
        "--gradlint", default=f"{shlex.quote(sys.executable)} -m gradlint", help="default: this Python's"
    )
    beside = pathlib.Path(sys.executable).with_name("ruff")
    parser.add_argument(
        "--ruff", default=shlex.quote(str(beside)) if beside.exists() else "ruff", help="ruff's command"
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds of which the best counts (default: 5)")
    parser.add_argument("--only", default=",".join(names), help=f"some of {', '.join(names)}, comma-separated")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    wanted = args.only.split(",")
    if unknown := set(wanted) - set(names):
        parser.error(f"--only knows {', '.join(names)}, not {', '.join(sorted(unknown))}")
    if args.install_peers:
        if args.peers is None:
            parser.error("--install-peers needs --peers")
        install_peers(args.peers)
    with tempfile.TemporaryDirectory() as scratch:
        where = [p.resolve() if p else None for p in (args.large, args.accelerate, args.peers)]
        commands = shlex.split(args.gradlint), shlex.split(args.ruff)
        bench = Bench(*commands, sys.executable, args.rounds, pathlib.Path(scratch), *where)
        rows = [row for name in names if name in wanted for row in getattr(bench, f"measure_{name}")()]
    report(rows, args.json)
    return 0 if rows and all(r.passed for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
