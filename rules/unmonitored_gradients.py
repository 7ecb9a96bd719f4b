"""GL703 unmonitored-gradients."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Clip, ClipApi, ClipKind, Event, Step, Unscale, Wrap
from gradlint.rule import Aspect, Draft, FixSafety, Life, Repair, Rule, RuleMeta, Severity, Trace, short


class UnmonitoredGradients(Rule):
    """A long training loop never looks at a gradient.

    ## What it does
    Finds a loop that trains for long (epochs over a loader, `while step < max_steps`, thousands of turns) in a file
    that nowhere looks at a gradient: the norm that the clip returns is dropped, no `.grad` is read, there is no hook,
    no `wandb.watch`, no measure of gradients and no framework that logs one. It is reported once for each loop, at the
    clip or, without one, at the step.

    ## Why is this bad?
    When gradients explode or vanish, the norm shows it at once; the loss shows it later, or not at all, and then does
    not say why. The norm is also the only way to choose `max_norm` for a reason. `clip_grad_norm_` has computed it
    anyway: it returns the norm before clipping.

    ## Example
    ```python
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for epoch in range(epochs):
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            if step % 100 == 0:
                print(f"step {step} loss {loss.item():.3f}")
    ```

    ## Use instead
    ```python
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for epoch in range(epochs):
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            if step % 100 == 0:
                print(f"step {step} loss {loss.item():.3f}")
                print(f"grad_norm {grad_norm.item():.3f}")
    ```

    ## Fix safety
    The fix keeps the returned norm and logs it where the loop logs already (a dictionary for `wandb.log`, a scalar, a
    line of text). Training does not change. It is unsafe because what you log is your choice, and because `.item()`
    waits for the GPU: harmless every hundred steps, not on each. No fix is offered without a clip by norm, where the
    loop logs nothing behind the clip, or where the gradients are still multiplied by a scale.

    ## Known limits
    Off by default. One look anywhere in the file counts for all of its loops. A monitor that another file attaches to
    the model is not seen. Rules of thumb for the total norm (below 1e-6 vanishing, above 100 exploding) are just that:
    watch how it changes.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    - [wandb.watch](https://docs.wandb.ai/ref/python/watch)
    """

    meta = RuleMeta(
        "GL703",
        Severity.ADVICE,
        fix=FixSafety.UNSAFE,
        default=False,
        unshowable="it changes what is known of a run, not the run",
    )
    mends = (Aspect.READS,)
    needs = (Backward, Step)
    message = "the loop round `{event}` never looks at a gradient{norm}: trouble shows only when the loss has gone"

    def on_trace(self, trace: Trace) -> Iterator[Draft]:
        if self.file.monitoring.looks:
            return
        for life in trace.lives.values():
            for step in life.events(Step):
                loop = self._loop(step, life)
                if loop is None:
                    continue
                clips = _clips(trace, loop)
                event = clips[0] if clips else step
                if self._told_at(loop, event) == event.site.node:
                    norm = ", though the clip returns its norm" if clips else ""
                    yield self.finding(event, event=short(event), norm=norm, repairs=_repairs(clips, trace))

    def _loop(self, step: Step, life: Life) -> int | None:
        """The long loop that this step is in, if it uses gradients."""
        if step.framework.logs_norms or not any(True for _ in life.of_event[step.index].of(Backward)):
            return None
        tested, monitoring = self.file.models.in_test, self.file.monitoring
        return self.once(step.site.node, lambda: None if tested(step) else monitoring.long_loop(step))

    def _told_at(self, loop: int, event: Event) -> int:
        """Where this loop is told of: other paths, and other optimizers, come by the same one."""
        return self.once(("told", loop), lambda: event.site.node)


_LOG = "Keep the norm that the clip returns, and log it"


def _clips(trace: Trace, loop: int) -> list[Clip]:
    """The clips by norm in a loop, each place once, in their order; of inner loops only the first with one."""
    inside = [e for e in trace.path.of(Clip) if any(f.loop == loop for f in e.frames)]
    first: dict[int, Clip] = {}
    for clip in inside:
        if clip.kind is ClipKind.NORM and [f.loop for f in clip.frames] == [f.loop for f in inside[0].frames]:
            first.setdefault(clip.site.node, clip)
    return list(first.values())


def _repairs(clips: list[Clip], trace: Trace) -> list[Repair]:
    """Nothing without a norm: a clip by value has none, a shard's is not the whole, a scaled one is not true."""
    kinds = (ClipApi.TORCH, ClipApi.MANAGED)
    if not clips or not all(c.api in kinds and c.wrap in (Wrap.NONE, Wrap.DDP) for c in clips):
        return []
    if any(_is_scaled(clip, life) for clip in clips for life in trace.lives.values()):
        return []
    return [
        Repair(_LOG, lambda bench: bench.log_norm(clips)),
        Repair(_LOG, lambda bench: bench.log_norm(clips, beside=True)),
    ]


def _is_scaled(clip: Clip, life: Life) -> bool:
    window = life.of_event.get(clip.index)
    if window is None or clip.api is ClipApi.MANAGED or any(window.before(clip, Unscale)):
        return False
    return any(b.scaled for b in window.before(clip, Backward))
