"""`gradlint trace`: the paths and events of a file, as rules see them."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import click

from gradlint.cli.selection import FORMAT
from gradlint.events import Mark, OptimizerRef, Params, ScalerRef, Site
from gradlint.machine.judge import walk
from gradlint.machine.trace import build
from gradlint.model import Unreadable, counted
from gradlint.paths.explorer import Explorer
from gradlint.python import source as reading
from gradlint.python.lower import Lowering
from gradlint.python.module import Module
from gradlint.runner.files import read_bytes

if TYPE_CHECKING:
    from gradlint.events import Event
    from gradlint.paths.explorer import Explorer
    from gradlint.states import GradientState, Path

#: the line of a node
Line = Callable[[int], int]

_WIDTH = 80
#: the most turns that are told as a repetition of those before
_LONGEST = 16
#: fields that every event has, and that are told apart from those of its own
_COMMON = {"site", "frames", "index", "via", "guess"}


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--all", "every", is_flag=True, help="Show the unusual paths, too.")
@click.option("--function", metavar="NAME", help="Only the paths that start with this function.")
@FORMAT
def trace(file: str, every: bool, function: str | None, output_format: str) -> int:
    """Show the paths of FILE and the events on them, for those who write rules."""
    explorer, line = _explorer(file)
    paths = [path for path in explorer.paths() if any(_rows(path, line))]
    starts = list(dict.fromkeys(_start(path) for path in paths))
    if function is not None:
        paths = [path for path in paths if path.entry == function.rpartition(".")[2]]
        if not paths:
            raise click.UsageError(_no_start(function, starts))
    shown = [path for path in paths if every or not path.unusual]
    if output_format == "json":
        click.echo(json.dumps([_record(path, line) for path in shown], indent=2))
        return 0
    if not paths:
        click.echo("Nothing happens to gradients here.")
    for path in shown:
        click.echo("\n".join(_told(path, line)))
        click.echo()
    hidden = len(paths) - len(shown)
    if hidden:
        click.echo(f"{counted(hidden, 'unusual path')} not shown (--all).")
    for what in explorer.exhausted:
        click.echo(f"Note: {what}.")
    return 0


def _explorer(file: str) -> tuple[Explorer, Line]:
    try:
        text = reading.read(read_bytes(file))
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}") from None
    if isinstance(text, Unreadable):
        raise click.ClickException(f"{file} cannot be read: {text.reason}")
    if isinstance(text, reading.Broken):
        raise click.ClickException(f"{file}:{text.row}:{text.column}: {text.message}")
    if isinstance(text, reading.Newer):
        raise click.ClickException(f"{file}:{text.row}:{text.column}: this grammar is newer than the Python that runs")
    lowered = Lowering(text.tree)
    return Explorer(Module(lowered.body)), lambda node: lowered.origins[node].lineno


def _start(path: Path) -> str:
    return path.entry or "the module"


def _no_start(function: str, starts: Sequence[str]) -> str:
    said = f"no path starts with {function!r}: a function is followed where it is called"
    return f"{said}; paths start with {', '.join(starts)}" if starts else "nothing happens to gradients in this file"


class _Row(NamedTuple):
    """An event, and what is known of one optimizer before it."""

    event: Event
    line: int
    turns: tuple[int, ...]
    #: "" if it touches nobody's gradients
    optimizer: str
    phase: str
    window: int | None

    @property
    def name(self) -> str:
        return type(self.event).__name__ + ("?" if self.event.guess is not None else "")

    def same(self) -> tuple[object, ...]:
        """What is repeated when another turn is as this one."""
        return self.line, self.name, self.optimizer, self.phase, self.event.text


def _rows(path: Path, line: Line) -> Iterator[_Row]:
    for event, state in walk(build(path)):
        if not isinstance(event, Mark):
            turns = tuple(frame.turn for frame in event.frames)
            yield _Row(event, line(event.site.node), turns, *_before(state))


def _before(state: GradientState) -> tuple[str, str, int | None]:
    if not state.optimizer.id:
        return "", "", None
    return state.optimizer.text, state.phase.value, state.window.number


def _told(path: Path, line: Line) -> Iterator[str]:
    """A path as a table."""
    rows = list(_rows(path, line))
    yield f"{_start(path)}: {'an unusual' if path.unusual else 'the usual'} path"
    for condition, answer in path.decisions.items():
        yield _cut(f"  {'yes' if answer else 'no':<4}{condition}")
    optimizers = list(dict.fromkeys(row.optimizer for row in rows if row.optimizer))
    for ref in path.optimizers.values():
        if ref.text in optimizers and ref.guess is not None:
            yield _cut(f"  if  {ref.guess.clause}")
    blocks = [list(block) for _, block in groupby(rows, key=lambda row: row.turns)]
    turns = max(4, *(len(_dotted(block)) for block in blocks))
    names = max(map(len, optimizers)) if len(optimizers) > 1 else 0
    yield _cells("line", "turn", "window", "event", "before", "of" if names else "", "code", turns, names)
    same = [[row.same() for row in block] for block in blocks]
    at = 0
    while at < len(blocks):
        again, period = _repetition(same, at) if blocks[at][0].turns else (0, 0)
        if again:
            like = "" if period == 1 else f" as turns {_dotted(blocks[at - period])} to {_dotted(blocks[at - 1])}"
            until = f", until turn {_dotted(blocks[at + again - 1])}" if again > 1 else ""
            yield f"{'':>6}  {_dotted(blocks[at]):<{turns}}  the same{like}{until}"
            at += again
            continue
        for row in blocks[at]:
            window = "" if row.window is None else str(row.window)
            yield _cells(
                str(row.line), _dotted([row]), window, row.name, row.phase, row.optimizer, row.event.text, turns, names
            )  # fmt: skip
        at += 1
    if path.exhausted:
        yield f"{'':>6}  … it was not followed any further"


def _cells(
    line: str, turn: str, window: str, event: str, before: str, optimizer: str, code: str, turns: int, names: int
) -> str:  # fmt: skip
    of = f"{optimizer:<{names}}  " if names else ""
    return _cut(f"{line:>6}  {turn:<{turns}}  {window:<6}  {event:<9}  {before:<8}  {of}{code}")


def _repetition(same: Sequence[object], at: int) -> tuple[int, int]:
    """How many turns from here on are as those before, and after how many it begins anew; at least once whole."""
    for period in range(1, min(at, _LONGEST) + 1):
        again = 0
        while at + again < len(same) and same[at + again] == same[at + again - period]:
            again += 1
        if again >= period:
            return again, period
    return 0, 0


def _dotted(block: Sequence[_Row]) -> str:
    """The turn of each loop, from the outside in."""
    return ".".join(map(str, block[0].turns))


def _cut(text: str) -> str:
    text = " ".join(text.split("\n")).rstrip()
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _record(path: Path, line: Line) -> dict[str, object]:
    return {
        "entry": path.entry,
        "unusual": bool(path.unusual),
        "decisions": dict(path.decisions),
        "exhausted": path.exhausted,
        "events": [_event(row, line, 1 if path.entry else 0) for row in _rows(path, line)],
    }


def _event(row: _Row, line: Line, first: int) -> dict[str, object]:
    """`first`: the number of the first call that led here; a function that a path starts with is called by nobody."""
    event = row.event
    own = {name: getattr(event, name) for name in type(event).__match_args__ if name not in _COMMON}
    return {
        "line": row.line,
        "event": type(event).__name__,
        "text": event.text,
        "turns": list(row.turns),
        "via": [line(site.node) for site in event.via[first:]],
        "guess": event.guess.clause if event.guess is not None else None,
        "before": {"optimizer": row.optimizer, "phase": row.phase, "window": row.window} if row.optimizer else None,
        "fields": {name: _plain(value, line) for name, value in own.items()},
    }


def _plain(value: object, line: Line) -> object:
    """A field as JSON has it: places by their lines, things by their texts."""
    match value:
        case enum.Enum():
            return value.value
        case Site():
            return {"line": line(value.node), "text": value.text}
        case Params():
            return sorted(value.owners) if value.known else None
        case OptimizerRef() | ScalerRef():
            return value.text
        case frozenset() | tuple() | list():
            return [_plain(part, line) for part in (sorted(value) if isinstance(value, frozenset) else value)]
        case _:
            return value if isinstance(value, int | float | str | bool | None) else str(value)
