"""GL504 manual-gradient-sync."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Edit, EditKind, Event, Norm, Sync, Wrap
from gradlint.knowledge import naming
from gradlint.knowledge.rows import Thing
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, outward, short


class ManualGradientSync(Rule):
    """Gradients of a DDP model are all-reduced a second time by hand.

    ## What it does
    Looks for an `all_reduce` of `.grad` behind the backward of a model that DDP wraps and has synchronised.

    ## Why is this bad?
    DDP has averaged the gradients during the backward, so all ranks hold the same ones. A second round sends everything
    over the network once more, parameter by parameter and without overlap. Divided by the world size it changes
    nothing; where that division is forgotten, gradients are `world_size` times too large.

    ## Example
    ```python
    def train(net, loader, criterion):
        model = DistributedDataParallel(net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            for p in model.parameters():
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()
            optimizer.step()
    ```

    ## Use instead
    ```python
    def train(net, loader, criterion):
        model = DistributedDataParallel(net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    ## Fix safety
    Safe. The fix deletes the loop that reduces, or the call of a function that does nothing else (the function itself
    stays). Where the sum was divided by the world size no number changes, and a round of traffic is gone; where that
    division was forgotten, gradients become `world_size` times smaller, and with SGD so does the effective learning
    rate. No fix is offered where the function that reduces does something else and is called from elsewhere, too.

    ## Known limits
    Without DDP, or under `no_sync()`, reducing by hand is legitimate and is not flagged; nor are losses and metrics.
    A reduction over another process group than DDP's cannot be told apart from this one.

    ## References
    - [DDP](https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    - [torch.distributed.all_reduce](https://pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce)
    """

    meta = RuleMeta("GL504", Severity.WARNING, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.EDITS,)
    needs = (Backward, Thing.WRAPPER)
    message = "`{edit}` averages gradients that DDP has averaged already"

    def on_edit(self, edit: Edit, state: GradientState) -> Iterator[Draft]:
        if edit.kind is not EditKind.REDUCE or edit.wrap is not Wrap.DDP or not state.pending:
            return
        if all(b.sync is Sync.ON and b.wrap is Wrap.DDP for b in state.pending):
            yield self.finding(
                edit, edit=short(edit), related=[(state.pending[-1], "DDP reduces in this backward")],
                repairs=_repairs(edit) if _is_all(state) else [],
            )  # fmt: skip


def _repairs(edit: Edit) -> Iterator[Repair]:
    """With the loop or the condition round it, or the call of the function, that does nothing else."""
    ways = outward("Leave the averaging to DDP", edit, lambda bench, outer: bench.delete(edit, _averages, outer))
    yield from reversed(ways)


def _averages(event: Event) -> bool:
    return isinstance(event, Edit) and event.kind in (EditKind.REDUCE, EditKind.DIVIDE)


def _is_all(state: GradientState) -> bool:
    """Nothing else hangs on the averaging: no noise that it would even out, no division for it elsewhere."""
    edits = list(state.window.of(Edit))
    places = {(e.frames[-1].loop if e.frames else -1) for e in edits}
    divided = any(b.norm is Norm.DIVIDED and naming.RANKS.search(b.divisor) for b in state.pending)
    return all(_averages(e) for e in edits) and len(places) == 1 and not divided
