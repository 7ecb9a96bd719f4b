"""GL210 deprecated-amp-api."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.frontend import syntax as s
from gradlint.frontend.program import Program
from gradlint.model import Category, FixSafety, Severity
from gradlint.remedy.mixed_precision import migrate_amp
from gradlint.rule import Draft, Rule, RuleMeta


class DeprecatedAmpApi(Rule):
    """The device-specific AMP classes are deprecated.

    ## What it does
    Finds `autocast` and `GradScaler` from `torch.cuda.amp` and `torch.cpu.amp`.

    ## Why is this bad?
    They warn since PyTorch 2.4 (a FutureWarning) and may be removed. Their successors in `torch.amp` take the device
    as an argument, so that one line serves every device.

    ## Example
    ```python
    import torch

    scaler = torch.cuda.amp.GradScaler()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.cuda.amp.autocast():
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Use instead
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda"):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Fix safety
    The fix rewrites the call to `torch.amp`, with the device as first argument, and the import with it; arguments
    by position get their names where the order is another one now. It is safe: the old classes are thin wrappers
    round the new ones, so no number changes and there is a FutureWarning less. (An `isinstance` check against the
    old class in another file fails for the new one.) No fix is offered where `autocast` or `GradScaler` is handed
    on uncalled (an annotation counts), called with `*` or `**`, or imported inside a function.

    ## Known limits
    Projects that support PyTorch before 2.4 are left alone: set `target-torch = "2.1"` in the configuration, or state
    the floor in your dependencies, which gradlint reads. Code behind a version check or a `try`/`except` for the
    import is not reported. `custom_fwd` and `custom_bwd`, deprecated at the same time, are not reported yet.

    ## References
    - [torch.amp](https://pytorch.org/docs/stable/amp.html)
    """

    meta = RuleMeta("GL210", Category.MIXED_PRECISION, Severity.WARNING, fix=FixSafety.SAFE)
    message = "`{old}` is deprecated since torch 2.4: use `{new}`"

    def on_program(self, program: Program) -> Iterator[Draft]:
        if program.target_torch is not None and program.target_torch < (2, 4):
            return
        if "amp" not in program.all_words.seen and not any(".amp" in name for name in program.imports.values()):
            return
        guarded = _guarded(program)
        shadowed = _bound_twice(program)
        for call in program.calls():
            if s.render(call.func).partition(".")[0] in shadowed:
                continue
            dotted = program.dotted(call.func)
            for device in ("cuda", "cpu"):
                home = f"torch.{device}.amp."
                name = dotted.rpartition(".")[2]
                if dotted.startswith(home) and name in ("autocast", "GradScaler") and call.node not in guarded:
                    site, new = program.site(call.func), f'torch.amp.{name}("{device}")'
                    yield self.finding(site, old=home + name, new=new, fix=[migrate_amp(site, new)])


def _bound_twice(program: Program) -> set[str]:
    """Names that are not always the import: another import, a class, a function or a parameter has them, too."""
    found = {p.name for d in program.statements() if isinstance(d, s.Def) for p in d.params} | {*program.classes}
    found |= {*program.functions} | {*program.assignments}
    seen: dict[str, str] = {}
    for stmt in program.statements():
        for local, dotted in stmt.bindings.items() if isinstance(stmt, s.Import) else ():
            if seen.setdefault(local, dotted) != dotted:
                found.add(local)
    return found - {"torch"}


def _guarded(program: Program) -> set[int]:
    """Calls behind a check of the version or of what torch has: written for both worlds."""
    found: set[int] = set()
    for stmt in program.statements():
        if isinstance(stmt, s.Try) or (isinstance(stmt, s.If) and _VERSION.search(s.render(stmt.test))):
            for inner in s.walk_stmts([stmt]):
                for expr in s.expressions(inner):
                    if isinstance(stmt, s.If) or _falls_back(stmt):
                        found.update(p.node for p in s.walk_expr(expr) if isinstance(p, s.Call))
    return found


def _falls_back(stmt: s.Try) -> bool:
    """`try: torch.amp … except (AttributeError, ImportError): torch.cuda.amp …`."""
    return any(
        "Import" in s.render(kind) or "Attribute" in s.render(kind) or "Type" in s.render(kind)
        for kind, _ in stmt.handlers
    )


_VERSION = re.compile(r"(?i)version|hasattr|TORCH_|torch_\d|is_torch|parse")
