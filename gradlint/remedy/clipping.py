"""Other clips, in other places, and what becomes of their norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradlint.remedy import Remedy

if TYPE_CHECKING:
    from gradlint.events import Clip, Framework, Step
    from gradlint.rewrite.bench import Bench


def clip_by_norm(clip: Clip, limit: str | None = None) -> Remedy:
    """With the user's own limit, or with another; Lightning's and Fabric's own clip, too."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.clipping import clip_by_norm

        clip_by_norm(bench, clip, limit)

    return Remedy("Clip by norm instead", act)


def clip_through_model(clip: Clip) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.clipping import clip_through_model

        clip_through_model(bench, clip)

    return Remedy("Clip through the FSDP model", act)


def clip_when_synced(clip: Clip, framework: Framework) -> Remedy:
    """A condition round the clip: `if accelerator.sync_gradients:`."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.clipping import clip_when_synced

        clip_when_synced(bench, clip, framework)

    return Remedy(f"Clip only where {framework.name} steps", act)


def insert_clip(step: Step, model: str) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.clipping import insert_clip

        insert_clip(bench, step.site, model)

    return Remedy("Clip the norm to 1.0 before the step", act)


def make_list(clip: Clip) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.clipping import make_list

        make_list(bench, clip)

    return Remedy("Keep the parameters in a list", act)


def log_norm(clips: Sequence[Clip], *, beside: bool = False) -> Remedy:
    """The norms that clips give back are kept, and logged where the loop logs; or right behind the clip."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.monitor import log_norm

        log_norm(bench, clips, beside=beside)

    return Remedy("Keep the norm that the clip returns, and log it", act)
