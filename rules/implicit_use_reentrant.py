"""GL702 implicit-use-reentrant."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.frontend import syntax as s
from gradlint.frontend.names.imported import Place, calls, dotted
from gradlint.frontend.program import Program
from gradlint.model import Category, FixSafety, Severity
from gradlint.remedy.expressions import pass_keyword
from gradlint.rule import Draft, Rule, RuleMeta


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

    meta = RuleMeta("GL702", Category.MODEL, Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{call}` without `use_reentrant`: torch warns, and the old variant drops gradients if no input needs one"

    def on_program(self, program: Program) -> Iterator[Draft]:
        if not any("utils.checkpoint" in name for name in program.imports.values()):
            if not {"utils", "checkpoint"} <= program.all_words.seen:
                return
        if _is_replaced(program):
            return
        places = list(calls(program.body))
        decided = {id(p.function) for p in places if _is_checkpoint(p.dotted) and _says(p.call) and _guarded(p)}
        for place in places:
            if _guarded(place) or id(place.function) in decided:
                continue
            name = place.dotted.rpartition(".")[2]
            if place.dotted == "functools.partial" and place.call.args:
                name = dotted(place.call.args[0], place.scopes).rpartition(".")[2]
                leaves_open = _is_open_partial(place, program)
            else:
                leaves_open = _is_checkpoint(place.dotted) and not _says(place.call)
            if leaves_open and not _too_old(program.target_torch, name):
                yield self._draft(program, place.call, name)

    def _draft(self, program: Program, call: s.Call, name: str) -> Draft:
        fix = [pass_keyword(program.site(call), "use_reentrant", "False")]
        refused = [key for key in call.kwargs if key not in _ACCEPTED]
        if refused and name == "checkpoint":
            message = "`{call}` hands on `{key}`, which raises without `use_reentrant=False`"
            return self.finding(
                program.site(call.func), message=message, call=_short(call, name), key=refused[0], fix=fix
            )
        return self.finding(program.site(call.func), call=_short(call, name), fix=fix)


#: what the reentrant variant takes by name; all else, for the block or for the other variant, raises
_ACCEPTED = frozenset({"preserve_rng_state", "determinism_check", "early_stop", "function"})
_VERSION = re.compile(r"(?i)version|torch_(?:\d|ge|gt|lt|le)|is_torch|use_reentrant|signature|hasattr\(torch")


def _short(call: s.Call, name: str) -> str:
    """The user's own word for it; of a partial, what it is made of."""
    written = s.render(call.func)
    return f"{name if written.endswith('partial') or len(written) > 40 else written}(…)"


def _is_replaced(program: Program) -> bool:
    """`torch.utils.checkpoint.checkpoint = partial(…)`: whoever writes that has decided."""
    return any(
        isinstance(target, s.Attr) and _is_checkpoint(program.dotted(target))
        for stmt in program.statements()
        if isinstance(stmt, s.Assign)
        for target in stmt.targets
    )


def _is_checkpoint(name: str) -> bool:
    home, _, tail = name.rpartition(".")
    return home == "torch.utils.checkpoint" and tail in ("checkpoint", "checkpoint_sequential")


def _too_old(target: tuple[int, int] | None, name: str) -> bool:
    return target is not None and target < ((1, 11) if name == "checkpoint" else (2, 0))


def _says(call: s.Call) -> bool:
    """The argument is there, or may be."""
    if "use_reentrant" in call.kwargs or any(key.startswith("**") for key in call.kwargs):
        return True
    # `checkpoint` takes it by name only; in `checkpoint_sequential` it is the fourth
    by_position = s.render(call.func).endswith("sequential")
    return by_position and (len(call.args) > 3 or any(isinstance(arg, s.Star) for arg in call.args))


def _guarded(place: Place) -> bool:
    """Behind a check of the version or of the signature: written for both worlds."""
    return any(
        (isinstance(stmt, s.If) and _VERSION.search(s.render(stmt.test)))
        or (isinstance(stmt, s.Try) and any("TypeError" in s.render(kind) for kind, _ in stmt.handlers))
        for stmt in place.round
    )


def _is_open_partial(place: Place, program: Program) -> bool:
    """`ckpt = partial(checkpoint, …)` whose calls do not say it either; without any call in the file, who knows."""
    call = place.call
    if not _is_checkpoint(dotted(call.args[0], place.scopes)) or _says(call):
        return False
    names = {
        s.render(stmt.targets[0])
        for stmt in program.statements()
        if isinstance(stmt, s.Assign) and stmt.value is call and len(stmt.targets) == 1
    }
    made = [c for c in program.calls() if s.render(c.func) in names or c.func is call]
    used = [part for part in _reads(program) if s.render(part) in names]
    return bool(made) and not any(_says(c) for c in made) and len(used) <= len(made)


def _reads(program: Program) -> Iterator[s.Expr]:
    """Every name and attribute of the file that is read; one that is not called is handed on."""
    for stmt in program.statements():
        targets = stmt.targets if isinstance(stmt, s.Assign) else []
        for expr in s.expressions(stmt):
            if not any(expr is target for target in targets):
                yield from (part for part in s.walk_expr(expr) if isinstance(part, s.Name | s.Attr))
