"""What recording costs: memory and time of an update under `gradlint verify`, against the same script by itself.

    python -m benchmarks.recorded

A transformer of ten million parameters is trained by a loop with a clip, by one that accumulates four micro-batches,
and by one that clips by value. Each script runs by itself and under the recorder in turn, several rounds; the ratios
are those of the medians. Time is CPU time of one update, memory is what the process needs at most beyond what it needs
before the model is made.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from gradlint.runtime.launch.run import Job, run

#: ratios of a recorded run to a plain one, at most
MEMORY = 1.3
TIME = 1.25

#: updates; the first ones warm up
UPDATES = 9
WARM_UP = 3

_LOOPS = {
    "clip": """
        optimizer.zero_grad()
        loss_of(torch.randint(1000, (8, 64))).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    """,
    "accumulation": """
        optimizer.zero_grad()
        for _ in range(4):
            (loss_of(torch.randint(1000, (4, 64))) / 4).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    """,
    "value": """
        optimizer.zero_grad()
        loss_of(torch.randint(1000, (8, 64))).backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
    """,
}

_SCRIPT = """
import json, time
import torch
from torch import nn


def memory(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what))


torch.set_num_threads(1)
torch.manual_seed(0)
before = memory("VmRSS")
words = nn.Embedding(1000, 384)
layer = nn.TransformerEncoderLayer(384, 6, 1536, dropout=0.0, batch_first=True, norm_first=True)
blocks = nn.TransformerEncoder(layer, 5, enable_nested_tensor=False)
model = nn.Sequential(words, blocks, nn.Linear(384, 1000))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)


def loss_of(batch):
    return nn.functional.cross_entropy(model(batch)[:, :-1].flatten(0, 1), batch[:, 1:].flatten())


def update():
{loop}

seconds = []
for number in range({updates}):
    began = time.process_time()
    update()
    seconds.append(time.process_time() - began)
    if number == {updates} - 2:  # the recorder ends the script with its last step
        found = sorted(seconds[{warm_up}:])
        print(json.dumps([found[len(found) // 2], memory("VmHWM") - before]), flush=True)
"""


class Cost(NamedTuple):
    """Seconds of an update, and kilobytes."""

    seconds: float
    memory: float


def plain(script: Path) -> Cost:
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    return _read(ran.stdout)


def recorded(script: Path) -> Cost:
    outcome = run(Job(script, steps=UPDATES, limit=600))
    if outcome.code != 0:
        raise RuntimeError(outcome.traceback or outcome.output)
    return _read(outcome.output)


def _read(output: str) -> Cost:
    return Cost(*json.loads(next(line for line in output.splitlines() if line.startswith("["))))


def measure(rounds: int) -> Iterator[tuple[str, Cost, Cost]]:
    """Each loop with its costs, plain and recorded."""
    with tempfile.TemporaryDirectory() as folder:
        for name, loop in _LOOPS.items():
            script = Path(folder, f"{name}.py")
            body = textwrap.indent(textwrap.dedent(loop).strip(), "    ")
            script.write_text(_SCRIPT.format(loop=body, updates=UPDATES, warm_up=WARM_UP), encoding="utf-8")
            found = [(plain(script), recorded(script)) for _ in range(rounds)]
            yield (
                name,
                *(Cost(*(median(side) for side in zip(*costs, strict=True))) for costs in zip(*found, strict=True)),
            )  # type: ignore[misc]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recorded", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    missed = False
    for name, alone, under in measure(arguments.rounds):
        time, memory = under.seconds / alone.seconds, under.memory / alone.memory
        missed = missed or time > TIME or memory > MEMORY
        print(
            f"{name:14} {1000 * alone.seconds:7.0f} ms an update, {time:5.3f} × recorded (goal: {TIME:g});"
            f" {alone.memory / 1024:6.0f} MB, {memory:5.3f} × recorded (goal: {MEMORY:g})",
            flush=True,
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
