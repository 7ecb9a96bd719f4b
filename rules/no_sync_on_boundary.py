"""GL503 no-sync-on-boundary."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Edit, EditKind, Opaque, Step, Sync
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class NoSyncOnBoundary(Rule):
    """`no_sync` is active on the very micro-batch that the step uses.

    ## What it does
    Looks for a step whose last backward ran without synchronisation: the condition is the wrong way round, or
    `no_sync()` stands round every micro-batch.

    ## Why is this bad?
    Every rank steps with the gradients of its own data only, so the copies of the model drift apart. Nothing fails:
    each rank trains on, and the checkpoint holds what rank 0 happened to learn. With the condition inverted and N = 4
    we counted three all-reduces per update, and ranks that no longer agreed.

    ## Example
    ```python
    def train(net, loader, criterion, accum_steps):
        model = DistributedDataParallel(net)
        optimizer = torch.optim.AdamW(model.parameters())
        for i, (x, y) in enumerate(loader):
            boundary = (i + 1) % accum_steps == 0 or i + 1 == len(loader)
            with model.no_sync() if boundary else nullcontext():
                loss = criterion(model(x), y) / accum_steps
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
    Safe. The fix turns the condition round, or puts the boundary's in its place; where every batch is stepped, the
    `no_sync` block goes. The boundary then averages all that was added up since the last step, and all ranks take the
    same step again, so expect the noise, and the learning, of one large batch in place of one small batch per rank.
    Ranks that have drifted apart are the same again once the model is wrapped anew, as DDP then copies the weights of
    rank 0. No fix is offered where the boundary asks for a counter that moves behind the forward, or where the rest
    is stepped behind the loop.

    ## Known limits
    Gradients that are all-reduced by hand before the step are right and are not flagged. Where the condition comes from
    another file, gradlint assumes that it is right.

    ## References
    - [no_sync of DDP](https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    - [Distributed Data Parallel, internal design](https://pytorch.org/docs/stable/notes/ddp.html#internal-design)
    """

    meta = RuleMeta("GL503", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.SYNC,)
    needs = (Backward,)
    message = "`{backward}` does not synchronise on the micro-batch before `{step}`: the ranks drift apart"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        if not state.pending or step.framework.syncs:
            return
        last = state.pending[-1]
        if last.forward_sync is not Sync.OFF or last.sync is not Sync.OFF:
            return
        if any(e.kind is EditKind.REDUCE for e in state.window.of(Edit)) or any(state.window.of(Opaque)):
            return  # reduced by hand instead
        yield self.finding(
            last, backward=short(last), step=short(step),
            related=[(last.no_sync, "no_sync is active here"), (step, "the step uses local gradients")],
            repairs=_repairs(last, step),
        )  # fmt: skip


def _repairs(last: Backward, step: Step) -> Iterator[Repair]:
    """The condition is upside down, or another one than the boundary's."""
    no_sync = last.no_sync
    message = "Use no_sync before the boundary, not on it"
    yield Repair(message, lambda bench: bench.invert_no_sync(last, no_sync, step))
    if no_sync is not None and step.guard is not None:
        message = "Use no_sync exactly before the boundary"
        yield Repair(message, lambda bench: bench.ask_boundary(no_sync, step))
