"""GL209 scaler-with-bfloat16."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.frontend import syntax as s
from gradlint.frontend.program import Program
from gradlint.model import Category, Severity
from gradlint.rule import Draft, Rule, RuleMeta


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

    meta = RuleMeta(
        "GL209",
        Category.MIXED_PRECISION,
        Severity.ADVICE,
        unshowable="in bfloat16 the scale changes no gradient, it only costs time",
    )
    message = (
        "`{scaler}` scales losses that autocast computes in bfloat16: its range is that of float32, no scaler is needed"
    )

    def on_program(self, program: Program) -> Iterator[Draft]:
        if not program.all_words.called & {"GradScaler", "ShardedGradScaler"}:
            return
        dtypes = [_dtype(program, call) for call in program.calls() if program.dotted(call.func).endswith("autocast")]
        if not dtypes or any(d != "bfloat16" for d in dtypes):
            return
        for call in program.calls():
            name = program.dotted(call.func).rpartition(".")[2]
            if name in ("GradScaler", "ShardedGradScaler") and "enabled" not in call.kwargs:
                yield self.finding(program.site(call), scaler=s.render(call))


def _dtype(program: Program, call: s.Call) -> str:
    """The dtype as it stands in the call; anything that is computed is unknown."""
    value = call.kwargs.get("dtype") or (call.args[1] if len(call.args) > 1 else None)
    value = program.resolve(value)
    return s.render(value).rpartition(".")[2] if isinstance(value, s.Attr) else ""
