"""Trains two texts of a loop alike, and says where their weights part.

    python -m benchmarks.updates JOBS

runs JOBS, a JSON file with a list of {"loop", "right", "text"}, and writes beside it what differs, a string each, ""
for nothing. A process of its own, because the redirection of CUDA to the CPU is for good; with RANK and WORLD_SIZE set
it is one of several, which run the same jobs together. `differences` starts such processes and asks them.

The loops are called by `tests.runtime.drivers`, with the same seed, until an optimizer has made eight updates, without
the recorder: nothing stands between the loop and torch. Each text is trained twice. As it is, its weights count; where
a clip always cuts, or Adam asks only for directions, these do not know how large the gradients were. So it is trained
once more with the limits of all clips a million times as wide, and there the gradients count that a step is given.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import logging
import os
import random
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.runtime.drivers import drivers, ranks
from tests.runtime.drivers.running import LOOPS, WORLD, Worker, workers

if TYPE_CHECKING:
    from torch import Tensor

UPDATES = 8
#: relative to the largest number of a parameter. In double precision a sum in another order (the gradients divided
#: in place of the loss, a norm taken once more) differs by some 1e-16, and eight updates of Adam multiply that by no
#: more than a thousand; the least harm that a wrong fix did to one of our loops (one that warms up) was 3e-8.
TOLERANCE = 1e-9
#: where a loop insists on single precision
SINGLE_TOLERANCE = 1e-4
#: seconds of the processor for one text: who no longer steps would go on for ever
PATIENCE = 5


@dataclass(frozen=True, slots=True)
class Pair:
    """The right text of a loop, and one that should do the same."""

    loop: str
    right: str
    text: str

    @property
    def distributed(self) -> bool:
        return ranks.needed(self.right) or ranks.needed(self.text)


def differences(pairs: Sequence[Pair], processes: int = 1, limit: float = 3600.0) -> list[str]:
    """What differs in each, "" where nothing does; equal texts are not run."""
    asked = [pair for pair in dict.fromkeys(pairs) if pair.right != pair.text]
    asked.sort(key=lambda pair: (pair.loop, pair.right))  # a right text is run once for all that follow it
    alone, spread = ([p for p in asked if p.distributed is wanted] for wanted in (False, True))
    size = -(-len(alone) // processes) or 1
    shares = [(alone[n : n + size], 1) for n in range(0, len(alone), size)] + ([(spread, WORLD)] if spread else [])
    said: dict[Pair, str] = {}
    with tempfile.TemporaryDirectory(prefix="gradlint-updates-", ignore_cleanup_errors=True) as folder:
        started: list[tuple[list[Pair], Path, list[Worker]]] = []
        try:
            for number, (share, world) in enumerate(shares):
                orders = Path(folder, f"jobs{number}.json")
                orders.write_text(json.dumps([dataclasses.asdict(pair) for pair in share]), encoding="utf-8")
                started.append((share, orders, workers("benchmarks.updates", orders, world)))
            for share, orders, ranked in started:
                for rank, worker in enumerate(ranked):
                    worker.finish(limit)
                    heard = json.loads(_answers(orders, rank).read_text(encoding="utf-8"))
                    for pair, answer in zip(share, heard, strict=True):
                        said[pair] = said.get(pair) or answer
        finally:
            for _, _, ranked in started:
                for worker in ranked:
                    worker.end()
    return [said.get(pair, "") for pair in pairs]


def _answers(orders: Path, rank: int) -> Path:
    return orders.with_suffix(f".answers{rank}")


# -- in the worker ------------------------------------------------------------------------------------------------


class _Enough(BaseException):
    """Eight updates are made."""


@dataclass(eq=False)
class _Life:
    """One optimizer: the gradients that each of its steps was given, and the weights that it left."""

    optimizer: Any
    gradients: list[list[Tensor]] = field(default_factory=list)
    weights: list[list[Tensor]] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, list[tuple[int, ...]]]:
        """What it is known by in another run: the order in which two of them step says nothing about either."""
        return type(self.optimizer).__name__, [tuple(p.shape) for p in _parameters(self.optimizer)]


@dataclass(eq=False)
class _Watch:
    """All optimizers that step."""

    lives: list[_Life] = field(default_factory=list)
    failure: str = ""

    def of(self, optimizer: Any) -> _Life:
        found = next((life for life in self.lives if life.optimizer is optimizer), None)
        if found is None:
            found = _Life(optimizer)
            self.lives.append(found)
        return found

    def before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        grads = [p.grad for p in _parameters(optimizer)]
        self.of(optimizer).gradients.append([g.detach().clone() for g in grads if g is not None])

    def __call__(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        life = self.of(optimizer)
        life.weights.append([p.detach().clone() for p in _parameters(optimizer)])
        if len(life.weights) > UPDATES:  # one more than is compared: by then all that step as often have made theirs
            raise _Enough


def _parameters(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _trained(loop: str, text: str, dtype: Any, wide: bool = False) -> _Watch:
    """Executes the text and calls it through its driver; `wide`: with clips that cut nothing."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    path = str(LOOPS / f"{loop}.py")

    def load() -> Any:
        names: dict[str, Any] = {"__name__": loop, "__file__": path}
        exec(compile(text, path, "exec", dont_inherit=True), names)
        return SimpleNamespace(**{name: value for name, value in names.items() if not name.startswith("__")})

    watch = _Watch()
    _seed()
    torch.set_default_dtype(dtype)
    hooks = [register_optimizer_step_pre_hook(watch.before), register_optimizer_step_post_hook(watch)]
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            _no_longer_than(PATIENCE),
            _wide_clips() if wide else contextlib.nullcontext(),
        ):
            drivers()[loop](load)
    except _Enough:
        pass
    except Exception as error:
        watch.failure = f"{type(error).__name__}: {str(error)[:160]}"
    finally:
        for hook in hooks:
            hook.remove()
        torch.set_default_dtype(torch.float32)
    return watch


def _seed() -> None:
    import numpy
    import torch

    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)


@contextlib.contextmanager
def _wide_clips() -> Iterator[None]:
    """Under both of its addresses; a loop that imports it by name does so after this."""
    import torch

    plain = torch.nn.utils.clip_grad_norm_

    def clip_grad_norm_(parameters: Any, max_norm: float, *args: Any, **kwargs: Any) -> Any:
        return plain(parameters, max_norm * 1e6, *args, **kwargs)

    with (
        mock.patch.object(torch.nn.utils, "clip_grad_norm_", clip_grad_norm_),
        mock.patch.object(torch.nn.utils.clip_grad, "clip_grad_norm_", clip_grad_norm_),
    ):
        yield


@contextlib.contextmanager
def _no_longer_than(seconds: int) -> Iterator[None]:
    def end(*args: object) -> None:
        raise TimeoutError(f"no {UPDATES} updates within {seconds} seconds")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _difference(right: _Watch, found: _Watch, tolerance: float, wide: bool = False) -> str:
    """Of the weights at the end, and where it began; `wide`: of the gradients of the steps."""
    if right.failure:
        return f"the right loop ends with {right.failure}"
    if found.failure:
        return f"ends with {found.failure}"
    lives, others = (sorted(watch.lives, key=lambda life: life.key) for watch in (right, found))
    if [life.key for life in lives] != [life.key for life in others]:
        return "other parameters"
    for one, other in zip(lives, others, strict=True):
        counts = [min(len(life.weights), UPDATES) for life in (one, other)]
        if counts[0] != counts[1]:
            return f"{counts[1]} updates, not {counts[0]}"
        if apart := _life_apart(one, other, counts[0], tolerance, wide=wide):
            return apart
    return ""


def _life_apart(right: _Life, found: _Life, count: int, tolerance: float, *, wide: bool) -> str:
    if wide:
        for number in range(count):
            if apart := _apart(right.gradients[number], found.gradients[number], tolerance):
                return f"without clips, the gradient of {apart}, at update {number + 1}"
        return ""
    if not count or not (apart := _apart(right.weights[count - 1], found.weights[count - 1], tolerance)):
        return ""
    first = next(n for n in range(count) if _apart(right.weights[n], found.weights[n], tolerance))
    return f"{apart}; first after update {first + 1} of {count}"


def _apart(right: list[Tensor], found: list[Tensor], tolerance: float) -> str:
    if [p.shape for p in right] != [p.shape for p in found]:
        return "other parameters"
    for number, (a, b) in enumerate(zip(right, found, strict=True)):
        if not a.numel() or a.equal(b):
            continue
        if bool((a.isnan() != b.isnan()).any()):
            return f"parameter {number} has other NaNs"
        size, gap = a.nan_to_num().abs().max().item(), (a - b).nan_to_num().abs().max().item()
        if gap > tolerance * max(size, 1e-3):
            return f"parameter {number} differs by {gap:.2g}, its largest number is {size:.2g}"
    return ""


def main() -> int:
    import torch
    import torch._dynamo  # the first step of an optimizer would, at the expense of the first text

    from gradlint.runtime import redirect

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable()
    redirect.install(lambda note: None)
    drivers()
    orders = Path(sys.argv[1])
    pairs = [Pair(**job) for job in json.loads(orders.read_text(encoding="utf-8"))]
    distributed = any(pair.distributed for pair in pairs)
    answers: list[str] = []
    key, right, right_wide, dtype = ("", ""), _Watch(), _Watch(), torch.float64
    with ranks.together(orders.with_suffix(".meeting")) if distributed else contextlib.nullcontext():
        for pair in pairs:
            if key != (pair.loop, pair.right):
                key, dtype = (pair.loop, pair.right), torch.float64
                right = _trained(pair.loop, pair.right, dtype)
                if right.failure:  # it may make numbers of its own, in single precision
                    dtype = torch.float32
                    right = _trained(pair.loop, pair.right, dtype)
                right_wide = _trained(pair.loop, pair.right, dtype, wide=True)
            tolerance = TOLERANCE if dtype is torch.float64 else SINGLE_TOLERANCE
            said = _difference(right, _trained(pair.loop, pair.text, dtype), tolerance)
            if distributed or not said:  # what one rank runs, the others wait for
                found = _trained(pair.loop, pair.text, dtype, wide=True)
                said = said or _difference(right_wide, found, tolerance, wide=True)
            answers.append(said)
    _answers(orders, int(os.environ["RANK"])).write_text(json.dumps(answers), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
