"""Runs texts of loops in worker processes, distributed ones with two ranks, and reads their recordings back."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradlint.runtime.lines import load
from gradlint.runtime.recording import Recording
from tests.runtime.drivers import ranks
from tests.runtime.zygote import python

ROOT = Path(__file__).resolve().parents[3]
LOOPS = ROOT / "tests" / "loops"
#: ranks of a distributed loop
WORLD = 2


@dataclass(frozen=True, slots=True)
class Text:
    """A text to be run in place of a loop."""

    loop: str
    text: str

    @property
    def path(self) -> str:
        return str(LOOPS / f"{self.loop}.py")

    @property
    def distributed(self) -> bool:
        return ranks.needed(self.text)


def recordings(texts: Sequence[Text], processes: int = 1, limit: float = 600.0) -> list[list[Recording]]:
    """What each of them left behind, all ranks, of 8 steps each; `limit` in seconds for all together."""
    with tempfile.TemporaryDirectory(prefix="gradlint-loops-", ignore_cleanup_errors=True) as folder:
        jobs = [
            {**dataclasses.asdict(text), "path": text.path, "folder": str(Path(folder, str(n)))}
            for n, text in enumerate(texts)
        ]
        alone = [job for job, text in zip(jobs, texts, strict=True) if not text.distributed]
        spread = [job for job, text in zip(jobs, texts, strict=True) if text.distributed]
        shares = [(alone[n::processes], 1) for n in range(processes)] + [(spread, WORLD)]
        started: list[Worker] = []
        try:
            for number, (share, world) in enumerate(shares):
                if share:
                    orders = Path(folder, f"jobs{number}.json")
                    orders.write_text(json.dumps(share), encoding="utf-8")
                    started += workers("tests.runtime.drivers.worker", orders, world)
            for worker in started:
                worker.finish(limit)
        finally:
            for worker in started:
                worker.end()
        found = [load(Path(str(job["folder"]))) for job in jobs]
    for text, recorded in zip(texts, found, strict=True):
        if len(recorded) != (WORLD if text.distributed else 1) or any(r.end is None for r in recorded):
            raise RuntimeError(f"a run of {text.loop} left no whole recording")
    return found


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that does what it was ordered to, as one of several ranks."""

    process: subprocess.Popen[bytes]
    said: Path

    def finish(self, limit: float) -> None:
        if code := self.process.wait(limit):
            said = self.said.read_text(encoding="utf-8", errors="replace")[-3000:]
            raise RuntimeError(f"a worker ended with code {code}: {said}")

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def workers(module: str, orders: Path, world: int) -> list[Worker]:
    """`python -m MODULE ORDERS`, a process for each rank."""
    found: list[Worker] = []
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    for rank in range(world):
        about = {"RANK": str(rank), "WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
        said = orders.with_suffix(f".said{rank}")
        with said.open("wb") as output:
            process = subprocess.Popen(
                python("-m", module, str(orders)), cwd=orders.parent, env={**os.environ, **about},
                stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        found.append(Worker(process, said))
    return found
