"""A process and all that it starts: begun together, ended together, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

#: seconds to end by themselves after SIGTERM
PATIENCE = 3.0
_PAUSE = 0.02


class Family:
    """`mark` is an entry of the environment (`NAME=value`) that no other process has.

    A process group is not enough: torchrun puts each worker into a session of its own, and so do daemons.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: Path | None, output: IO[bytes], mark: str
    ) -> None:
        self._mark = os.fsencode(mark)
        flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        self.process = subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=os.name == "posix",
            creationflags=flags,
        )

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None if it is still running after so long."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """Ask all of them to stop; after a while, insist. Also right when the first has ended and left others."""
        if os.name != "posix":
            self._end_on_windows()
            return
        members = self._members()
        if not members and self.process.poll() is not None:
            return
        self._signal(members, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.process.poll() is not None and not self._members():
                return
            time.sleep(_PAUSE)
        self.kill()

    def kill(self) -> None:
        """End all of them now."""
        if os.name != "posix":
            self._end_on_windows()
            return
        for _ in range(50):  # one may have started another in between
            members = self._members()
            if not members and self.process.poll() is not None:
                return
            self._signal(members, signal.SIGKILL)
            self.wait(_PAUSE)
            time.sleep(_PAUSE)

    def _signal(self, members: set[int], number: signal.Signals) -> None:
        first = [self.process.pid] if self.process.poll() is None else []
        for pid in {*members, *first}:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                pass  # gone in the meantime, or made itself another user's

    def _members(self) -> set[int]:
        """All but the first process and those that are dead and only wait to be collected."""
        table = _marked(self._mark) if sys.platform == "linux" else set()
        return (table | self._related()) - {self.process.pid, os.getpid()}

    def _related(self) -> set[int]:
        """The group of the first process; while that is there to be their parent, its descendants and theirs too."""
        rows = _process_table()
        first = self.process.pid
        if self.process.poll() is not None:
            return {pid for pid, _, group in rows if group == first}
        members = {first}
        while True:
            more = {pid for pid, parent, group in rows if parent in members or group in members}
            if more <= members:
                return members
            members |= more

    def _end_on_windows(self) -> None:
        if self.process.poll() is None:
            command = ["taskkill", "/F", "/T", "/PID", str(self.process.pid)]
            subprocess.run(command, capture_output=True, check=False)
            self.process.kill()
        self.process.wait()


def _process_table() -> list[tuple[int, int, int]]:
    """The id, the parent and the group of each living process."""
    if sys.platform == "linux":
        return [row for entry in os.listdir("/proc") if entry.isdigit() and (row := _row(int(entry)))]
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="], capture_output=True, text=True, check=False)
    rows = [line.split() for line in listing.stdout.splitlines()]
    return [(int(r[0]), int(r[1]), int(r[2])) for r in rows if len(r) == 4 and not r[3].startswith("Z")]


def _row(pid: int) -> tuple[int, int, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, parent, group, *_ = text.rpartition(")")[2].split()  # the name, in parentheses, may hold anything
    return None if state in "ZX" else (pid, int(parent), int(group))


def _marked(mark: bytes) -> set[int]:
    """The living processes whose environment holds the mark."""
    found = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            continue  # gone, or another user's
        if mark in environment.split(b"\0"):
            found.add(int(entry))
    return found
