"""GL110 deprecated-clip."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.rule import Call, Draft, FixSafety, Repair, Rule, RuleMeta, Severity


class DeprecatedClip(Rule):
    """The clip function without the underscore is deprecated.

    ## What it does
    Finds `torch.nn.utils.clip_grad_norm(...)`, written without the underscore at its end.

    ## Why is this bad?
    PyTorch renamed the function long ago: it changes gradients in place, and names of such functions end in an
    underscore. The old name still works, but it warns on use and may be removed.

    ## Example
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm(model.parameters(), max_norm=1.0)
        optimizer.step()
    ```

    ## Use instead
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
    ```

    ## Fix safety
    The fix adds the underscore, in the import and at all uses of the name. It is safe: the old function does nothing
    but warn and call the new one. No number changes, and a FutureWarning is gone. No fix is offered where the name is
    imported inside a function.

    ## Known limits
    Only PyTorch's own function is meant. A `clip_grad_norm` of your project or of another library is left alone.

    ## References
    - [torch.nn.utils.clip_grad_norm](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm.html)
    - [torch.nn.utils.clip_grad_norm_](https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    meta = RuleMeta("GL110", Severity.WARNING, fix=FixSafety.SAFE)
    message = "`clip_grad_norm` is deprecated and warns on use: write `clip_grad_norm_`"

    calls = ("torch.nn.utils.clip_grad_norm", "torch.nn.utils.clip_grad.clip_grad_norm")

    def on_call(self, call: Call) -> Iterator[Draft]:
        old, new = "clip_grad_norm", "clip_grad_norm_"
        rename = Repair(f"Write `{new}`", lambda bench: bench.rename_function(call.function, old, new))
        yield self.finding(call.function, repairs=[rename])
