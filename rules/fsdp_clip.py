"""GL505 fsdp-clip."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Clip, ClipApi, ClipKind, Wrap
from gradlint.rule import Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class FsdpClip(Rule):
    """`torch.nn.utils.clip_grad_norm_` is used on a sharded FSDP model.

    ## What it does
    Looks for the clip of `torch.nn.utils` on the parameters of a `FullyShardedDataParallel` model (FSDP1).

    ## Why is this bad?
    Each rank holds a shard of the gradients, and this function measures just that. Every rank then clips by a norm of
    its own, which is smaller than that of the whole. The threshold is not the one you set, and parts of one gradient
    are scaled differently, which changes its direction.

    ## Example
    ```python
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


    def train(net, loader, criterion):
        model = FSDP(net)
        optimizer = torch.optim.AdamW(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    ```

    ## Use instead
    ```python
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


    def train(net, loader, criterion):
        model = FSDP(net)
        optimizer = torch.optim.AdamW(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            model.clip_grad_norm_(1.0)
            optimizer.step()
    ```

    ## Fix safety
    Safe. The fix calls `model.clip_grad_norm_(…)` with the same threshold and norm type. It measures the norm over
    all ranks, which is larger than that of any shard: expect the clip to act more often, with smaller updates and a
    larger norm in the log. No fix is offered where the clip has arguments that FSDP's does not know
    (`error_if_nonfinite`), where the parameters come as a list, or where the model may not be an FSDP model on every
    path.

    ## Known limits
    FSDP2 (`fully_shard`) has no such method, and `torch.nn.utils.clip_grad_norm_` is right there; so is code that asks
    `hasattr(model, "clip_grad_norm_")` first. With `NO_SHARD` every rank holds the whole gradient and both ways agree.
    Models that are wrapped in another file cannot be seen.

    ## References
    - [FullyShardedDataParallel.clip_grad_norm_](https://pytorch.org/docs/stable/fsdp.html)
    - [fully_shard](https://pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    meta = RuleMeta("GL505", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    message = "`{clip}` sees only this rank's shard of an FSDP model: every rank clips by another norm"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if clip.wrap is Wrap.FSDP and clip.api is ClipApi.TORCH and clip.kind is ClipKind.NORM:
            repair = Repair("Clip through the FSDP model", lambda bench: bench.clip_through_model(clip))
            yield self.finding(clip, clip=short(clip), repairs=[repair])
