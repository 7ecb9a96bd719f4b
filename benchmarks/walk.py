"""Follow one file through gradlint, and count the functions and modules of ours that it comes by.

    python -m benchmarks.walk [clean|plain|finding|comment|key …] [--functions]

    clean     a small training file in which nothing is wrong, from its bytes to the report
    plain     one without torch
    finding   GL101 of the shipped example: to the finding, its fix and the report
    comment   a key in a comment of the example, as the editor's worker gets it: the program is the one of before
    key       a key in its code: another program

Each walk has a process of its own; before the keys, the worker has warmed up and linted the example. A line is a
package, or a module that stands alone, in the order in which they are come by, with its modules, functions and
calls; `--functions` lists these.
"""

from __future__ import annotations

import argparse
import inspect
import multiprocessing
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import CodeType, FrameType

from benchmarks.speed import PLAIN_FILE, SMALL_FILE

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "train_with_mistakes.py"
_OURS = (os.path.join(ROOT, "gradlint", ""), os.path.join(ROOT, "rules", ""))

Counts = dict[str, dict[str, int]]


class Counter:
    """Counts the calls of our functions, by module, in the order in which they are first come by."""

    def __init__(self) -> None:
        self.calls: dict[CodeType, int] = {}

    def __enter__(self) -> Counter:
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_flags & inspect.CO_NEWLOCALS or code.co_name[0] == "<":
            return  # the body of a class or a module, a comprehension
        if code.co_filename.startswith(_OURS):
            self.calls[code] = self.calls.get(code, 0) + 1

    def counts(self) -> Counts:
        found: Counts = {}
        for code, calls in self.calls.items():
            module = os.path.relpath(code.co_filename, ROOT).removesuffix(".py").removesuffix("/__init__")
            name = f"{code.co_name}:{code.co_firstlineno}"
            found.setdefault(module, {})[name] = calls
        return found


def check(source: str, *options: str) -> Counts:
    """A run of the command line, counted from its first import on."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "train.py"
        path.write_text(source, encoding="utf-8")
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # this process ends with the walk
        with Counter() as counter:
            from gradlint.cli import run

            run(["check", "--no-cache", "--isolated", *options, str(path)])
    return counter.counts()


def typed(before: str, after: str) -> Counts:
    """What the editor's worker does with a text that has changed."""
    from gradlint.config import Layer, Settings
    from gradlint.lsp.pipe import Job, Task, packed
    from gradlint.lsp.worker import Baselines, Memory, Neighbours, warm_up, work

    warm_up()
    kept = Baselines(), Memory(), Neighbours()
    settings = Settings(layers=(Layer(fixable=()),))  # fixes are looked for when the editor asks for them
    work(Job(1, Task.LINT, "train.py", settings, before.encode()), *kept)
    with Counter() as counter:
        packed(work(Job(2, Task.LINT, "train.py", settings, after.encode()), *kept))
    return counter.counts()


def _example() -> str:
    return EXAMPLE.read_text(encoding="utf-8")


WALKS: dict[str, Callable[[], Counts]] = {
    "clean": lambda: check(SMALL_FILE),
    "plain": lambda: check(PLAIN_FILE),
    "finding": lambda: check(_example(), "--select", "GL101"),
    "comment": lambda: typed(_example(), _example() + "# x"),
    "key": lambda: typed(_example(), _example().replace("1.0)", "1.05)", 1)),
}


def walked(name: str, answer: Connection) -> None:
    answer.send(WALKS[name]())


def apart(name: str) -> Counts:
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=walked, args=(name, there))
    process.start()
    there.close()
    try:
        found: Counts = here.recv()
    finally:
        process.join()
    return found


def package(module: str) -> str:
    """`gradlint/paths/calls` -> `paths`; a module of no package stands for itself."""
    parts = module.split("/")
    return parts[1] if parts[0] == "gradlint" and len(parts) > 1 else parts[0]


def report(name: str, found: Counts, *, functions: bool) -> None:
    modules: dict[str, list[str]] = {}
    for module in found:
        modules.setdefault(package(module), []).append(module)
    every = [calls for named in found.values() for calls in named.values()]
    print(f"{name}: {len(every)} functions in {len(found)} modules, {sum(every)} calls")
    for where, inside in modules.items():
        calls = [count for module in inside for count in found[module].values()]
        print(f"    {where:<14}{len(inside):>4} modules {len(calls):>5} functions {sum(calls):>8} calls")
        for module in inside if functions else ():
            print(f"        {module}: {', '.join(found[module])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("walks", nargs="*", metavar="WALK", help=f"of {', '.join(WALKS)}; all of them by default")
    parser.add_argument("--functions", action="store_true", help="list the functions of each module")
    options = parser.parse_args()
    if unknown := set(options.walks) - WALKS.keys():
        parser.error(f"no such walk: {', '.join(sorted(unknown))}")
    for name in options.walks or WALKS:
        report(name, apart(name), functions=options.functions)


if __name__ == "__main__":
    main()
