"""The recorder: while it is installed, what torch is asked to do becomes happenings, in order."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from gradlint.runtime.launch.orders import Orders
from gradlint.runtime.recorder import backward, frameworks, optimizers, patches, scaler, schedulers, survey
from gradlint.runtime.recorder.clips import Clips
from gradlint.runtime.recorder.distributed import Distributed
from gradlint.runtime.recorder.edits import ByHand
from gradlint.runtime.recorder.gradients import Gradients
from gradlint.runtime.recorder.lives import Life, Lives, Named
from gradlint.runtime.recorder.patches import Current, Imports, Patches, Warnings
from gradlint.runtime.recorder.places import Places
from gradlint.runtime.recorder.survey import Survey
from gradlint.runtime.recording import Happening, Met, Place, Raised

#: how often a script may swallow `Enough` before its process is ended
PATIENCE = 20
#: one optimizer among several, or all of them together for each that is there, may do this many times the wanted
#: steps before the others have done theirs
LEAD = 4


class Enough(SystemExit):
    """The wanted steps are done: the script is over, and that is no failure."""

    def __init__(self) -> None:
        super().__init__(0)


@dataclass(slots=True, eq=False)
class Call:
    """A watched call that is going on."""

    kind: str
    owner: Any = None
    manager: str = ""
    #: whatever the part that watches it needs to keep
    about: dict[str, Any] = field(default_factory=dict)


class _Thread(threading.local):
    """What is going on in one thread; `foreign` ones were not started by Python: on CUDA a backward runs in such."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.ours = 0
        self.foreign = isinstance(threading.current_thread(), threading._DummyThread)


class Recorder:
    """Records what happens in this process between `install` and `uninstall`, and hands it to `sink`."""

    def __init__(self, orders: Orders, sink: Callable[[Happening], None]) -> None:
        self.orders = orders
        self.sink = sink
        self.places = Places(orders.script, orders.own)
        self.patches = Patches()
        self.lives = Lives()
        self.scalers, self.schedulers = Named("scaler"), Named("scheduler")
        self.models, self.loaders = Named("model"), Named("loader")
        #: the iterators of loaders, by the name of their loader
        self.iterators = Named("iterator")
        self.notes: list[str] = []
        #: called when a note was added or the rank became known
        self.on_news: Callable[[], None] = lambda: None
        #: ends the process of a script that will not end
        self.on_leave: Callable[[], None] = lambda: os._exit(0)
        self.rank, self.world = 0, 1
        self.stopped = False
        #: of all optimizers, also of those that are gone
        self.steps = 0
        #: the threads that have run a backward
        self.training: set[int] = set()
        #: the backward that is going on, whatever thread asks
        self.backward: Call | None = None
        # each watches one thing
        self.gradients, self.by_hand, self.clips = Gradients(self), ByHand(self), Clips(self)
        self.distributed, self.survey = Distributed(self), Survey(self)
        self.imports, self.warnings = Imports(self), Warnings(self)
        self._swallowed = 0
        self._index = 0
        self._thread = _Thread()
        self._lock = threading.RLock()

    # -- putting it in and taking it out ---------------------------------------------------------------------------

    def install(self) -> Recorder:
        if Current.recorder is not None:
            raise RuntimeError("a recorder is installed already")
        try:
            self._watch()
        except BaseException:
            self.patches.undo()
            raise
        Current.recorder = self
        return self

    def _watch(self) -> None:
        self.imports.install()
        for watched in (optimizers, backward, scaler, schedulers):
            watched.install(self)
        self.clips.install()
        self.distributed.install()
        survey.install(self)
        frameworks.install(self)
        self.warnings.install()
        self.gradients.install()
        self.patches.watch_everywhere(torch, "compile", patches.in_pieces)
        self.patches.bind()

    def uninstall(self) -> None:
        """Put everything back as it was."""
        if Current.recorder is self:
            if not self.stopped:
                self.settle()
            Current.recorder = None
            self.patches.undo()

    def __enter__(self) -> Recorder:
        return self.install()

    def __exit__(self, *_: object) -> None:
        self.uninstall()

    def forget_parent(self) -> None:
        """In a forked child: the lock may be held by a thread that is not here."""
        self._lock = threading.RLock()
        self._thread = _Thread()

    # -- what is going on ------------------------------------------------------------------------------------------

    @property
    def silent(self) -> bool:
        """Our own code is at work: what it asks of torch is not the user's."""
        return self._thread.ours > 0

    @property
    def calls(self) -> list[Call]:
        """The watched calls that are going on, the outermost first."""
        calls = self._thread.calls
        return [self.backward, *calls] if self._thread.foreign and self.backward is not None else calls

    def inside(self, *kinds: str) -> bool:
        """Is one of these calls going on, and is it not a closure of the user's that it runs?"""
        for call in reversed(self.calls):
            if call.kind == "closure":
                return False
            if call.kind in kinds:
                return True
        return False

    def call_of(self, kind: str) -> Call | None:
        """The innermost call of a kind that is going on."""
        return next((call for call in reversed(self.calls) if call.kind == kind), None)

    @property
    def manager(self) -> str:
        return next((call.manager for call in reversed(self.calls) if call.manager), "")

    @contextlib.contextmanager
    def during(self, kind: str, owner: Any = None, manager: str = "") -> Iterator[Call]:
        """A watched call; if it raises, that is told, and the exception goes on."""
        call = Call(kind, owner, manager)
        calls = self._thread.calls
        calls.append(call)
        try:
            yield call
        except Exception as error:
            if not getattr(error, "_gradlint_told", False):
                with self.guard("an exception"):
                    error._gradlint_told = True  # type: ignore[attr-defined]
                    self._tell_refused(error)
            raise
        finally:
            calls.remove(call)

    def _tell_refused(self, error: Exception) -> None:
        """What torch would not do: of a call inside of another the one that the user has made."""
        calls = self.calls
        refused = next((call for call in calls if call.kind in ("scaler.step", "unscale", "update")), calls[-1])
        owner = self.lives.get(refused.owner) if refused.owner is not None else None
        self.emit(
            Raised,
            type=type(error).__name__,
            message=str(error)[:2000],
            during=refused.kind,
            scaler=str(refused.about.get("scaler", "")),
            owner=owner.id if owner is not None else "",
            touched=() if owner is None else (owner,),
        )

    @contextlib.contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Our own work inside the user's call: it must neither fail nor be seen there."""
        self._thread.ours += 1
        callback = patches.pause()
        try:
            with torch.no_grad():
                yield
        except Exception as error:
            self._failed(what, error)
        finally:
            patches.resume(callback)
            self._thread.ours -= 1

    def _failed(self, what: str, error: Exception) -> None:
        last = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
        where = f" ({os.path.basename(last.filename)}:{last.lineno})" if last else ""
        self.note(f"the recorder failed at {what}: {type(error).__name__}: {str(error)[:200]}{where}")

    def note(self, text: str) -> None:
        """Something worth telling; once."""
        if text not in self.notes:
            self.notes.append(text)
            try:
                self.on_news()
            except OSError:
                pass  # the disk is full, say: the user's program goes on

    # -- telling ---------------------------------------------------------------------------------------------------

    def here(self, frame: FrameType | None = None) -> tuple[Place, ...]:
        return self.places.here(frame if frame is not None else sys._getframe(1))

    def settle(self) -> None:
        """Tell what the user's code did to `.grad` since it was last asked: it comes before what happens now."""
        with self.guard("reading gradients"):
            self.gradients.settle()

    def catch_up(self) -> None:
        """Before a watched call: tell what there was until now, in a backward that is going on as well."""
        self.settle()
        backward.flush(self)
        self.check_patience()

    def emit(
        self,
        kind: type[Happening],
        places: tuple[Place, ...] | None = None,
        touched: Iterable[Life] = (),
        **fields: Any,
    ) -> None:
        self.check_patience()
        with self._lock:
            happening = kind(
                index=self._index,
                places=self.here(sys._getframe(1)) if places is None else places,
                optimizers=tuple(life.id for life in touched),
                **fields,
            )
            self._index += 1
            self.sink(happening)

    # -- optimizers ------------------------------------------------------------------------------------------------

    def life(self, optimizer: Any, kind: str = "") -> Life:
        """What is known of an optimizer; one that was made before us is met now."""
        known = self.lives.get(optimizer) or self.lives.inside(optimizer)
        if known is not None:
            return known
        if not kind:
            self.by_hand.give_up(optimizer)
        life = self.lives.meet(optimizer, kind)
        count = len(life.parameters())
        self.emit(Met, id=life.id, role="optimizer", type=life.type, touched=(life,), parameters=count)
        return life

    def met(self, others: Named, thing: Any, touched: Iterable[Life] = (), **fields: Any) -> str:
        """The id of something else; one that was made before us is met now."""
        name = others.get(thing)
        if not name:
            name = others.give(thing)
            self.emit(Met, id=name, role=others.role, type=type(thing).__name__, touched=touched, **fields)
        return name

    # -- the end ---------------------------------------------------------------------------------------------------

    def check_steps(self, life: Life) -> None:
        """Before a step: is it one too many? A search over learning rates makes optimizer after optimizer."""
        wanted = self.orders.steps
        stepped = [other.steps for other in self.lives.alive() if other.steps]
        enough = life.steps >= wanted and all(steps >= wanted for steps in stepped)
        if enough or life.steps >= LEAD * wanted or self.steps >= LEAD * wanted * max(1, len(stepped)):
            self.stop()

    def stop(self) -> None:
        self.stopped = True
        raise Enough

    def check_patience(self) -> None:
        """The script went on after `Enough`: say it again, and in the end insist."""
        if not self.stopped:
            return
        self._swallowed += 1
        if self._swallowed > PATIENCE:
            self.on_leave()
        raise Enough
