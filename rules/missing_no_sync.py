"""GL501 missing-no-sync."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import PLAIN, Backward, Step, Sync, Wrap
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class MissingNoSync(Rule):
    """A distributed model synchronises on every micro-batch of a window.

    ## What it does
    Looks for a DDP or FSDP model that accumulates gradients and never turns synchronisation off: no `no_sync()`, no
    `require_backward_grad_sync`, no `set_requires_gradient_sync`, no framework that handles it.

    ## Why is this bad?
    The result is right but slow: gradients travel between all ranks N times per update where once is enough. On slow
    links this can cost more time than the backward itself.

    ## Example
    ```python
    import torch
    from torch.nn.parallel import DistributedDataParallel


    def train(net, loader, criterion, accum_steps):
        model = DistributedDataParallel(net)
        optimizer = torch.optim.AdamW(model.parameters())
        for i, (x, y) in enumerate(loader):
            boundary = (i + 1) % accum_steps == 0 or i + 1 == len(loader)
            loss = criterion(model(x), y) / accum_steps
            loss.backward()
            if boundary:
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    from contextlib import nullcontext

    import torch
    from torch.nn.parallel import DistributedDataParallel


    def train(net, loader, criterion, accum_steps):
        model = DistributedDataParallel(net)
        optimizer = torch.optim.AdamW(model.parameters())
        for i, (x, y) in enumerate(loader):
            boundary = (i + 1) % accum_steps == 0 or i + 1 == len(loader)
            with nullcontext() if boundary else model.no_sync():
                loss = criterion(model(x), y) / accum_steps
                loss.backward()
            if boundary:
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Fix safety
    Safe. The fix puts forward and backward inside `with model.no_sync() if … else nullcontext():`, as DDP decides in
    the forward, and adds the import; the condition is the boundary's, the last batch of the loader included. The
    gradients at the step are the same up to rounding, with one all-reduce per update in place of N. Where the model
    is wrapped only if a flag says so, the condition asks for `no_sync` first. No fix is offered where the boundary
    asks for the loss or for a counter that moves behind the forward, where the rest is stepped behind the loop, or
    where the loss goes through several wrapped models.

    ## Known limits
    FSDP's `no_sync()` keeps whole gradients on every rank until the boundary, which costs memory; if that is why you
    left it out, ignore the finding there. FSDP2 (`fully_shard`) has `set_requires_gradient_sync` in place of the
    context. Models that are wrapped in another file are not seen with `--no-project`.

    ## References
    - [no_sync of DDP](https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    - [FullyShardedDataParallel.no_sync](https://pytorch.org/docs/stable/fsdp.html)
    - [fully_shard](https://pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)
    """

    meta = RuleMeta("GL501", Severity.WARNING, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.SYNC,)
    needs = (Backward,)
    message = "`{backward}` synchronises gradients on every micro-batch: {n} times per `{step}` where once would do"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if not state.window.closes or step.framework is not PLAIN:
            return
        if not state.pending or state.pending[-1].sync is Sync.OFF:
            return  # no_sync is inverted (GL503), or nothing is left to sync
        for backward in state.pending[:-1]:
            if backward.wrap is Wrap.NONE or backward.sync is not Sync.ON or backward.forward_sync is not Sync.ON:
                continue
            if sum(b.site == backward.site for b in state.pending) > 1:
                yield self.finding(
                    backward, backward=short(backward), n=state.window.size_shown, step=short(step),
                    related=[(step, f"the window of {state.window.size_shown} ends here")],
                    repairs=[_wrapped(backward, step)],
                    place=backward.beside(backward.forward.path if backward.forward else None),
                )  # fmt: skip
                return


def _wrapped(backward: Backward, step: Step) -> Repair:
    message = "Put forward and backward under no_sync, on all but the last micro-batch"
    return Repair(message, lambda bench: bench.wrap_in_no_sync(backward, step))
