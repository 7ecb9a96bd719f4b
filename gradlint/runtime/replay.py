"""A recording as the gradient machine knows it: the same events, with the same words, as those of source code."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from gradlint.events import (
    PLAIN,
    Backward,
    Clip,
    ClipApi,
    ClipKind,
    Edit,
    EditKind,
    Event,
    Norm,
    OptimizerRef,
    Params,
    Read,
    ScalerRef,
    Schedule,
    Site,
    Step,
    Sync,
    Turn,
    Unscale,
    Update,
    Wrap,
    Zero,
)
from gradlint.knowledge.frameworks import BY_NAME
from gradlint.records import replace
from gradlint.runtime.recording import (
    BackwardRan,
    Clipped,
    Edited,
    Forwarded,
    Happening,
    Looked,
    Met,
    Place,
    Raised,
    Recording,
    Scheduled,
    Stepped,
    Unscaled,
    Updated,
    Zeroed,
)
from gradlint.runtime.turns import Files, Turns
from gradlint.states import Path


def superseded(recording: Recording) -> frozenset[int]:
    """The happenings (their indices) of all evaluations within a step but its last."""
    found: set[int] = set()
    waiting: list[Happening] = []
    for happening in recording.happenings:
        waiting.append(happening)
        if isinstance(happening, Stepped) and happening.closure and happening.place is not None:
            calls = {h.index: call for h in waiting if (call := _evaluation(h, happening.place)) is not None}
            last = max(calls.values(), default=0)
            found.update(index for index, call in calls.items() if call != last)
            waiting = []
    return frozenset(found)


def _evaluation(happening: Happening, step: Place) -> int | None:
    """Which call of the closure it was done in; None if it was not done by this step."""
    for inner, outer in zip(happening.places, happening.places[1:], strict=False):
        if (outer.file, outer.line, outer.call) == (step.file, step.line, step.call):
            return inner.call
    return None


# -- events ------------------------------------------------------------------------------------------------------------


#: parameters that no optimizer has
_NOBODY = "nobody"
_EDITS = {
    "divide": EditKind.DIVIDE,
    "scale": EditKind.SCALE,
    "reduce": EditKind.REDUCE,
    "noise": EditKind.NOISE,
    "clamp": EditKind.CLAMP,
    "new": EditKind.NEW,
}
_WRAPS = {wrap.value: wrap for wrap in Wrap}


@dataclass(slots=True)
class Replay:
    """The path of a run, and the way back from its events to what happened."""

    path: Path
    #: by the index of the event
    happenings: list[Happening] = field(default_factory=list)
    #: by the node of a site
    places: dict[int, Place] = field(default_factory=dict)


def replay(recording: Recording, files: Files) -> Replay:
    """What happened, in the machine's words."""
    return _Replayer(recording, files).run()


class _Replayer:
    def __init__(self, recording: Recording, files: Files) -> None:
        self._recording = recording
        self._files = files
        self._turns = Turns(files)
        self._nodes: dict[tuple[str, int, str], int] = {}
        self._replay = Replay(Path((), {}))
        self._forward: dict[str, Site] = {}
        self._backwards: dict[str, list[Backward]] = {}
        self._scalers = {m.id: ScalerRef(m.id, self._text(m, "scaler"), m.enabled) for m in self._met("scaler")}

    def run(self) -> Replay:
        events: list[Event] = []
        tries = superseded(self._recording)
        for happening in self._recording.happenings:
            if not happening.places or happening.index in tries:
                continue
            frames = self._turns.frames(happening.places, (happening.KIND, happening.optimizers, _whose(happening)))
            event = self._event(happening)
            if event is None:
                continue
            events.append(_placed(event, frames, len(events)))
            self._replay.happenings.append(happening)
        lasting = [_placed(e, self._turns.lasting(e.frames), e.index) for e in events]
        self._replay.path = Path(tuple(lasting), self._optimizers(), happened=True)
        return self._replay

    def _optimizers(self) -> dict[str, OptimizerRef]:
        return {
            m.id: OptimizerRef(
                m.id, self._text(m, "optimizer"), Params(frozenset({m.id}), known=True), m.type, born=True
            )
            for m in self._met("optimizer")
        }

    def _met(self, role: str) -> list[Met]:
        return [m for m in self._recording.of(Met) if m.role == role]

    def _text(self, met: Met, usual: str) -> str:
        """The name it was first bound to."""
        return self._files.bound_at(met.place) or usual

    def _site(self, happening: Happening, place: Place | None = None, kind: type[Happening] | None = None) -> Site:
        place = place or happening.places[0]
        key = (*self._files.statement(place.file, place.line), (kind or type(happening)).KIND)
        node = self._nodes.setdefault(key, len(self._nodes))
        self._replay.places.setdefault(node, place)
        return Site(node, self._files[place.file].source(place.line) or happening.KIND)

    def _event(self, happening: Happening) -> Event | None:
        match happening:
            case Zeroed():
                return self._zero(happening)
            case Forwarded():
                self._forward[happening.model] = self._site(happening)
            case BackwardRan():
                return self._backward(happening)
            case Unscaled():
                scaler = self._scalers.get(happening.scaler)
                return Unscale(self._site(happening), scaler=scaler, optimizer=happening.owner)
            case Edited():
                return self._edit(happening)
            case Looked():
                return Read(self._site(happening), params=_params(happening))
            case Clipped():
                return self._clip(happening)
            case Stepped():
                return self._step(happening)
            case Updated():
                site = self._site(happening)
                return Update(Site(site.node, "scaler.update()"), scaler=self._scalers.get(happening.scaler))
            case Raised():
                return self._refused(happening)
            case Scheduled():
                site = self._site(happening)
                text = "scheduler.step(…)" if happening.told else "scheduler.step()"
                framework = BY_NAME.get(happening.manager, PLAIN)
                return Schedule(Site(site.node, text), optimizer=happening.owner, framework=framework)
            case _:
                pass
        return None

    def _zero(self, zeroed: Zeroed) -> Zero | None:
        """Of those that have nothing left; `p.grad = None` for one layer clears nobody's gradients."""
        left = {g.optimizer for g in zeroed.gradients if g.norm != 0}
        emptied = [optimizer for optimizer in zeroed.optimizers if optimizer not in left]
        if left and not emptied:
            return None
        whose = Params(frozenset(emptied) or frozenset({_NOBODY}), known=True)
        return Zero(self._site(zeroed), params=whose, optimizer=zeroed.owner if zeroed.owner in emptied else None)

    def _backward(self, ran: BackwardRan) -> Backward:
        site = self._site(ran)
        backward = Backward(
            site,
            params=_params(ran),
            scaler=self._scalers.get(ran.scaler),
            norm=normalisation(ran),
            loss=_loss(site.text),
            divisor="accumulation" if ran.factor and ran.factor < 1 else "",
            autocast=site if ran.autocast else None,
            model=ran.model or None,
            wrap=_WRAPS.get(ran.wrap, Wrap.NONE),
            sync=_sync(ran.backward_sync),
            forward_sync=_sync(ran.forward_sync),
            no_sync=site if ran.backward_sync is False else None,
            forward=self._forward.get(ran.model),
            framework=BY_NAME.get(ran.manager, PLAIN),
            managed_division=ran.managed_division != 1.0,
        )
        for optimizer in ran.optimizers:
            self._backwards.setdefault(optimizer, []).append(backward)
        return backward

    def _refused(self, raised: Raised) -> Event | None:
        """A call that torch would not carry out was made all the same."""
        scaler = self._scalers.get(raised.scaler)
        if scaler is None:
            return None
        match raised.during:
            case "unscale":
                return Unscale(self._site(raised, kind=Unscaled), scaler=scaler, optimizer=raised.owner)
            case "scaler.step":
                return Step(self._site(raised, kind=Stepped), optimizer=raised.owner, scaler=scaler)
            case "update":
                return Update(Site(self._site(raised, kind=Updated).node, "scaler.update()"), scaler=scaler)
            case _:
                return None

    def _edit(self, edited: Edited) -> Edit:
        wraps = {b.wrap for o in edited.optimizers for b in self._backwards.get(o, ())[-1:]}
        return Edit(
            self._site(edited),
            params=_params(edited),
            kind=_EDITS.get(edited.how, EditKind.OTHER),
            by=f"{edited.factor:g}" if edited.factor is not None else "",
            number=1 / edited.factor if edited.factor and edited.how == "divide" else None,
            wrap=wraps.pop() if len(wraps) == 1 else Wrap.NONE,
        )

    def _clip(self, clipped: Clipped) -> Clip:
        by = clipped.exhausted_by
        exhausted = self._site(clipped, by) if clipped.exhausted and by is not None else None
        if clipped.exhausted and exhausted is None:
            exhausted = self._site(clipped)
        managed = clipped.unscales or bool(clipped.manager)
        api = ClipApi.MANAGED if managed else ClipApi.MODEL if "." in clipped.function else ClipApi.TORCH
        return Clip(
            self._site(clipped),
            params=_params(clipped),
            kind=ClipKind.VALUE if clipped.how == "value" else ClipKind.NORM,
            api=api,
            threshold=clipped.limit,
            exhausted_by=exhausted,
            wrap=_WRAPS.get(clipped.wrap, Wrap.NONE),
            framework=BY_NAME.get(clipped.manager, PLAIN),
        )

    def _step(self, stepped: Stepped) -> Step:
        pending = self._backwards.pop(stepped.owner, [])
        most = max(Counter(b.site for b in pending).values(), default=0)
        around = [self._loops(self._replay.places[b.site.node]) for b in pending]
        return Step(
            self._site(stepped),
            optimizer=stepped.owner,
            scaler=self._scalers.get(stepped.scaler),
            framework=BY_NAME.get(stepped.manager, PLAIN),
            window=str(most) if most > 1 else "",
            size=most if most > 1 else None,
            modulo=most > 1 and all(loops == self._loops(stepped.places[0]) for loops in around),
        )

    def _loops(self, place: Place) -> tuple[str, tuple[int, ...]]:
        return place.file, self._files[place.file].at(place.line).loops


def normalisation(ran: BackwardRan) -> Norm:
    """How the loss was normalised, read off the factor on top of its graph."""
    if ran.factor is None or ran.mixed or ran.hooked:
        return Norm.UNKNOWN
    if abs(ran.factor - 1) < 1e-6:
        return Norm.SUMMED if ran.root.startswith("Sum") else Norm.RAW
    parts = 1 / ran.factor if ran.factor else 0.0
    whole = parts > 1.5 and abs(parts - round(parts)) < 1e-4 * parts
    return Norm.DIVIDED if whole else Norm.WEIGHTED


def _loss(text: str) -> str:
    """What the backward is called on, in the user's words."""
    found = _LOSS.search(text)
    return next((name for name in found.groups() if name), "the loss") if found else "the loss"


#: `scaler.scale(loss).backward()`, `accelerator.backward(loss)`, `loss.backward()`
_LOSS = re.compile(r"scale\(([\w.]+)\)\.backward\(|backward\(([\w.]+)[,)]|([\w.]+)\.backward\(")


def _placed(event: Event, frames: tuple[Turn, ...], index: int) -> Event:
    return replace(event, frames=frames, index=index)


def _params(happening: Happening) -> Params:
    return Params(frozenset(happening.optimizers) or frozenset({_NOBODY}), known=True)


def _whose(happening: Happening) -> str:
    return str(getattr(happening, "owner", "") or getattr(happening, "model", "") or "")


def _sync(on: bool | None) -> Sync:
    return Sync.OFF if on is False else Sync.ON
