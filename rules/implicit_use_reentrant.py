"""GL702 implicit-use-reentrant."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.rule import Call, Draft, File, FixSafety, Repair, Rule, RuleMeta, Severity


class ImplicitUseReentrant(Rule):
    """Activation checkpointing leaves open which of its two variants it is.

    ## What it does
    Finds `torch.utils.checkpoint.checkpoint(...)` and `checkpoint_sequential(...)` without `use_reentrant`, also
    through `functools.partial`.

    ## Why is this bad?
    PyTorch warns on every such call and has announced an exception for it. Until then the reentrant variant runs, and
    it has traps that the other one has not:

    - If no argument of the block needs a gradient (images, the output of a frozen encoder), the parameters inside get
      no gradient at all. Only a warning says so; the block is silently not trained.
    - Tensors inside a list, a dict or an object are cut off from the gradient.
    - `torch.autograd.grad`, `backward(inputs=…)` and keyword arguments for the block raise.
    - If the second forward takes another way than the first, the gradients are wrong and nothing is raised.

    ## Example
    ```python
    import torch
    from torch.utils.checkpoint import checkpoint


    class Encoder(torch.nn.Module):
        def forward(self, x):
            for block in self.blocks:
                x = checkpoint(block, x)
            return x
    ```

    ## Use instead
    ```python
    import torch
    from torch.utils.checkpoint import checkpoint


    class Encoder(torch.nn.Module):
        def forward(self, x):
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return x
    ```

    ## Fix safety
    The fix adds `use_reentrant=False`, which PyTorch recommends. It is safe: where the reentrant variant works, outputs
    and gradients are the same. It does change what the traps above do: a block that got no gradients is trained now,
    and a block whose second forward differs in the shapes or dtypes of its tensors raises a `CheckpointError` instead
    of giving wrong gradients. The second forward also stops as soon as it has what the backward needs, so side effects
    at the end of a block happen once. To keep exactly the old behaviour, write `use_reentrant=True`.

    ## Known limits
    Calls with `**kwargs`, a `checkpoint` that is handed on as a value, and code behind a check of torch's version are
    left alone. So are projects that support PyTorch before 1.11 (2.0 for `checkpoint_sequential`), which does not know
    the argument: set `target-torch` in the configuration, or state the floor in your dependencies.

    ## References
    - [torch.utils.checkpoint](https://pytorch.org/docs/stable/checkpoint.html)
    """

    meta = RuleMeta("GL702", Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{call}` without `use_reentrant`: torch warns, and the old variant drops gradients if no input needs one"
    raises = "`{call}` hands on `{key}`, which raises without `use_reentrant=False`"

    calls = ("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential")

    def on_call(self, call: Call) -> Iterator[Draft]:
        if not _says(call):
            yield from self._left_open(call, call.last)

    def on_file(self) -> Iterator[Draft]:
        """`ckpt = partial(checkpoint, …)` whose calls do not say it either; without any call in the file, who knows."""
        if "torch.utils.checkpoint" not in {name.rpartition(".")[0] for name in self.file.imports.values()}:
            if "checkpoint" not in self.file.words.seen:
                return
        for call in self.file.calls("functools.partial"):
            made = call.argument(0)
            if made is None or made.name not in self.calls or _says(call):
                continue
            used = [c for c in self.file.calls() if c.function.text == call.bound_to or c.function == call.site]
            if used and not any(_says(c) for c in used) and self.file.reads(call.bound_to) <= len(used):
                yield from self._left_open(call, made.name.rpartition(".")[2])

    def _left_open(self, call: Call, name: str) -> Iterator[Draft]:
        if _is_guarded(call) or call.home in self.file.once(_decided) or _is_too_old(self.file.target_torch, name):
            return
        if any(self.file.assigns(replaced) for replaced in self.calls):
            return  # `torch.utils.checkpoint.checkpoint = partial(…)`: whoever writes that has decided
        repairs = [Repair(_PASS, lambda bench: bench.pass_keyword(call.site, "use_reentrant", "False"))]
        refused = [key for key in call.keywords if key not in _ACCEPTED]
        message = self.raises if refused and name == "checkpoint" else None
        yield self.finding(
            call.function, message=message, call=_short(call, name), key=refused[0] if refused else "", repairs=repairs
        )


_PASS = "Pass `use_reentrant=False`"
#: what the reentrant variant takes by name; all else, for the block or for the other variant, raises
_ACCEPTED = frozenset({"preserve_rng_state", "determinism_check", "early_stop", "function"})
_VERSION = re.compile(r"(?i)version|torch_(?:\d|ge|gt|lt|le)|is_torch|use_reentrant|signature|hasattr\(torch")


def _short(call: Call, name: str) -> str:
    """The user's own word for it; of a partial, what it is made of."""
    written = call.function.text
    return f"{name if written.endswith('partial') or len(written) > 40 else written}(…)"


def _decided(file: File) -> set[int | None]:
    """Functions that say it in one arm of a check of the version."""
    calls = file.calls(*ImplicitUseReentrant.calls)
    return {call.home for call in calls if _says(call) and _is_guarded(call)}


def _is_too_old(target: tuple[int, int] | None, name: str) -> bool:
    return target is not None and target < ((1, 11) if name == "checkpoint" else (2, 0))


def _says(call: Call) -> bool:
    """The argument is there, or may be."""
    if "use_reentrant" in call.keywords or any(key.startswith("**") for key in call.keywords):
        return True
    # `checkpoint` takes it by name only; in `checkpoint_sequential` it is the fourth
    by_position = call.function.text.endswith("sequential")
    return by_position and (len(call.arguments) > 3 or any(x.site.text.startswith("*") for x in call.arguments))


def _is_guarded(call: Call) -> bool:
    """Behind a check of the version or of the signature: written for both worlds."""
    return any(_VERSION.search(test) for test in call.conditions) or any("TypeError" in x for x in call.caught)
