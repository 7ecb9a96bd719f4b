"""GL5: how often the ranks exchanged gradients, and whether they still agree."""

from __future__ import annotations

from gradlint.model import counted
from gradlint.runtime.measure import APART, SINGLE, Asked, Run, Shown, here, marks, measures, number, share, spread
from gradlint.runtime.recording import BackwardRan, Clipped, Edited
from gradlint.states import Window

_ALONE = "no distributed model trained in this run: try --nproc 2"


def _alone(asked: Asked) -> Shown | None:
    """Nothing is distributed, or the place did not run."""
    if any(b.wrap for b in asked.run.recording.of(BackwardRan)):
        return None if asked.run.ran(asked.spot) or asked.wrong else asked.unreached()
    return Shown(None, _ALONE) if asked.run.ran(asked.spot) or asked.after_fix else asked.unreached()


def _exchanges(run: Run, window: Window) -> tuple[int, int]:
    """Backwards of a window, and how many of them exchanged gradients."""
    backwards = [b for b in run.happened(window, BackwardRan) if b.wrap]
    return len(backwards), sum(b.syncs > 0 for b in backwards)


def apart(run: Run, owner: str) -> float | None:
    """How far the ranks' weights are apart after their last common step, in lengths of the weights."""
    common = [steps for steps in run.together(owner) if all(s.weights for s in steps)]
    return spread([s.weights for s in common[-1]]) if len(run.ranks) > 1 and common else None


def _agreement(run: Run, owner: str) -> str:
    difference = apart(run, owner)
    if difference is None:  # of sharded models each rank holds other weights
        return "one rank only" if len(run.ranks) < 2 else "the ranks hold different shards"
    return "the ranks agree" if difference < APART else f"the ranks' weights differ by {number(difference)}"


def _said(asked: Asked) -> tuple[str, int]:
    """`4 exchanges of gradients per update for 4 micro-batches; the ranks agree`, and how many micro-batches."""
    owner = next(iter(asked.run.optimizers()), "")
    backwards, exchanges = max((_exchanges(asked.run, w) for w in asked.run.full_windows(owner)), default=(0, 0))
    said = f"{counted(exchanges, 'exchange')} of gradients per update for {backwards} micro-batches"
    return f"{said}; {_agreement(asked.run, owner)}", backwards


@measures("GL501", "GL502")
def needless_exchanges(asked: Asked) -> Shown:
    if (alone := _alone(asked)) is not None:
        return alone
    said, backwards = _said(asked)
    if backwards < 2 and not asked.wrong:
        return Shown(None, SINGLE)
    return Shown(bool(asked.wrong), said)


@measures("GL503")
def no_sync_on_boundary(asked: Asked) -> Shown:
    if (alone := _alone(asked)) is not None:
        return alone
    said, _ = _said(asked)
    silent = asked.mistaken(BackwardRan)
    if silent:
        steps = asked.run.full_windows(next(iter(asked.run.optimizers()), ""))
        return Shown(True, f"{share(len(silent), len(steps), 'steps')} used gradients of this rank alone: {said}")
    return Shown(False, said)


@measures("GL504")
def manual_gradient_sync(asked: Asked) -> Shown:
    edits, again = [e for e in asked.here(Edited) if e.how == "reduce"], asked.mistaken(Edited)
    if again:
        before, after = again[0].before, again[0].gradients
        grown = f": norm {number(before[0].norm)} → {number(after[0].norm)}" if before and after else ""
        said = f"{share(len(again), len(edits), 'calls')} reduced gradients that DDP had averaged already"
        return Shown(True, f"{said}{grown}")
    if not edits:
        owner = next(iter(asked.run.optimizers()), "")
        only = Shown(False, f"only DDP exchanges gradients; {_agreement(asked.run, owner)}")
        return only if asked.after_fix else asked.unreached()
    return Shown(False, f"{share(len(edits), len(edits), 'calls')} reduced local gradients")


@measures("GL505", of=here(Clipped))
def fsdp_clip(asked: Asked, clips: list[Clipped]) -> Shown:
    if not any(c.wrap for c in clips):
        return Shown(None, _ALONE)
    place = clips[0].place
    norms = [
        next((c.returned for c in r.of(Clipped) if c.place and place and c.place.line == place.line), None)
        for r in asked.run.ranks
    ]
    listed = " and ".join(number(n) for n in norms)
    if asked.wrong:
        return Shown(True, f"each rank clipped by its own shard's norm: {listed}", marks(asked.wrong))
    return Shown(False, f"all ranks clipped by the same norm: {listed}")
