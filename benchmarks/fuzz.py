"""Looks for inputs that break it: mutants of the fixtures and of small files of every other kind, without an end.

    python -m benchmarks.fuzz --minutes 10 [--seed 1] [--out DIR] [--guide coverage|paths]

An input that takes a new way is kept, and mutated in turn. What a way is, a guide says: with atheris installed the code
that it comes by (`benchmarks.covered`), else what gradlint makes of it: another order of events, other findings,
constructs nested as never before. `tests.fuzz.holds` says what must hold; what does not is made small, told, and
written to DIR. The work is done in a process of its own: one that dies, or does not come back, is a find as well. The
exit code is 1 if there were any. A seed gives the same inputs again, as long as the fixtures are the same.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import mmap
import multiprocessing
import os
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Hashable
from pathlib import Path
from types import FrameType

from tests.fuzz.holds import Failed, check
from tests.fuzz.mutants import Input
from tests.fuzz.seeds import SMALL, next_of, seeds

#: what is larger is not mutated on: inputs would only grow
LARGEST = 2_000
#: how often something is tried to make a find smaller
_TRIES = 400
#: of an input's own time; and of anybody's, for what even a signal does not reach
_SECONDS, _PATIENCE = 10.0, 300.0
#: seconds that are worth a look, though no find
_SLOW = 1.0
_MEMORY = 4 << 30
_SHARED = 1 << 20
_HEAD = struct.Struct("<QQII")


class Shared:
    """What the worker leaves for whoever watches it: how far it is, and what it has in hands."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, _SHARED)

    def begin(self, done: int, finds: int, given: Input) -> None:
        name, data = given.name.encode(), given.data[: _SHARED - 100]
        self._map[_HEAD.size : _HEAD.size + len(name) + len(data)] = name + data
        self._map[: _HEAD.size] = _HEAD.pack(done, finds, len(name), len(data))

    @property
    def done(self) -> tuple[int, int]:
        """Inputs, and finds among them."""
        done, finds, _, _ = _HEAD.unpack(self._map[: _HEAD.size])
        return done, finds

    @property
    def input(self) -> Input:
        _, _, name, data = _HEAD.unpack(self._map[: _HEAD.size])
        start = _HEAD.size + name
        return Input(self._map[_HEAD.size : start].decode(), self._map[start : start + data])


class TooLong(BaseException):
    """No `except Exception` may catch it."""


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise TooLong


def tried(given: Input, seconds: float = _SECONDS) -> frozenset[Hashable] | Failed:
    """The marks of an input's way, or what does not hold."""
    signal.signal(signal.SIGVTALRM, _interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        return check(given)
    except Failed as failed:
        return failed
    except TooLong:
        return Failed("hang", f"more than {seconds:g} seconds\n{''.join(traceback.format_exc(limit=-5))}")
    except Exception:
        return Failed("crash", traceback.format_exc(limit=-8))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def alike(failed: Failed) -> str:
    """The same for finds with one cause, as far as can be told from what is said of them."""
    lines = failed.story.strip().splitlines()
    if failed.kind == "hang":
        return failed.kind
    told = lines[-1] if failed.kind == "crash" else lines[0]
    return f"{failed.kind}: {re.sub(r'0x[0-9a-f]+|[0-9]+', '_', told)[:120]}"


def smaller(given: Input, still: Callable[[Input], bool], tries: int = _TRIES) -> Input:
    """The same find with fewer lines, then with fewer characters."""
    for pieces in (lambda data: data.splitlines(keepends=True), lambda data: re.findall(rb"\s+|\w+|[^\w\s]", data)):
        parts = pieces(given.data)
        width = max(1, len(parts) // 2)
        while width:
            at = 0
            while at < len(parts) and tries > 0:
                fewer = parts[:at] + parts[at + width :]
                tries -= 1
                if still(Input(given.name, b"".join(fewer))):
                    parts = fewer
                else:
                    at += width
            width //= 2
        given = Input(given.name, b"".join(parts))
    return given


class Worker:
    """Goes from input to input until its time is over."""

    def __init__(self, shared: Shared, seed: int, out: Path | None) -> None:
        self._shared = shared
        self._rng = random.Random(seed)
        self._out = out
        self._programs = [given for given in seeds() if given.name not in SMALL]
        self._small = [given for given in seeds() if given.name in SMALL]
        self._grown: list[Input] = []
        self._seen: set[Hashable] = set()
        self._known: set[str] = set()
        self._kinds: Counter[str] = Counter()
        self._slowest = 0.0
        self._done = self._finds = 0
        self._begun = self._told = time.monotonic()

    def run(self, until: float) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        while time.monotonic() < until:
            self.take(self._next())
        self.end()

    def take(self, given: Input) -> None:
        """Try one input, and keep it if its way is new."""
        if (now := time.monotonic()) - self._told > 60:
            self._told = now
            self._tell()
        self._shared.begin(self._done, self._finds, given)
        before = time.process_time()
        found = tried(given)
        if (took := time.process_time() - before) > self._slowest:
            self._slowest = took
            if took > _SLOW:
                write(given, "slow", f"{took:.1f} seconds", self._out)
        self._done += 1
        self._kinds[given.name] += 1
        if isinstance(found, Failed):
            self._finds += self._report(given, found)
        elif not found <= self._seen:
            self._seen |= found
            if len(given.data) <= LARGEST:
                self._grown.append(given)

    def end(self) -> None:
        self._shared.begin(self._done, self._finds, Input("", b""))
        self._tell()
        print("  " + ", ".join(f"{name}: {count:,}" for name, count in self._kinds.most_common()), flush=True)

    def _next(self) -> Input:
        chance = self._rng.random()
        if chance < 0.08:
            return next_of(self._rng.choice(self._small), self._rng)
        known = self._grown if chance < 0.5 and self._grown else self._programs
        # the smaller of two: it costs less, and what it shows is easier to see
        two = self._rng.choice(known), self._rng.choice(known)
        return next_of(min(two, key=lambda given: len(given.data)), self._rng)

    def _report(self, given: Input, failed: Failed) -> int:
        """1 for a find that is not like another one."""
        sort = alike(failed)
        if sort in self._known:
            return 0
        self._known.add(sort)

        def still(fewer: Input) -> bool:
            found = tried(fewer)
            return isinstance(found, Failed) and alike(found) == sort

        tell(given if failed.kind == "hang" else smaller(given, still), failed, self._out)
        return 1

    def _tell(self) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rate = self._done / (time.monotonic() - self._begun)
        print(
            f"{self._done:,} inputs, {rate:.0f} a second; {len(self._grown):,} kept, {len(self._seen):,} marks; "
            f"the slowest took {self._slowest:.1f} s, {peak:.0f} MB; {self._finds} finds",
            flush=True,
        )  # fmt: skip


def tell(given: Input, failed: Failed, out: Path | None) -> None:
    print(f"-- {given.name}\n{given.data!r}\n{failed}\n", flush=True)
    write(given, failed.kind, str(failed), out)


def write(given: Input, kind: str, story: str, out: Path | None) -> None:
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        name = f"{kind}-{hashlib.blake2b(given.data, digest_size=4).hexdigest()}"
        # as it would be called, behind a name of its own
        (out / f"{name}-{given.name.removeprefix('.')}").write_bytes(given.data)
        (out / f"{name}.story").write_text(story, "utf-8", "backslashreplace")


def watched(guide: type[Worker], seed: int, until: float, out: Path | None) -> tuple[int, int]:
    """One worker, to its end or death: inputs, and finds."""
    shared = Shared()
    worker = multiprocessing.get_context("fork").Process(
        target=lambda: guide(shared, seed, out).run(until), daemon=True
    )  # fmt: skip
    worker.start()
    before, since = (0, 0), time.monotonic()
    while worker.is_alive():
        worker.join(0.5)
        if shared.done != before:
            before, since = shared.done, time.monotonic()
        elif time.monotonic() - since > _PATIENCE:
            worker.kill()
            worker.join()
            tell(shared.input, Failed("hang", "it did not come back"), out)
    done, finds = shared.done
    if worker.exitcode == 0:
        return done, finds
    if worker.exitcode != -signal.SIGKILL:
        tell(shared.input, Failed("death", f"exit code {worker.exitcode}"), out)
    return done + 1, finds + 1


def main(guide: type[Worker] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="as the last run told it; another one each time")
    parser.add_argument("--out", type=Path, default=None, metavar="DIR", help="where finds are written")
    parser.add_argument("--guide", choices=("coverage", "paths"), default=_usual_guide(), help="[default: %(default)s]")
    options = parser.parse_args()
    if guide is None and options.guide == "coverage":
        # what is to be watched must be imported under the eyes of atheris, and here it is imported already
        return subprocess.call([sys.executable, "-m", "benchmarks.covered", *sys.argv[1:]])
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}, guided by {options.guide}", flush=True)
    until = time.monotonic() + options.minutes * 60
    inputs = finds = 0
    while time.monotonic() < until:
        done, found = watched(guide or Worker, seed, until, options.out)
        inputs, finds, seed = inputs + done, finds + found, seed + 1
    print(f"{inputs:,} inputs in all, {finds} finds", flush=True)
    return 1 if finds else 0


def _usual_guide() -> str:
    return "paths" if importlib.util.find_spec("atheris") is None else "coverage"


if __name__ == "__main__":
    sys.exit(main())
