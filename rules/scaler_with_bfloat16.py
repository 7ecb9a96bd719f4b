"""GL209 scaler-with-bfloat16."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.rule import Call, Draft, File, Rule, RuleMeta, Severity


class ScalerWithBfloat16(Rule):
    """A gradient scaler is used though autocast computes in bfloat16.

    ## What it does
    Finds a `GradScaler` in a file whose autocast blocks all use `torch.bfloat16`.

    ## Why is this bad?
    A scaler keeps small gradients from becoming 0 in float16. bfloat16 has the range of float32, so there is nothing
    to rescue. The scaler then only costs: a check of all gradients and a wait for the GPU on each step, and an order
    of calls (scale, unscale, step, update) that is easy to get wrong.

    ## Example
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Use instead
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## Fix safety
    There is no automatic fix: taking a scaler out touches many lines, and perhaps float16 was meant. You decide.

    ## Known limits
    This is advice: the training is right, only slower. A dtype that a caller or a configuration chooses is not
    judged, and neither is a scaler with an `enabled=` argument, which is the usual way to serve both dtypes.

    ## References
    - [torch.amp: gradient scaling](https://pytorch.org/docs/stable/amp.html#gradient-scaling)
    """

    meta = RuleMeta("GL209", Severity.ADVICE)
    message = (
        "`{scaler}` scales losses that autocast computes in bfloat16: its range is that of float32, no scaler is needed"
    )

    calls = ("GradScaler", "ShardedGradScaler")

    def on_call(self, call: Call) -> Iterator[Draft]:
        if "enabled" not in call.keywords and self.file.once(_dtypes) == {"torch.bfloat16"}:
            yield self.finding(call, scaler=call.text)


def _dtypes(file: File) -> set[str]:
    """Those of all autocasts, by their full names; "" for one that is computed."""
    names = {*file.words.seen, *(name.rpartition(".")[2] for name in file.imports.values())}
    called = [name for name in names if name.endswith("autocast")]
    autocasts = file.calls(*called) if called else []
    return {given.name if (given := call.argument(1, "dtype")) else "" for call in autocasts}
