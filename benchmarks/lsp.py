"""Measure how long an editor waits for diagnostics: from a key stroke to what the language server says of it.

    python -m benchmarks.lsp [--lines 1000] [--changes 100] [--files 200] [--seed 0] [--json]

The real server runs as a process of its own, over stdio, as an editor starts it. A training file is made, with loops
that are right and loops that are not among other code; then keys are struck here and there: in comments and names,
in a loop that becomes right or wrong, at the top so that all lines move. What is printed:

    answer   from the change to the diagnostics of its version, less the time that the server waits for the next key
    waited   that time: a constant of the server
    ratio    the 95th percentile of both together / a cold `gradlint check --no-cache` of the same file in the same run

Then the same in a project of `--files` files, of which the training file imports six and two import it: two servers,
one with `project = false` and one with `project = true`, get the same keys in turns, and the ratios are those of the
second to the first.

Exits with 1 if the server says something else than `gradlint check` at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import queue
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

from gradlint.lsp.publishing import DEBOUNCE

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
GOOD = """

def train_{n}(model, loader, device, epochs=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    history = []
    for epoch in range(epochs):
        running = 0.0
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            running += loss.item()
        history.append(running / max(1, len(loader)))
    return history
"""
BAD = """

def tune_{n}(model, loader, device, epochs=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    return model
"""
OTHER = '''

def metric_{n}(prediction, target, weights=None):
    """How good a prediction is."""
    hits = (prediction.argmax(dim=-1) == target).float()
    if weights is not None:
        hits = hits * weights
    return {{"accuracy": hits.mean().item(), "count": int(target.numel()), "name": "metric_{n}"}}


class Block{n}(nn.Module):
    def __init__(self, width, dropout=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.dropout(self.inner(self.norm(x)))
'''
#: a loop in every fourth piece: about ten in a thousand lines, half of them wrong
ORDER = (OTHER, OTHER, GOOD, OTHER, OTHER, OTHER, OTHER, BAD, OTHER, OTHER)


PART = '''"""A part of the project."""

import torch
from torch import nn

from part_{other} import tidy_{other}


class Part{n}(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.inner(x))


def loss_{n}(model, x, y):
    return nn.functional.cross_entropy(model(x), y)


def tidy_{n}(model, limit=1.0):
    torch.nn.utils.clip_grad_norm_(model.parameters(), limit)


def both_{n}(model):
    tidy_{other}(model)
'''
USING = """

def fit_{n}(loader, device):
    model = Part{n}(8).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss_{n}(model, x, y).backward()
        tidy_{n}(model)
        optimizer.step()
"""
CALLER = """import torch
from train import train_2


def main_{n}(net, loader):
    train_2(torch.nn.parallel.DistributedDataParallel(net), loader, "cuda")
"""
#: keys that are struck into one file before it is the other one's turn
TURN = 10
#: parts that the training file uses
USED = 6


def make_project(folder: pathlib.Path, text: str, files: int, *, on: bool) -> str:
    """Writes a project round a training file; gives the file's text there."""
    (folder / "gradlint.toml").write_text(f"project = {str(on).lower()}\n", encoding="utf-8")
    parts = max(USED, files - 3)
    for n in range(parts):
        (folder / f"part_{n}.py").write_text(PART.format(n=n, other=(n + 1) % parts), encoding="utf-8")
    for n in range(2):
        (folder / f"main_{n}.py").write_text(CALLER.format(n=n), encoding="utf-8")
    imports = "".join(f"from part_{n} import Part{n}, loss_{n}, tidy_{n}\n" for n in range(USED))
    whole = HEAD + imports + text.removeprefix(HEAD) + "".join(USING.format(n=n) for n in range(USED))
    (folder / "train.py").write_text(whole, encoding="utf-8")
    return whole


def training_file(lines: int) -> str:
    text = HEAD
    for n in range(lines):
        if text.count("\n") >= lines:
            break
        text += ORDER[n % len(ORDER)].format(n=n)
    return text


class Editor:
    """A client of the server: sends what it is told to, and takes down when each answer came."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "gradlint", "server"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self._inbox: queue.Queue[tuple[float, dict[str, Any]]] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        size = 0
        while line := self._process.stdout.readline():
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
            elif line == b"\r\n":
                body = self._process.stdout.read(size)
                self._inbox.put((time.perf_counter(), json.loads(body)))

    def send(self, method: str, params: object, number: int | None = None) -> float:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        body = json.dumps(message if number is None else {**message, "id": number}).encode()
        assert self._process.stdin is not None
        begun = time.perf_counter()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()
        return begun

    def answer(self, number: int) -> object:
        while True:
            _, message = self._inbox.get(timeout=60)
            if message.get("id") == number and "method" not in message:
                return message.get("result")

    def diagnostics(self, version: int) -> tuple[float, list[dict[str, Any]]]:
        """When the diagnostics of a version came, and which they are."""
        while True:
            when, message = self._inbox.get(timeout=60)
            params = message.get("params") or {}
            if message.get("method") == "textDocument/publishDiagnostics" and params.get("version") == version:
                return when, params["diagnostics"]

    def tell(self, what: signal.Signals | None) -> None:
        """Send a signal to the server and the process that lints for it, where there are any (not on Windows)."""
        if what is not None:
            os.killpg(self._process.pid, what)

    def close(self) -> None:
        self.send("shutdown", None, 2)
        self.answer(2)
        self.send("exit", None)
        self._process.wait(10)


def strokes(text: str, chance: random.Random) -> Iterator[tuple[int, int, int, str]]:
    """Changes for ever: line, first and last character, new text; each leaves a file that parses, as most pauses do."""
    clips = [n for n, line in enumerate(text.split("\n")) if "clip_grad_norm_" in line]
    names = [n for n, line in enumerate(text.split("\n")) if line.startswith("        hits = hits")]
    while True:
        yield 0, 0, 0, "#"  # the first line becomes a comment, and then is one no more
        yield 0, 0, 1, ""
        line = chance.choice(clips)
        yield line, 0, 0, "#"  # a clip more or less: findings come and go
        yield line, 0, 1, ""
        line = chance.choice(names)
        yield line, 8, 8, "x"
        yield line, 8, 9, ""


class Typist:
    """Somebody who types into a file, with a server of their own."""

    def __init__(self, text: str, path: pathlib.Path, seed: int) -> None:
        self._editor, self._uri, self._version = Editor(), path.as_uri(), 0
        self._editor.send("initialize", {"processId": None, "rootUri": path.parent.as_uri(), "capabilities": {}}, 1)
        self._editor.answer(1)
        self._editor.send("initialized", {})
        document = {"uri": self._uri, "languageId": "python", "version": 0, "text": text}
        self._editor.send("textDocument/didOpen", {"textDocument": document})
        _, self.found = self._editor.diagnostics(0)
        self._feed = strokes(text, random.Random(seed))
        #: the seconds that each change took
        self.took: list[float] = []

    def strike(self) -> None:
        line, first, last, new = next(self._feed)
        self._version += 1
        document = {"uri": self._uri, "version": self._version}
        place = {"start": {"line": line, "character": first}, "end": {"line": line, "character": last}}
        change = {"textDocument": document, "contentChanges": [{"range": place, "text": new}]}
        begun = self._editor.send("textDocument/didChange", change)
        ended, self.found = self._editor.diagnostics(self._version)
        self.took.append(ended - begun)
        time.sleep(0.05)  # a quick typist's pause

    def stand_still(self) -> None:
        self._editor.tell(getattr(signal, "SIGSTOP", None))

    def go_on(self) -> None:
        self._editor.tell(getattr(signal, "SIGCONT", None))

    def answers(self) -> list[float]:
        """In milliseconds, without the time that the server waits for the next key."""
        return [1000 * (seconds - DEBOUNCE) for seconds in self.took]

    def close(self) -> None:
        self._editor.close()


def measure(changes: int, *typists: Typist) -> None:
    """They type in turn, so that whatever else the machine does slows down all of them. Meanwhile the servers of the
    others stand still: what these do when nobody types in them is not to be in the way."""
    for typist in typists[1:]:
        typist.stand_still()
    for turn in range(0, changes - changes % 2, TURN):
        for typist in typists:
            typist.go_on()
            for _ in range(min(TURN, changes - changes % 2 - turn)):
                typist.strike()
            if len(typists) > 1:
                typist.stand_still()
    for typist in typists:
        typist.go_on()
        typist.close()


def percentiles(answers: list[float]) -> tuple[float, float]:
    return statistics.median(answers), statistics.quantiles(answers, n=20)[-1]


def cold_check(path: pathlib.Path) -> tuple[float, set[tuple[int, str]]]:
    """The best of three cold runs, and what they found."""
    command = [sys.executable, "-m", "gradlint", "check", "--no-cache", "--isolated", "--output-format", "json"]
    best, found = float("inf"), ""
    for _ in range(3):
        begun = time.perf_counter()
        found = subprocess.run([*command, str(path)], stdout=subprocess.PIPE, check=False, text=True).stdout
        best = min(best, time.perf_counter() - begun)
    return best, {(f["location"]["row"], f["code"]) for f in json.loads(found)}


def in_project(text: str, files: int, changes: int, seed: int) -> dict[bool, tuple[float, float]]:
    """The 50th and 95th percentile with the project off and on, from the change to what the file by itself gives; its
    callers are asked when nobody types."""
    with tempfile.TemporaryDirectory() as folder:
        typists = {}
        for on in (False, True):
            home = pathlib.Path(folder).resolve() / str(on)
            home.mkdir()
            typists[on] = Typist(make_project(home, text, files, on=on), home / "train.py", seed)
        measure(changes, *typists.values())
    return {on: percentiles(typist.answers()) for on, typist in typists.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--files", type=int, default=200, help="those of the project")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    text = training_file(args.lines)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder).resolve() / "train.py"
        path.write_text(text, encoding="utf-8")
        typist = Typist(text, path, args.seed)
        measure(args.changes, typist)
        cold, expected = cold_check(path)
    (p50_off, p95_off), (p50_on, p95_on) = in_project(text, args.files, args.changes, args.seed).values()
    p50, p95 = percentiles(typist.answers())
    rows = {
        "lines": text.count("\n"),
        "findings": len(expected),
        "answer, p50 (ms)": round(p50, 1),
        "answer, p95 (ms)": round(p95, 1),
        "waited (ms)": round(1000 * DEBOUNCE, 1),
        "cold check (ms)": round(1000 * cold, 1),
        "ratio": round((p95 / 1000 + DEBOUNCE) / cold, 3),
        "files of a project": args.files,
        "--no-project, p50 (ms)": round(p50_off, 1),
        "--no-project, p95 (ms)": round(p95_off, 1),
        "--project, p50 (ms)": round(p50_on, 1),
        "--project, p95 (ms)": round(p95_on, 1),
        "project, ratio of p50": round(p50_on / p50_off, 2),
        "project, ratio of p95": round(p95_on / p95_off, 2),
    }
    print(
        json.dumps(rows, indent=2) if args.json else "\n".join(f"{name:24}{value:>10}" for name, value in rows.items())
    )
    seen = {(d["range"]["start"]["line"] + 1, d["code"]) for d in typist.found}
    if seen != expected:
        print(f"the server and `gradlint check` disagree: {sorted(seen ^ expected)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
