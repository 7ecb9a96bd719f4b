"""Which device a run is to use."""

from __future__ import annotations

import functools
import json
import subprocess
import sys

from gradlint.config.errors import ConfigError, unknown

WANTED = ("auto", "cpu", "cuda", "mps")
# Python puts the working directory first for `-c`, where any file may be called like a module of torch's
_QUESTION = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import json, torch
print(json.dumps({"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}))
"""


def resolve(wanted: str) -> str:
    """`auto` takes what is there; asking for what is not there is a mistake."""
    if wanted not in WANTED:
        raise unknown("device", wanted, WANTED)
    if wanted == "cpu":
        return wanted
    there = available()
    if wanted == "auto":
        return next(iter(there), "cpu")
    if wanted not in there:
        raise ConfigError(f"--device {wanted}: torch sees no {wanted} device on this machine; use `--device auto`")
    return wanted


@functools.cache
def available() -> tuple[str, ...]:
    """The accelerators that torch sees. Asked in another process: it costs seconds and much memory to import."""
    answer = subprocess.run(
        [sys.executable, "-c", _QUESTION], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    lines = answer.stdout.splitlines()
    if answer.returncode != 0 or not lines:
        reason = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ConfigError(f"torch cannot be imported: {reason}")
    seen: dict[str, bool] = json.loads(lines[-1])
    return tuple(name for name, there in seen.items() if there)
