"""GL502 forward-outside-no-sync."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Sync, Wrap
from gradlint.knowledge.rows import Switch
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity


class ForwardOutsideNoSync(Rule):
    """Only the backward is inside `no_sync`, the forward is not.

    ## What it does
    Looks for a DDP model whose forward runs outside of `no_sync()` while the backward of the same loss runs inside.

    ## Why is this bad?
    DDP reads its synchronisation flag in the *forward*. Here it was on, so every backward still synchronises: with
    four micro-batches we counted four all-reduces per update, the same as without `no_sync()`; with the forward inside
    it is one. The code looks handled and is not.

    ## Example
    ```python
    def train(net, loader, criterion, accum_steps):
        model = DistributedDataParallel(net)
        optimizer = torch.optim.AdamW(model.parameters())
        for i, (x, y) in enumerate(loader):
            boundary = (i + 1) % accum_steps == 0 or i + 1 == len(loader)
            loss = criterion(model(x), y) / accum_steps
            with nullcontext() if boundary else model.no_sync():
                loss.backward()
            if boundary:
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Use instead
    ```python
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
    Safe. The fix pulls the forward, and what stands between it and the backward, into the block; a backward in both
    arms of an `if` becomes one. No number changes beyond rounding: there is one all-reduce per update in place of N.
    No fix is offered where the condition of `no_sync` asks for the loss, or where an arm of the `if` does more than
    the backward.

    ## Known limits
    Forward inside and backward outside works, and is not flagged. FSDP, both versions, reads its flag in the backward,
    so this rule is about DDP only. Accelerate's `accumulate` withholds synchronisation, too, and is judged like
    `no_sync`. A forward that happens in a function of another file cannot be seen.

    ## References
    - [no_sync of DDP](https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    - [Distributed Data Parallel, internal design](https://pytorch.org/docs/stable/notes/ddp.html#internal-design)
    """

    meta = RuleMeta("GL502", Severity.WARNING, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.SYNC,)
    needs = (Switch.NO_SYNC,)
    message = "`{forward}` runs outside no_sync: DDP decides there, so every backward still synchronises"

    def on_backward(self, backward: Backward, state: GradientState) -> Iterator[Draft]:
        if backward.wrap in (Wrap.FSDP, Wrap.FSDP2) or backward.forward is None:
            return  # FSDP reads its flag in the backward
        if backward.no_sync is not None and backward.sync is Sync.OFF and backward.forward_sync is Sync.ON:
            window = backward.framework.windows and "no_sync" not in backward.no_sync.text
            begun = "the window begins only here" if window else "no_sync begins only here"
            elsewhere = backward.forward.path != backward.no_sync.path  # the model of another file is not to be changed
            yield self.finding(
                backward.forward,
                place=backward.no_sync if elsewhere else None,
                message=_WINDOW if window else None,
                forward=backward.forward.text,
                opened=backward.no_sync.text,
                related=[] if elsewhere else [(backward.no_sync, begun)],
                severity=Severity.ADVICE if window else None,  # on one device there is nothing to synchronise
                # what else stands in a window would run with the forward: only you can tell
                repairs=[] if window else [Repair(_PULL, lambda bench: bench.pull_forward_in(backward))],
            )


_PULL = "Pull the forward into the no_sync block"
#: a framework's window is no_sync for all but its last micro-batch
_WINDOW = (
    "`{forward}` runs outside `{opened}`: DDP decides in the forward, so on several devices every backward still "
    "synchronises"
)
