"""Builds event sequences by hand, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradlint.events import (
    Backward,
    Clip,
    Event,
    Mark,
    OptimizerRef,
    Params,
    ScalerRef,
    Schedule,
    Site,
    Step,
    Turn,
    Unscale,
    Update,
    Zero,
)
from gradlint.states import Path

LOOP = 100
OPTIMIZER = OptimizerRef("opt", "optimizer")
SCALER = ScalerRef("scaler", "scaler")

_NODES: dict[str, int] = {}


def site(text: str) -> Site:
    """The same text is the same place."""
    return Site(_NODES.setdefault(text, len(_NODES)), text)


def turns(*numbers: int, loop: int = LOOP) -> tuple[Turn, ...]:
    """Frames of nested loops, from the outside in."""
    return tuple(Turn(loop + depth, number) for depth, number in enumerate(numbers))


def owned(*names: str) -> Params:
    return Params(frozenset(names), known=True)


def zero(*at: int, optimizer: str | None = "opt", params: Params | None = None) -> Zero:
    return Zero(site(f"{optimizer}.zero_grad()"), turns(*at), params=params or Params(), optimizer=optimizer)


def backward(*at: int, loss: str = "loss", params: Params | None = None, scaler: ScalerRef | None = None) -> Backward:
    return Backward(site(f"{loss}.backward()"), turns(*at), params=params or Params(), loss=loss, scaler=scaler)


def step(*at: int, optimizer: str = "opt", scaler: ScalerRef | None = None, window: str = "") -> Step:
    return Step(site(f"{optimizer}.step()"), turns(*at), optimizer=optimizer, scaler=scaler, window=window)


def clip(*at: int, params: Params | None = None) -> Clip:
    return Clip(site("clip_grad_norm_(…)"), turns(*at), params=params or Params())


def unscale(*at: int, optimizer: str | None = "opt") -> Unscale:
    return Unscale(site("scaler.unscale_(…)"), turns(*at), scaler=SCALER, optimizer=optimizer)


def update(*at: int) -> Update:
    return Update(site("scaler.update()"), turns(*at), scaler=SCALER)


def schedule(*at: int, optimizer: str | None = None) -> Schedule:
    return Schedule(site("scheduler.step()"), turns(*at), optimizer=optimizer)


def mark(*at: int, over: bool = False) -> Mark:
    return Mark(site("for"), turns(*at), loop=LOOP, over=over)


def path(events: Sequence[Event], *optimizers: OptimizerRef) -> Path:
    numbered = tuple(replace(event, index=index) for index, event in enumerate(events))
    return Path(numbered, {ref.id: ref for ref in optimizers or (OPTIMIZER,)})
