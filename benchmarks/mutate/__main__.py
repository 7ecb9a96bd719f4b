"""The command line of the mutator."""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import json
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks import mutate

from . import amp, distributed, gradients, helpers, order, spelling, windows
from .draft import Draft, RefusedError
from .scene import Scene

Mutation = Callable[[Scene], Iterator[Draft]]
MUTATIONS: dict[str, Mutation] = {
    **order.MUTATIONS,
    **amp.MUTATIONS,
    **windows.MUTATIONS,
    **distributed.MUTATIONS,
}
#: of codes that need little finding; here for their fixes
MORE_MUTATIONS: dict[str, Mutation] = {**gradients.MUTATIONS, **spelling.MUTATIONS}
ALL_MUTATIONS = {**MUTATIONS, **MORE_MUTATIONS}


def sources(arguments: list[pathlib.Path]) -> Iterator[pathlib.Path]:
    """The files that the arguments name, in a fixed order."""
    for argument in arguments:
        if argument.is_dir():
            yield from sorted(argument.rglob("*.py"))
        elif argument.suffix == ".jsonl":
            for row in map(json.loads, argument.read_text().splitlines()):
                yield argument.parent / (row.get("file") or row["path"])
        else:
            yield argument


class Mutated(NamedTuple):
    """A text with one bug."""

    text: str
    line: int
    """To blame, from 1 on."""
    right: str
    """What it should be: the source, or, where the bug came with something new, the source with that made right."""


def mutants(scene: Scene, mutation: Mutation) -> Iterator[tuple[str, int]]:
    """The mutants of one kind that can be written, each with the line to blame, no two alike."""
    for mutant in with_right(scene, mutation(scene)):
        yield mutant.text, mutant.line


def with_right(scene: Scene, drafts: Iterator[Draft]) -> Iterator[Mutated]:
    """The drafts that can be written, no two alike."""
    seen: set[str] = set()
    for draft in drafts:
        try:
            new, line = draft.render()
            right = draft.right.render()[0] if draft.right is not None else scene.source
        except (RefusedError, SyntaxError):
            continue
        if new not in seen and new != scene.source:
            seen.add(new)
            yield Mutated(new, line, right)


def in_helpers(scene: Scene, code: str, mutation: Mutation | None) -> Iterator[Mutated]:
    """Mutants of a code whose bug is in a helper, no two alike."""
    own = (d for found in (helpers.unguarded(scene), helpers.every_call(scene)) for c, d in found if c == code)
    made = list(with_right(scene, own))
    seen = {mutant.text for mutant in made}
    yield from made
    for mutant in [*made, *(with_right(scene, mutation(scene)) if mutation is not None else ())]:
        for new, line in helpers.extracted(mutant.text, mutant.line):
            if new not in seen:
                seen.add(new)
                yield Mutated(new, line, mutant.right)


class Mutant(NamedTuple):
    """A file with one bug of a known code, and the line to blame."""

    source: pathlib.Path
    code: str
    text: str
    line: int


def every(paths: Iterable[pathlib.Path], mutations: Mapping[str, Mutation], count: int) -> Iterator[Mutant]:
    """So many of each code from each file; none where a framework may do these steps."""
    for path in paths:
        scene = Scene(path.read_text(encoding="utf-8"))
        for code, mutation in sorted(mutations.items()) if not scene.framework() else ():
            for text, line in itertools.islice(mutants(scene, mutation), count):
                yield Mutant(path, code, text, line)


def few(paths: Sequence[pathlib.Path], mutations: Mapping[str, Mutation], count: int) -> Iterator[Mutant]:
    """So many of each code, each of another file: as much work with many files as with some.

    Every code begins with another file, so that all files have their turn.
    """
    scene = functools.cache(lambda path: Scene(path.read_text(encoding="utf-8")))
    for number, (code, mutation) in enumerate(sorted(mutations.items())):
        begin = number * len(paths) // max(1, len(mutations))
        found = (
            Mutant(path, code, *next(mutants(scene(path), mutation), ("", 0)))
            for path in (*paths[begin:], *paths[:begin])
            if not scene(path).framework()
        )
        yield from itertools.islice((mutant for mutant in found if mutant.text), count)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutate",
        description=mutate.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sources", nargs="+", type=pathlib.Path, help="correct files, folders of them, or JSONL lists")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder for the mutants and labels.jsonl")
    parser.add_argument("--codes", default="GL", help="codes or prefixes, comma-separated (default: all)")
    parser.add_argument("--per-code", type=int, default=2, help="mutants of one code from one file (default: 2)")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    wanted = {c: m for c, m in sorted(MUTATIONS.items()) if c.startswith(tuple(args.codes.split(",")))}
    rows = []
    for number, path in enumerate(sources(args.sources)):
        try:
            scene = Scene(path.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError) as error:
            print(f"skipped {path}: {error}", file=sys.stderr)
            continue
        if scene.framework():
            print(f"skipped {path}: a framework may do these steps", file=sys.stderr)
            continue
        for code, mutation in wanted.items():
            for k, (new, line) in enumerate(itertools.islice(mutants(scene, mutation), args.per_code)):
                name = f"{code}_{number:03}_{path.stem}_{k}.py"
                (args.out / name).write_text(new, encoding="utf-8")
                rows.append({"file": name, "code": code, "line": line, "source": str(path)})
    (args.out / "labels.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    counts = collections.Counter(r["code"] for r in rows)
    print(f"{len(rows)} mutants in {args.out}:", "  ".join(f"{c} {counts[c]}" for c in wanted))
    return 0


if __name__ == "__main__":
    sys.exit(main())
