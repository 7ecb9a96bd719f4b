"""Runs scripts in worker processes: one for all that train alone, and a pair of ranks for all that train together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gradlint.runtime.prove.observed import Job, Observed, read

WORKER = "gradlint.runtime.prove.worker"
#: seconds for all scripts together
LIMIT = 300.0
_DEVICE, _MEETING = "GRADLINT_PROVE_DEVICE", "GRADLINT_PROVE_MEETING"


@dataclass(frozen=True, slots=True)
class Script:
    """A text to run, on so many ranks."""

    job: Job
    text: str
    ranks: int = 1


@dataclass(slots=True)
class Ran:
    """What came of all of them."""

    #: by the id of the job, one of each rank
    runs: dict[str, list[Observed]] = field(default_factory=dict)
    #: the end of what a worker said that did not come to its end
    trouble: str = ""


#: told now and then how many scripts are done
Progress = Callable[[int], None]


def quiet(done: int) -> None:
    """For who does not watch."""


def run(scripts: Sequence[Script], device: str, *, limit: float = LIMIT, progress: Progress = quiet) -> Ran:
    """All scripts; those on several ranks run beside the others. No process is left when this returns."""
    with tempfile.TemporaryDirectory(prefix="gradlint-prove-") as folder:
        home = Path(folder)
        groups = [
            _Group(home / f"ranks-{ranks}", [s for s in scripts if s.ranks == ranks], ranks, device, limit)
            for ranks in sorted({script.ranks for script in scripts})
        ]
        deadline = time.monotonic() + limit
        try:
            for group in groups:
                group.start()
            for group in groups:
                group.wait(deadline, lambda: progress(sum(group.done() for group in groups)))
        finally:
            for group in groups:
                group.end()
        ran = Ran()
        for group in groups:
            ran.runs.update(group.results())
            ran.trouble = ran.trouble or group.trouble()
        return ran


class _Group:
    """The processes that run the same scripts together."""

    def __init__(self, home: Path, scripts: Sequence[Script], ranks: int, device: str, limit: float) -> None:
        self._home = home
        self._scripts = scripts
        self._ranks = ranks
        self._device = device
        self._limit = limit
        self._processes: list[subprocess.Popen[bytes]] = []
        self._killed: set[int] = set()

    def start(self) -> None:
        self._home.mkdir()
        jobs = self._home / "jobs"
        with jobs.open("w", encoding="utf-8") as file:
            for number, script in enumerate(self._scripts):
                path = self._home / f"script_{number}" / Path(script.job.script).name
                path.parent.mkdir()
                path.write_text(script.text, encoding="utf-8")
                file.write(json.dumps({**asdict(script.job), "script": str(path)}) + "\n")
        for rank in range(self._ranks):
            with self._said(rank).open("wb") as said:
                self._processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", WORKER, str(jobs), str(self._result(rank)), str(self._limit)],
                        env=self._environment(rank),
                        cwd=self._home,  # `-m` looks there first, and the caller's folder may hold a random.py
                        stdin=subprocess.DEVNULL,
                        stdout=said,
                        stderr=said,
                    )
                )

    def wait(self, deadline: float, look: Callable[[], None]) -> None:
        """Until all are done. When one fails the others wait for it in vain."""
        while any(process.poll() is None for process in self._processes) and time.monotonic() < deadline:
            if any(process.poll() for process in self._processes):
                return
            look()
            time.sleep(0.02)

    def done(self) -> int:
        """Scripts that the first rank has come through."""
        path = self._result(0)
        return path.read_bytes().count(b"}\n") if path.exists() else 0

    def end(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                self._killed.add(process.pid)
                process.kill()
            process.wait()

    def results(self) -> dict[str, list[Observed]]:
        """The scripts that all ranks have come through."""
        by_id: dict[str, list[Observed]] = {}
        for rank in range(self._ranks):
            path = self._result(rank)
            for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
                if line.endswith("}"):  # the last one may be cut off
                    observed = read(line)
                    by_id.setdefault(observed.id, []).append(observed)
        return {name: found for name, found in by_id.items() if len(found) == self._ranks}

    def trouble(self) -> str:
        """What the one that failed by itself said last."""
        for rank, process in enumerate(self._processes):
            if process.returncode and process.pid not in self._killed:
                said = self._said(rank).read_text(encoding="utf-8", errors="replace").strip().splitlines()
                return "\n".join(said[-12:]) or f"a worker ended with {process.returncode}"
        return ""

    def _result(self, rank: int) -> Path:
        return self._home / f"result-{rank}"

    def _said(self, rank: int) -> Path:
        return self._home / f"said-{rank}"

    def _environment(self, rank: int) -> Mapping[str, str]:
        # what torchrun or a framework has set for the caller says nothing about these processes
        foreign = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", _MEETING)
        ours = {name: value for name, value in os.environ.items() if name not in foreign}
        ours.update({_DEVICE: self._device, "PYTHONPATH": os.pathsep.join(_import_path()), "OMP_NUM_THREADS": "1"})
        if self._ranks > 1:
            meeting = (self._home / "meeting").as_uri()
            ours.update({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(self._ranks), _MEETING: meeting})
        return ours


def _import_path() -> list[str]:
    """So that the workers find what this process found, an editable installation and a bare checkout alike."""
    return [os.path.abspath(entry) for entry in sys.path if entry] or [os.getcwd()]
