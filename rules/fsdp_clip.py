"""GL505 fsdp-clip."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Clip, ClipApi, ClipKind, Wrap
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.rule import Draft, Rule, RuleMeta, short


class FsdpClip(Rule):
    """torch.nn.utils.clip_grad_norm_ is used on a sharded FSDP model."""

    meta = RuleMeta("GL505", Category.DISTRIBUTED, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{clip}` sees only this rank's shard of an FSDP model: every rank clips by another norm"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if clip.wrap is Wrap.FSDP and clip.api is ClipApi.TORCH and clip.kind is ClipKind.NORM:
            yield self.finding(clip, clip=short(clip))
