"""What can be done on a bench, by family: the rewrites of this package, each bound to the bench it works on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec

from gradlint.repair import (
    activations,
    amp,
    amp_api,
    arguments,
    boundary,
    clear,
    clipping,
    fuse,
    guard,
    monitor,
    nosync,
)
from gradlint.repair import divide as dividing

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
    rename = Verb(clipping.rename_function)


class Clips(Family):
    """Other clips, and what becomes of their norm."""

    by_norm = Verb(clipping.clip_by_norm)
    through_model = Verb(clipping.clip_through_model)
    when_synced = Verb(clipping.clip_when_synced)
    insert = Verb(clipping.insert_clip)
    make_list = Verb(clipping.make_list)
    log_norm = Verb(monitor.log_norm)


class Scalers(Family):
    """The scaler at work where it is missing, and autocast where it belongs."""

    unscale = Verb(amp.unscale)
    step_through = Verb(amp.step_through)
    update = Verb(amp.update)
    scale = Verb(amp.scale)
    leave_autocast = Verb(amp.leave_autocast)
    migrate = Verb(amp_api.migrate_amp)


class Losses(Family):
    """Who divides the loss."""

    divide = Verb(dividing.divide_by_window)
    redivide = Verb(dividing.redivide)
    divide_not_gradients = Verb(dividing.divide_not_gradients)
    undivide = Verb(dividing.undivide)


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

    wrap = Verb(nosync.wrap)
    pull_forward_in = Verb(nosync.pull_forward_in)
    invert = Verb(nosync.invert)
    ask_boundary = Verb(nosync.ask_boundary)


class Layers(Family):
    """Other layers in a model."""

    use_relu = Verb(activations.use_relu)


class Numbers(Family):
    """Numbers on the way to the loss: guards, and one function for two."""

    clamp = Verb(guard.clamp_operand)
    absolute = Verb(guard.root_to_absolute)
    fuse = Verb(fuse.fuse)
