"""What can be done on a bench, by family: the rewrites of this package, each bound to the bench it works on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec

from gradlint.repair import arguments, boundary, clear, clips, fuse, guard, logging, losses, renames, scaler, sync

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench

P = ParamSpec("P")


class Verb(Generic[P]):
    """A rewrite as a method of a family, or of the bench itself."""

    def __init__(self, rewrite: Callable[Concatenate[Bench, P], object]) -> None:
        self.rewrite = rewrite

    def __get__(self, holder: Family | Bench, owner: type) -> Callable[P, None]:
        bench = holder.bench if isinstance(holder, Family) else holder
        return functools.partial(self.rewrite, bench)  # type: ignore[return-value]  # what it gives is nobody's business


class Family:
    """Verbs about one thing."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench


class Calls(Family):
    """One call: its arguments, its name, its parentheses."""

    add_parentheses = Verb(arguments.call_it)
    pass_keyword = Verb(arguments.add_keyword)
    rename = Verb(renames.rename_function)


class Clips(Family):
    """Other clips, and what becomes of their norm."""

    by_norm = Verb(clips.clip_by_norm)
    through_model = Verb(clips.clip_through_model)
    when_synced = Verb(clips.clip_when_synced)
    insert = Verb(clips.insert_clip)
    make_list = Verb(clips.make_list)
    log_norm = Verb(logging.log_norm)


class Scalers(Family):
    """The scaler at work where it is missing, and autocast where it belongs."""

    unscale = Verb(scaler.unscale)
    step_through = Verb(scaler.step_through)
    update = Verb(scaler.update)
    scale = Verb(scaler.scale)
    leave_autocast = Verb(scaler.leave_autocast)
    migrate = Verb(renames.migrate_amp)


class Losses(Family):
    """Who divides the loss."""

    divide = Verb(losses.divide_by_window)
    redivide = Verb(losses.redivide)
    divide_not_gradients = Verb(losses.divide_not_gradients)
    undivide = Verb(losses.undivide)


class Windows(Family):
    """Where a window of micro-batches ends."""

    count_from_one = Verb(boundary.count_from_one)
    step_at_the_end = Verb(boundary.step_at_the_end)


class Clearings(Family):
    """The order of a plain loop: clear, backward, step."""

    first = Verb(clear.clear_first)
    behind = Verb(clear.clear_behind)
    behind_window = Verb(clear.clear_behind_window)
    step_behind = Verb(clear.step_behind)


class Syncs(Family):
    """no_sync round the micro-batches that do not end a window."""

    wrap = Verb(sync.wrap)
    pull_forward_in = Verb(sync.pull_forward_in)
    invert = Verb(sync.invert)
    ask_boundary = Verb(sync.ask_boundary)


class Layers(Family):
    """Other layers in a model."""

    use_relu = Verb(renames.use_relu)


class Numbers(Family):
    """Numbers on the way to the loss: guards, and one function for two."""

    clamp = Verb(guard.clamp_operand)
    absolute = Verb(guard.root_to_absolute)
    fuse = Verb(fuse.fuse)
