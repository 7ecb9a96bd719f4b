"""GL212 float16-without-scaler."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.frontend import syntax as s
from gradlint.frontend.program import Program
from gradlint.knowledge import frameworks
from gradlint.model import Category, Severity
from gradlint.rule import Draft, Rule, RuleMeta


class Float16WithoutScaler(Rule):
    """`float16` autocast is used for training without a GradScaler.

    ## What it does
    Finds a training loop under float16 autocast in a file that has no `GradScaler`. On CUDA, float16 is the default:
    `torch.autocast("cuda")` without a dtype means it.

    ## Why is this bad?
    float16 cannot hold numbers below about 6e-8. Many gradients are smaller than that and become 0, so parts of the
    network silently stop learning. A scaler multiplies the loss to lift the gradients into range, and divides them
    again in the step.

    ## Example
    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Fix safety
    There is no automatic fix, because there are two good ways: add a scaler, or use `dtype=torch.bfloat16`, which
    needs none but asks for hardware that computes in it.

    ## Known limits
    The whole file is searched: any word that speaks of a scaler, of bfloat16 or of a framework that scales
    (Accelerate, Fabric, Lightning, DeepSpeed, apex) silences the rule. A dtype from a configuration, an autocast with
    `enabled=` and one used as a decorator are not judged.

    ## References
    - [torch.amp: gradient scaling](https://pytorch.org/docs/stable/amp.html#gradient-scaling)
    - [torch.amp: autocasting](https://pytorch.org/docs/stable/amp.html#autocasting)
    """

    meta = RuleMeta("GL212", Category.MIXED_PRECISION, Severity.WARNING)
    message = "`{autocast}` computes in float16, and no GradScaler is used: small gradients become zero"

    def on_program(self, program: Program) -> Iterator[Draft]:
        seen = program.all_words.seen
        if (
            any(_HANDLED.search(word) or frameworks.speaks_of_one(word) for word in seen)
            or "backward" not in program.all_words.called
        ):
            return
        for function in _functions(program):
            words = program.words(function)
            if not words.backward or not words.steps:
                continue
            for stmt in _under_grad(function):
                if isinstance(stmt, s.With):
                    for item, _ in stmt.items:
                        if isinstance(item, s.Call) and _is_float16(program, item) and _computes(stmt):
                            yield self.finding(program.site(item), autocast=s.render(item))


def _functions(program: Program) -> Iterator[list[s.Stmt]]:
    for defs in program.functions.values():
        for definition in defs:
            yield definition.body
    yield [stmt for stmt in program.body if not isinstance(stmt, s.Def | s.Class)]


def _under_grad(body: list[s.Stmt]) -> Iterator[s.Stmt]:
    """Every statement but those under no_grad."""
    for stmt in body:
        if isinstance(stmt, s.With) and any(_cuts(item) for item, _ in stmt.items):
            continue
        yield stmt
        for block in s.blocks(stmt):
            yield from _under_grad(block)


def _cuts(item: s.Expr) -> bool:
    """Nothing is trained under no_grad."""
    return "no_grad" in s.render(item) or "inference_mode" in s.render(item)


def _computes(stmt: s.With) -> bool:
    return any(isinstance(x, s.Assign) and isinstance(x.value, s.Call) for x in s.walk_stmts(stmt.body))


def _is_float16(program: Program, call: s.Call) -> bool:
    """float16 is asked for, or it is CUDA's autocast without a dtype."""
    dotted = program.dotted(call.func)
    if not dotted.startswith("torch.") or not dotted.endswith("autocast") or "enabled" in call.kwargs:
        return False
    dtype = call.kwargs.get("dtype") or (call.args[1] if len(call.args) > 1 else None)
    if dtype is not None:
        return s.render(dtype) in ("torch.float16", "torch.half")
    device = call.args[0] if call.args else call.kwargs.get("device_type")
    if dotted.startswith("torch.cuda"):
        return device is None
    return isinstance(device, s.Const) and device.value == "cuda"


_HANDLED = re.compile(r"(?i)scaler|bfloat16|no_scaling|set_autocast|loss_scale")
