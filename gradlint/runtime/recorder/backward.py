"""Watches `torch.autograd.backward`: who got gradient, how much of it, and what the loss was multiplied by."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradlint.runtime import norms, operations
from gradlint.runtime.recorder.lives import Life, grad_of
from gradlint.runtime.recorder.patches import Request
from gradlint.runtime.recording import BackwardRan, Gradient, Place

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder


#: where `scaler.scale` leaves its mark on the node of what it returned
SCALED = "gradlint_scaled"
#: nodes that are looked at, at most: a loss summed up over a long loop is not followed for ever
LIMIT = 400
#: how torch numbers `reduction="sum"`
_SUM = 2
#: nodes that hand the loss on as it is
_SAME = frozenset({"ToCopyBackward0", "CloneBackward0", "AliasBackward0", "ViewBackward0", "UnsafeViewBackward0",
                   "ReshapeAliasBackward0", "SqueezeBackward0", "SqueezeBackward1", "UnsqueezeBackward0"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Top:
    """What stands above the loss proper."""

    #: None where it cannot be told, or there are several
    factor: float | None
    mixed: bool
    root: str
    scaler: str = ""
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class _Branch:
    root: str
    factor: float = 1.0
    scaler: str = ""
    scale: float = 1.0


def mark_scaled(outputs: Any, scaler: str, scale: float) -> None:
    """Mark the nodes of what a scaler returned, so that its factor can be told from the user's."""
    if isinstance(outputs, Tensor):
        node: Any = outputs.grad_fn
        if node is not None:
            node.metadata[SCALED] = (scaler, scale)
    elif isinstance(outputs, Iterable):
        for output in outputs:
            mark_scaled(output, scaler, scale)


def read_top(losses: list[Tensor], weights: list[Tensor | None]) -> Top:
    """The factors of all losses of a backward, with the gradients that were handed in for them."""
    branches: list[_Branch] = []
    for loss, weight in zip(losses, weights, strict=True):
        if loss.grad_fn is None:
            branches.append(_Branch("AccumulateGrad"))
            continue
        given = 1.0 if weight is None else _number(weight)
        if given is None:
            return Top(None, False, loss.grad_fn.name())
        found = _branches(loss.grad_fn, given)
        if found is None:
            return Top(None, False, loss.grad_fn.name())
        branches.extend(found)
    return _together(branches)


def leaves(losses: list[Tensor]) -> dict[int, Tensor] | None:
    """The tensors, by their ids, that a backward of these gives gradients to; None if not all of them can be seen."""
    found: dict[int, Tensor] = {}
    waiting: list[Any] = [loss.grad_fn for loss in losses if loss.grad_fn is not None]
    seen: set[Any] = set(waiting)
    while waiting:
        node = waiting.pop()
        if node.name() == "CheckpointFunctionBackward":  # it runs a backward of its own
            return None
        if (leaf := getattr(node, "variable", None)) is not None:
            found[id(leaf)] = leaf
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                waiting.append(below)
    return found


def _together(branches: list[_Branch]) -> Top:
    if not branches:
        return Top(None, False, "")
    first = branches[0]
    root = first.root if all(b.root == first.root for b in branches) else "AddBackward0"
    if all(b.root.startswith("Sum") for b in branches):
        root = "SumBackward0"
    same_scale = all(b.scaler == first.scaler and b.scale == first.scale for b in branches)
    if not same_scale:
        return Top(None, True, root, *max(((b.scaler, b.scale) for b in branches), key=lambda s: s[1]))
    same = all(math.isclose(abs(b.factor), abs(first.factor), rel_tol=1e-6) for b in branches)
    return Top(first.factor if same else None, not same, root, first.scaler, first.scale)


def _branches(top: Any, factor: float) -> list[_Branch] | None:
    """Down from `top` to the first nodes that are no sums and no constant factors; None if there are too many."""
    found: list[_Branch] = []
    waiting: deque[tuple[Any, _Branch]] = deque([(top, _Branch("", factor))])
    for _ in range(LIMIT):
        if not waiting:
            return found
        node, so_far = waiting.popleft()
        below = _below(node, so_far)
        if below is None:
            found.append(_Branch(_root(node), so_far.factor, so_far.scaler, so_far.scale))
        else:
            waiting.extend(below)
    return None


def _root(node: Any) -> str:
    """The name of the loss proper; loss functions with `reduction="sum"` have that of those which make means."""
    name: str = node.name()
    # a factor that torch's own code multiplies by: the two halves of a cross entropy with smoothed labels
    if name == "MulBackward1" and node.next_functions and node.next_functions[0][0] is not None:
        return _root(node.next_functions[0][0])
    return f"Sum({name})" if getattr(node, "_saved_reduction", None) == _SUM else name


def _below(node: Any, so_far: _Branch) -> list[tuple[Any, _Branch]] | None:
    """The nodes under this one, each with what it is multiplied by; None if the loss proper begins here."""
    inputs = [function for function, _ in node.next_functions]
    times = _times(node, inputs)
    if times is None:
        return None
    mark = node.metadata.get(SCALED)
    found: list[tuple[Any, _Branch]] = []
    for function, factor in zip(inputs, times, strict=True):
        if function is None:
            continue
        if mark is not None:
            scaler, scale = mark
            found.append((function, _Branch("", so_far.factor, scaler, so_far.scale * scale)))
        else:
            found.append((function, _Branch("", so_far.factor * factor, so_far.scaler, so_far.scale)))
    return found


def _times(node: Any, inputs: list[Any]) -> list[float] | None:
    """By what a node multiplies each of its inputs, if it does nothing else."""
    name = node.name()
    if name in _SAME:
        return [1.0] * len(inputs)
    if name == "NegBackward0":
        return [-1.0]
    if name in ("AddBackward0", "SubBackward0"):
        alpha = float(getattr(node, "_saved_alpha", 1.0))
        return [1.0, alpha if name == "AddBackward0" else -alpha][: len(inputs)]
    if name in ("RsubBackward0", "RsubBackward1"):
        return [-1.0, 1.0][: len(inputs)] if _alpha(node) == 1.0 else None
    if name == "DivBackward0" and _only(inputs, 0):
        by = _saved(node, "other")
        return None if not by else [1.0 / by, 1.0]
    if name == "MulBackward0" and (_only(inputs, 0) or _only(inputs, 1)):
        by = _saved(node, "other" if _only(inputs, 0) else "self")
        return None if by is None else [by, by]
    return None


def _only(inputs: list[Any], wanted: int) -> bool:
    """The other input is a constant."""
    return len(inputs) == 2 and inputs[wanted] is not None and inputs[1 - wanted] is None


def _alpha(node: Any) -> float:
    """By which `torch.add` multiplies what it adds."""
    value = getattr(node, "_saved_alpha", 1.0)
    return float(value) if isinstance(value, int | float) else 1.0


def _saved(node: Any, name: str) -> float | None:
    """A saved constant. One that went through hooks stays where it is: unpacking may recompute a whole forward."""
    try:
        raw = getattr(node, f"_raw_saved_{name}", None)
        if getattr(raw, "unpack_hook", None) is not None:
            return None
        value = getattr(node, f"_saved_{name}", None)
    except RuntimeError:  # the graph was used before, and its buffers are freed
        return None
    return _number(value) if isinstance(value, Tensor) else None


def _number(value: Tensor) -> float | None:
    if value.numel() != 1 or value.is_complex() or value.is_meta:
        return None
    return float(value.detach())


def loss_value(losses: list[Tensor]) -> float | None:
    """The loss, if it is one number; of several their sum."""
    if not losses or any(loss.numel() != 1 or loss.is_complex() or loss.is_meta for loss in losses):
        return None
    if norms.capturing():
        return None
    return math.fsum(float(loss.detach()) for loss in losses)


# -- the backward ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Before:
    """The gradient of one parameter before a backward."""

    parameter: Tensor
    grad: Tensor | None
    version: int

    @property
    def changed(self) -> bool:
        now = grad_of(self.parameter)
        return now is not None and (now is not self.grad or norms.version(now) != self.version)


@dataclass(slots=True)
class _Running:
    """A backward that is going on."""

    places: tuple[Place, ...]
    losses: list[Tensor]
    scale: float
    before: list[tuple[Life, list[_Before]]]
    #: the parameters (their ids) that it can reach; None: not asked
    mine: set[int] | None
    #: what is known of the happening before it happens
    fields: dict[str, Any]
    told: set[str] = field(default_factory=set)
    ever: bool = False


def install(recorder: Recorder) -> None:
    recorder.patches.watch_everywhere(torch.autograd, "backward", _backward, compiled=False)


def _backward(request: Request) -> Any:
    recorder = request.recorder
    if recorder.inside("backward"):  # of a checkpoint that recomputes, say: part of the one that is going on
        return request.carry_out()
    recorder.catch_up()
    with recorder.during("backward") as call:
        with recorder.guard("a backward"):
            recorder.distributed.backward_begins(call)
            call.about["running"] = _prepare(
                recorder, _several(request.argument(0, "tensors")), _several(request.argument(1, "grad_tensors"))
            )
        recorder.backward = call
        try:
            result = request.carry_out()
        finally:
            recorder.backward = None
            recorder.distributed.backward_over()
    with recorder.guard("a backward"):
        running = call.about.get("running")
        if running is not None:
            _tell(recorder, running, call.about, last=True)
    return result


def flush(recorder: Recorder) -> None:
    """Something happens inside a backward (an optimizer in a hook): what the backward did so far comes before it."""
    call = recorder.call_of("backward")
    running = call.about.get("running") if call is not None else None
    if call is not None and running is not None:
        with recorder.guard("a backward"):
            _tell(recorder, running, call.about, last=False)


def _prepare(recorder: Recorder, given: Sequence[Any], handed_in: Sequence[Any]) -> _Running:
    """`given`: the losses; `handed_in`: gradients of theirs, as many as there are losses or none."""
    losses = [loss for loss in given if isinstance(loss, Tensor)]
    weights = [weight if isinstance(weight, Tensor) else None for weight in handed_in]
    weights = (weights + [None] * len(losses))[: len(losses)]
    recorder.lives.refresh()
    recorder.training.add(threading.get_ident())
    manager = recorder.call_of("manager")
    by_hand = recorder.by_hand.life
    if by_hand is not None:
        recorder.check_steps(by_hand)
    top = read_top(losses, weights)
    value = loss_value(losses)
    division = float(manager.about.get("division", 1.0)) if manager is not None else 1.0
    mine = _reached(recorder, losses)
    return _Running(
        places=recorder.here(),
        losses=losses,
        scale=top.scale,
        before=[
            (life, [_snapshot(p) for p in life.parameters() if mine is None or id(p) in mine])
            for life in recorder.lives.alive()
        ],
        mine=mine,
        fields={
            "loss": value if value is None or not top.scale else value / top.scale,
            "factor": None if top.factor is None else top.factor * division,
            "mixed": top.mixed,
            "root": top.root,
            "scaler": top.scaler,
            "scale": top.scale,
            "autocast": autocast(losses[0].device.type if losses else "cpu"),
            "manager": recorder.manager,
            "managed_division": division,
            "made_by": _maker(losses) if value is not None and not math.isfinite(value) else "",
            "alive": recorder.survey.graph_of(losses),
        },
    )


def _maker(losses: list[Tensor]) -> str:
    """While the graph is whole."""
    found = next((operation for loss in losses if (operation := operations.origin(loss)) is not None), None)
    return str(found) if found is not None else ""


def _suspects(running: _Running, gradients: tuple[Gradient, ...]) -> str:
    """Operations of a finite loss whose derivative may be NaN or Inf, where a gradient is."""
    loss = running.fields["loss"]
    if loss is None or not math.isfinite(loss) or all(g.finite for g in gradients):
        return ""
    return ", ".join(dict.fromkeys(o.word for loss in running.losses for o in operations.delicate(loss)))


def _reached(recorder: Recorder, losses: list[Tensor]) -> set[int] | None:
    """Where several threads train, the gradients of the others change by themselves, and must not even be read."""
    if len(recorder.training) <= 1 and threading.current_thread() is threading.main_thread():
        return None
    found = leaves(losses) or {}
    known = any(id(p) in found for life in recorder.lives.alive() for p in life.parameters())
    return set(found) if known else None  # FSDP2 makes other tensors out of the parameters for each pass


def _snapshot(parameter: Tensor) -> _Before:
    grad = grad_of(parameter)
    return _Before(parameter, grad, -1 if grad is None else norms.version(grad))


def _fed(recorder: Recorder, running: _Running) -> list[Life]:
    """The optimizers that got gradients and were not told of yet."""
    found: list[Life] = []
    mine = running.mine = running.mine or _reached(recorder, running.losses)
    for life, before in running.before:
        own = before if mine is None else [was for was in before if id(was.parameter) in mine]
        if life.id not in running.told and any(was.changed for was in own):
            found.append(life)
    if mine is None and (mine := _reached(recorder, running.losses)) is not None:  # another thread has begun meanwhile
        return [life for life in found if any(id(p) in mine for p in life.parameters())]
    return found


def _tell(recorder: Recorder, running: _Running, about: dict[str, Any], last: bool) -> None:
    touched = _fed(recorder, running)
    unseen = recorder.distributed.fed_out_of_sight(about) if last else []
    kept = {life.id: grads for life, grads in unseen if life.id not in running.told and life not in touched}
    touched.extend(life for life, _ in unseen if life.id in kept)
    if not touched and last and not running.ever:
        by_hand = recorder.by_hand.fed(running.losses)
        touched.extend([by_hand] if by_hand is not None else [])
    for life in touched:
        running.told.add(life.id)
        life.backwards += 1
        life.clipped = False
        life.scale = running.scale
    if not touched and (running.ever or not last):
        return
    running.ever = True
    shared = recorder.distributed.backward_ends(about, touched)
    gradients = tuple(_gradient(life, kept.get(life.id)) for life in touched)
    fields = {**running.fields, **shared.fields}
    fields["made_by"] = fields["made_by"] or _suspects(running, gradients)
    fields["hooked"] = any(p._backward_hooks for life in touched for p in life.parameters())
    recorder.emit(BackwardRan, running.places, touched, gradients=gradients, **fields)
    recorder.distributed.tell(shared, running.places)
    recorder.by_hand.keep()


def _gradient(life: Life, kept: list[Tensor] | None) -> Gradient:
    """Its gradients, or those that its model keeps to itself."""
    gradient = life.gradient()
    return gradient if kept is None else replace(gradient, norm=norms.total(kept), present=len(kept))


def autocast(device: str) -> str:
    """The dtype of the autocast region we are in, or ""."""
    for kind in dict.fromkeys((device, "cuda", "cpu")):
        if _autocasts(kind):
            return str(_autocast_dtype(kind)).removeprefix("torch.")
    return ""


def _autocasts(device: str) -> bool:
    try:
        return bool(torch.is_autocast_enabled(device))
    except (TypeError, RuntimeError):  # torch < 2.4 has a function for each device
        return bool(torch.is_autocast_cpu_enabled() if device == "cpu" else torch.is_autocast_enabled())


def _autocast_dtype(device: str) -> torch.dtype:
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype(device)
    return torch.get_autocast_cpu_dtype() if device == "cpu" else torch.get_autocast_gpu_dtype()


def _several(given: Any) -> Sequence[Any]:
    if given is None:
        return []
    return given if isinstance(given, list | tuple) else [given]
