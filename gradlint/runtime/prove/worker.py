"""The process that runs cases: torch is imported once, each script gets a namespace and a recorder of its own.

`python -m gradlint.runtime.prove.worker JOBS RESULTS SECONDS`: both are files of JSON lines. With RANK and WORLD_SIZE
set, several of these processes run the same jobs together.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from gradlint.runtime.launch.orders import Orders
from gradlint.runtime.lines import encode
from gradlint.runtime.prove import lab
from gradlint.runtime.prove.case import MEETING, Observed, Script, Used
from gradlint.runtime.recorder.session import Recorder

#: seconds until a rank that waits for a lost one gives up; who has started both ends it long before, and on a busy
#: machine the other may be slow to come
PATIENCE = 300
#: more optimizer steps than any case makes
ENDLESS = 10_000


def main(jobs: Path, results: Path) -> None:
    torch.set_num_threads(1)
    _meet()
    todo = [Script(**json.loads(line)) for line in jobs.read_text(encoding="utf-8").splitlines()]
    with results.open("w", encoding="utf-8") as file:
        for script in todo:
            file.write(f"{observe(script).line()}\n")
            file.flush()
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def observe(script: Script) -> Observed:
    """One script, from a clean start."""
    _reset()
    observed = Observed(script.id, int(os.environ.get("RANK", "0")), lab.DEVICE)
    watch = _Watch()
    with warnings.catch_warnings(record=True) as told, contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("always")
        values = _run(Path(script.path), observed, watch)
    observed.warnings = [(warning.category.__name__, str(warning.message)) for warning in told]
    observed.values = {name: values[name] for name in script.keep if name in values}
    try:
        observed.weights = _flat(watch.weights_now())
        observed.used = watch.used(script.window, reference=script.reference)
    except Exception:  # ours: told as such, and the next case has its turn
        observed.failure = traceback.format_exc()
    return observed


def _run(script: Path, observed: Observed, watch: _Watch) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__", "__file__": str(script)}
    code = compile(script.read_text(encoding="utf-8"), str(script), "exec")
    orders = Orders(str(script.parent), str(script), steps=ENDLESS, device=lab.DEVICE)
    with Recorder(orders, lambda happening: observed.happenings.append(encode(happening))), watch:
        try:
            exec(code, namespace)
        except Exception as error:  # what a script raises is what is measured
            observed.error = f"{type(error).__name__}: {error}"
    return namespace


class _Watch:
    """Takes every gradient just before an optimizer uses it, with the weights of that moment."""

    def __init__(self) -> None:
        self._taken: list[tuple[int, list[int | None], Tensor, int, int, Tensor | None]] = []
        self._optimizers: list[Optimizer] = []
        self._remove: Callable[[], None] = lambda: None

    def __enter__(self) -> None:
        self._remove = register_optimizer_step_pre_hook(self._take).remove

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _take(self, optimizer: Optimizer, *_: object) -> None:
        if optimizer not in self._optimizers:
            self._optimizers.append(optimizer)
        own = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad.detach().clone() for p in own]
        places = {id(p): i for i, p in enumerate(_parameters())}
        self._taken.append(
            (
                self._optimizers.index(optimizer),
                [places.get(id(p)) for p in own],
                _vector(gradients),
                sum(p.grad is not None for p in own),
                len(own),
                self.weights_now(),
            )
        )

    def weights_now(self) -> Tensor | None:
        """Of the model that the lab has made; None if the script has another one."""
        parameters = _parameters()
        return _vector([p.detach().clone() for p in parameters]) if parameters else None

    def used(self, window: int, *, reference: bool) -> list[Used]:
        """All that was taken, with the gradients that there should have been."""
        counts = [0] * len(self._optimizers)
        began: dict[int, Tensor | None] = {}
        found = []
        for optimizer, places, gradient, present, total, weights in self._taken:
            wanted = None
            # the backward came before the first optimizer moved its part of the weights
            weights = began.setdefault(counts[optimizer], weights)
            if reference and weights is not None and None not in places:
                large = lab.session.reference(weights, counts[optimizer], window)
                wanted = _flat(_of_parameters(large, [place for place in places if place is not None]))
            counts[optimizer] += 1
            found.append(Used(optimizer, _flat(gradient), present, total, wanted))
        return found


def _parameters() -> list[torch.nn.Parameter]:
    return list(lab.session.model.parameters()) if lab.session.model is not None else []


def _of_parameters(vector: Tensor, places: list[int]) -> Tensor:
    """The part of a vector over all parameters that belongs to some of them."""
    parts = torch.split(vector, [p.numel() for p in _parameters()])
    return torch.cat([parts[place] for place in places])


def _vector(tensors: list[Tensor]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])


def _flat(vector: Tensor | None) -> list[float]:
    return [] if vector is None else [float(x) for x in vector.double().cpu()]


def _reset() -> None:
    """Nothing of one script reaches the next."""
    lab.begin()
    torch.manual_seed(0)
    state: Any = sys.modules.get("accelerate.state")
    if state is not None:
        state.AcceleratorState._reset_state(reset_partial_state=True)
        state.GradientState._reset_state()


def _end_after(seconds: float) -> None:
    """Also when nobody is left who waits for it: a process that hangs must not stay behind."""
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()


def _meet() -> None:
    """Ranks meet in a file, so no port has to be free; scripts then find the group made."""
    if MEETING not in os.environ:
        return
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if lab.BACKEND == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        lab.BACKEND, init_method=os.environ[MEETING], rank=rank, world_size=world, timeout=timedelta(seconds=PATIENCE)
    )


if __name__ == "__main__":
    _end_after(float(sys.argv[3]))
    main(Path(sys.argv[1]), Path(sys.argv[2]))
