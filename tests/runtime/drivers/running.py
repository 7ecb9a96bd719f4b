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

from gradlint.runtime.recording import Recording, load
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
        started: list[subprocess.Popen[bytes]] = []
        try:
            for number, (share, world) in enumerate(shares):
                if share:
                    started += _workers(Path(folder), number, share, world)
            for worker in started:
                code = worker.wait(limit)
                if code:
                    raise RuntimeError(f"a worker ended with code {code}: {_said(worker)}")
        finally:
            for worker in started:
                worker.kill()
                worker.communicate()
        found = [load(Path(str(job["folder"]))) for job in jobs]
    for text, recorded in zip(texts, found, strict=True):
        if len(recorded) != (WORLD if text.distributed else 1) or any(r.end is None for r in recorded):
            raise RuntimeError(f"a run of {text.loop} left no whole recording")
    return found


def _workers(folder: Path, number: int, share: list[dict[str, object]], world: int) -> list[subprocess.Popen[bytes]]:
    """One process for each rank."""
    orders = folder / f"jobs{number}.json"
    orders.write_text(json.dumps(share), encoding="utf-8")
    found: list[subprocess.Popen[bytes]] = []
    for rank in range(world):
        about = {"RANK": str(rank), "WORLD_SIZE": str(world)}
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        command = python("-m", "tests.runtime.drivers.worker", str(orders))
        said = open(folder / f"said{number}-{rank}", "w+b")  # noqa: SIM115 - the worker writes there while it lives
        worker = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **about, "PYTHONPATH": path}, stdout=said, stderr=subprocess.STDOUT
        )
        said.close()
        worker.said = folder / f"said{number}-{rank}"  # type: ignore[attr-defined]
        found.append(worker)
    return found


def _said(worker: subprocess.Popen[bytes]) -> str:
    path: Path = worker.said  # type: ignore[attr-defined]
    return path.read_text(encoding="utf-8", errors="replace")[-3000:]
