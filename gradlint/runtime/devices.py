"""Which device a run is to use."""

from __future__ import annotations

import functools
import json
import subprocess
import sys

from gradlint.config.reading import ConfigError, unknown

WANTED = ("auto", "cpu", "cuda", "mps")
# Python puts the working directory first for `-c`, where any file may be called like a module of torch's
_QUESTION = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import json, torch
cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
print(json.dumps({"cuda": cards, "mps": int(torch.backends.mps.is_available())}))
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


def too_few(device: str, ranks: int) -> str:
    """A word about ranks that have no device of their own, and run on the CPU therefore; "" if all have one."""
    if device == "cpu" or ranks <= (cards := available()[device]):
        return ""
    return f"{ranks} ranks, and {cards} {device} device{'' if cards == 1 else 's'}: they run on the CPU"


@functools.cache
def available() -> dict[str, int]:
    """The accelerators that torch sees, and how many. Asked in another process: torch takes seconds and memory."""
    answer = subprocess.run(
        [sys.executable, "-c", _QUESTION], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    lines = answer.stdout.splitlines()
    if answer.returncode != 0 or not lines:
        reason = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ConfigError(f"torch cannot be imported: {reason}")
    seen: dict[str, int] = json.loads(lines[-1])
    return {name: cards for name, cards in seen.items() if cards}
