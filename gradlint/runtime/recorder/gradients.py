"""Watches `.grad` itself: a property over torch's own attribute sees who reads and writes it, and on which line.

What the user's code did between two other events is told when the second begins: one event for each line, for it
is mostly a loop over parameters.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradlint.runtime import norms
from gradlint.runtime.recorder import edits, patches
from gradlint.runtime.recorder.lives import Life, grad_of
from gradlint.runtime.recorder.optimizers import cleared, tell_step
from gradlint.runtime.recorder.patches import Current, Request
from gradlint.runtime.recorder.places import what_follows
from gradlint.runtime.recording import Edited, Gradient, Happening, Looked, Place, Zeroed

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder

_raw: Any = vars(torch._C.TensorBase)["grad"]

#: asked of a gradient, these say nothing of its numbers
_IDLE = frozenset({
    "is None", "detach_", "requires_grad_", "requires_grad", "is_sparse", "shape", "size", "dtype", "device", "layout",
    "numel", "ndim", "dim", "grad_fn", "is_contiguous", "stride", "is_cuda", "data_ptr",
})  # fmt: skip


@dataclass(slots=True)
class _Look:
    """The gradient of one parameter when a line last had it."""

    parameter: Tensor
    line: _Line
    grad: Tensor | None
    version: int
    copy: Tensor | None


@dataclass(slots=True, eq=False)
class _Line:
    """What one line did since the last event."""

    places: tuple[Place, ...]
    methods: set[str] = field(default_factory=set)
    #: parameter -> its gradient before the line and after it
    pairs: dict[int, edits.Pair] = field(default_factory=dict)
    #: something was written, even if the numbers are the same
    written: bool = False
    assigned: bool = False
    #: it had the gradients themselves in its hands
    read: bool = False
    reduced: bool = False
    #: weights that no optimizer has were changed with these gradients
    stepped: bool = False
    #: it did no more than ask whether there is a gradient
    idle: bool = True


class Gradients:
    """The property, and what was seen through it."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._lines: dict[tuple[str, int], _Line] = {}
        self._looks: dict[int, _Look] = {}
        self._property = property(_get, _set, _delete)

    def install(self) -> None:
        # tensors of other classes hand on what these return as it is, not as a new one of their class
        known: set[Any] = torch.overrides.get_default_nowrap_functions()
        known.add(self._property.__get__)
        self.recorder.patches.also(lambda: known.discard(self._property.__get__))
        setattr(torch.Tensor, "grad", self._property)  # noqa: B010 - mypy takes it for a plain attribute
        self.recorder.patches.also(self._take_off)
        self.recorder.imports.when(
            "torch._dynamo.convert_frame",
            lambda module: self.recorder.patches.watch(module, "_compile", _compiling),
        )

    def _take_off(self) -> None:
        if "grad" in vars(torch.Tensor):
            delattr(torch.Tensor, "grad")

    @contextlib.contextmanager
    def taken_off(self) -> Iterator[None]:
        """While torch.compile reads the user's code: it knows `grad` by name, and would lose itself in a property."""
        there = "grad" in vars(torch.Tensor)
        self._take_off()
        try:
            yield
        finally:
            if there and Current.recorder is self.recorder:
                setattr(torch.Tensor, "grad", self._property)  # noqa: B010

    # -- seen --------------------------------------------------------------------------------------------------

    def reader(self, parameter: Tensor, frame: FrameType) -> FrameType | None:
        """The user's frame, if it is the user's code that is at the gradient of an optimizer's parameter, by itself."""
        recorder = self.recorder
        if recorder.silent or not recorder.lives.owners(parameter):
            return None
        if recorder.inside("step", "clip", "zero", "backward", "unscale", "scaler.step"):
            return None
        return recorder.places.on_behalf(frame)

    def read(self, parameter: Tensor, grad: Tensor | None, frame: FrameType, follows: tuple[str, ...]) -> None:
        if grad is None or (follows and follows[0] in _IDLE):
            return
        self._close(parameter)
        line = self._line(frame)
        line.idle, line.read = False, True
        line.methods.update(follows)
        # through `.data` a gradient is written without a trace, if its numbers stay the same
        line.written = line.written or (bool(follows) and follows[-1].endswith("_") and not follows[-1].endswith("__"))
        self._look(parameter, line, grad)

    def before_write(self, parameter: Tensor, frame: FrameType) -> None:
        """Before `.grad` is set or deleted by this line."""
        self._close(parameter)
        line = self._line(frame)
        line.idle = False
        line.written = line.assigned = True
        if id(parameter) not in line.pairs:
            old = grad_of(parameter)
            copy = norms.copy(old) if old is not None else None
            line.pairs[id(parameter)] = edits.Pair(parameter, copy, copy)

    def after_write(self, parameter: Tensor, frame: FrameType) -> None:
        line = self._line(frame)
        new = grad_of(parameter)
        self._look(parameter, line, new)
        before = line.pairs[id(parameter)].before
        line.pairs[id(parameter)] = edits.Pair(parameter, before, self._looks[id(parameter)].copy)

    def collective(self, tensors: list[Tensor]) -> None:
        """A collective was called on these: if a gradient that somebody looked at is among them, it was reduced."""
        numbers = {tensor.data_ptr() for tensor in tensors}
        sizes = {tensor.numel() for tensor in tensors}
        whole = sum(look.grad.numel() for look in self._looks.values() if look.grad is not None)
        for look in self._looks.values():
            grad = look.grad
            local = getattr(grad, "_local_tensor", grad)
            if isinstance(local, Tensor) and (local.data_ptr() in numbers or whole in sizes):
                look.line.reduced = look.line.written = True

    def _line(self, frame: FrameType) -> _Line:
        # not by the code: a function that is compiled again and again stays where it is written
        key = (frame.f_code.co_filename, frame.f_lineno or 0)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(self.recorder.here(frame))
        return line

    def _look(self, parameter: Tensor, line: _Line, grad: Tensor | None) -> None:
        known = line.pairs.get(id(parameter))
        copy = norms.copy(grad) if grad is not None else None
        if known is None:
            line.pairs[id(parameter)] = edits.Pair(parameter, copy, copy)
        version = norms.version(grad) if grad is not None else -1
        self._looks[id(parameter)] = _Look(parameter, line, grad, version, copy)

    def _close(self, parameter: Tensor) -> None:
        """What became of the gradient since its last look is the doing of the line that looked."""
        look = self._looks.pop(id(parameter), None)
        if look is None:
            return
        look.line.stepped = self.recorder.by_hand.moved(parameter) or look.line.stepped
        now = grad_of(parameter)
        # `.data` has numbers in common with the gradient, but no version: only the numbers themselves tell
        if edits.same(look.copy, now):
            if now is not None and now is look.grad and norms.version(now) != look.version:
                look.line.written = True
            return
        look.line.written = True
        known = look.line.pairs[id(parameter)]
        after = norms.copy(now) if now is not None else None
        look.line.pairs[id(parameter)] = edits.Pair(parameter, known.before, after)

    # -- told --------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        if not self._lines:
            return
        for look in list(self._looks.values()):
            self._close(look.parameter)
        lines, self._lines, self._looks = list(self._lines.values()), {}, {}
        # the gradients of all these parameters as they were before the first of the lines
        values: dict[int, Tensor | None] = {}
        for line in lines:
            for key, pair in line.pairs.items():
                values.setdefault(key, pair.before)
        for line in lines:
            if not line.idle:
                self._tell(line, values)

    def _tell(self, line: _Line, values: dict[int, Tensor | None]) -> None:
        pairs = list(line.pairs.values())
        touched = self.recorder.lives.touched(pair.parameter for pair in pairs)
        if not touched:
            return
        before = tuple(life.gradient(values) for life in touched)
        by_hand = self.recorder.by_hand
        if line.stepped and (life := by_hand.life) is not None:
            used = next((gradient for gradient in before if gradient.optimizer == life.id), life.gradient(values))
            tell_step(self.recorder, life, used, line.places, skipped=False, moved=by_hand.stepped())
            if not line.written:
                return
        values.update({key: pair.after for key, pair in line.pairs.items()})
        fields: dict[str, Any] = {}
        kind: type[Happening]
        if line.written and not line.reduced and all(edits.empty(pair.after) for pair in pairs):
            kind, fields["by"] = Zeroed, "assignment" if line.assigned else "in-place"
            gradients = self._cleared(touched, values)
        elif line.written:
            kind = Edited
            fields["how"], fields["factor"] = ("reduce", None) if line.reduced else self._judge(line, pairs)
            fields["before"] = before
            for life in touched:
                life.reduced = True if line.reduced else life.reduced
            gradients = tuple(life.gradient(values) for life in touched)
        else:
            kind, gradients = Looked, before
        self.recorder.emit(kind, line.places, touched, gradients=gradients, **fields)

    def _judge(self, line: _Line, pairs: list[edits.Pair]) -> tuple[str, float | None]:
        there = [pair for pair in pairs if not (edits.empty(pair.before) and edits.empty(pair.after))]
        how, factor = edits.judge(there, frozenset(line.methods))
        # `p.grad = buffer` puts others in their place, however these look beside them
        return ("new" if how in ("noise", "other") and line.assigned and not line.read else how), factor

    def _cleared(self, touched: list[Life], values: dict[int, Tensor | None]) -> tuple[Gradient, ...]:
        """As of this line: later ones may have made new gradients since."""
        known = [p for life in touched for p in life.parameters() if id(p) in values]
        if all(edits.same(values[id(p)], grad_of(p)) for p in known):
            return cleared(touched)
        return tuple(life.gradient(values) for life in touched)


def _compiling(request: Request) -> Any:
    with request.recorder.gradients.taken_off():
        return request.carry_out()


def _get(self: Tensor) -> Tensor | None:
    callback = patches.pause()
    try:
        return _read(self, sys._getframe(1))
    finally:
        patches.resume(callback)


def _set(self: Tensor, value: Tensor | None) -> None:
    callback = patches.pause()
    try:
        _write(self, sys._getframe(1), lambda: _raw.__set__(self, value))
    finally:
        patches.resume(callback)


def _delete(self: Tensor) -> None:
    callback = patches.pause()
    try:
        _write(self, sys._getframe(1), lambda: _raw.__delete__(self))
    finally:
        patches.resume(callback)


for _function in (_get, _set, _delete):
    patches.never_compile(_function)


def _read(tensor: Tensor, frame: FrameType) -> Tensor | None:
    recorder = Current.recorder
    # a tensor of another class may have ideas of its own of what happens when it is asked for anything
    known = type(tensor) is Tensor and not tensor.is_leaf and not tensor.retains_grad
    grad: Tensor | None = _warned(tensor) if known else _raw.__get__(tensor)
    reader = recorder.gradients.reader(tensor, frame) if recorder is not None else None
    if recorder is not None and reader is not None:
        with recorder.guard("reading a gradient"):
            recorder.gradients.read(tensor, grad, reader, what_follows(frame.f_code, frame.f_lasti))
    return grad


def _write(tensor: Tensor, frame: FrameType, write: Callable[[], None]) -> None:
    recorder = Current.recorder
    writer = recorder.gradients.reader(tensor, frame) if recorder is not None else None
    if recorder is None or writer is None:
        write()
        return
    with recorder.guard("writing a gradient"):
        recorder.gradients.before_write(tensor, writer)
    write()
    with recorder.guard("writing a gradient"):
        recorder.gradients.after_write(tensor, writer)


def _warned(tensor: Tensor) -> Tensor | None:
    """torch warns of the gradient of a tensor that is no leaf, and means the line of its caller, not ours."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        grad = _raw.__get__(tensor)
    for warning in caught:
        warnings.warn(str(warning.message), warning.category, stacklevel=4)
    return grad  # type: ignore[no-any-return]
