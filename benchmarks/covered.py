"""The fuzzer guided by the code that an input comes by: `python -m benchmarks.fuzz` where atheris is installed.

libFuzzer keeps the inputs that reach new code, and has them mutated by us, so that most of them are programs.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from pathlib import Path

import atheris

# never left: much of it is imported when it is needed
atheris.instrument_imports(include=["gradlint"]).__enter__()

from benchmarks import fuzz  # noqa: E402
from tests.fuzz.holds import PROGRAM  # noqa: E402
from tests.fuzz.mutants import Input  # noqa: E402
from tests.fuzz.seeds import SMALL, next_of, seeds  # noqa: E402

#: libFuzzer knows bytes only; the first of them is the name of the file
_NAMES = sorted((*SMALL, "train.py", "train.ipynb", "train.md"))


class Covered(fuzz.Worker):
    """Takes the inputs that libFuzzer hands it."""

    def run(self, until: float) -> None:
        fuzz.check(Input("train.py", PROGRAM))  # the first imports most of it, which would be the find of a hang
        with tempfile.TemporaryDirectory() as folder:
            for number, given in enumerate(seeds()):
                (Path(folder) / str(number)).write_bytes(_bytes(given))
            limits = (f"-max_len={fuzz.LARGEST + 1}", "-rss_limit_mb=0", "-timeout=1000000", "-verbosity=0")
            order = f"-seed={self._rng.randrange(1, 2**31)}"

            def one(data: bytes) -> None:
                self.take(_input(data))
                if time.monotonic() > until:
                    self.end()
                    os._exit(0)  # libFuzzer has no other end

            atheris.Setup([sys.argv[0], *limits, order, folder], one, custom_mutator=_mutated)
            atheris.Fuzz()


def _mutated(data: bytes, most: int, seed: int) -> bytes:
    return _bytes(next_of(_input(data), random.Random(seed)))[:most]


def _bytes(given: Input) -> bytes:
    return bytes([_NAMES.index(given.name)]) + given.data


def _input(data: bytes) -> Input:
    return Input(_NAMES[data[0] % len(_NAMES)], bytes(data[1:])) if data else Input("train.py", b"")


if __name__ == "__main__":
    sys.exit(fuzz.main(Covered))
