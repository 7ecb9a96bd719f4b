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
    round the new ones, so no number changes and there is a FutureWarning less. No fix is offered where the file asks
    for the old class (`isinstance`, a subclass, an annotation; what the new class makes is no instance of the old one,
    also for a check in another file), hands it on uncalled, calls it with `*` or `**`, or imports it inside a function.

    ## Known limits
    Projects that support PyTorch before 2.4 are left alone: set `target-torch = "2.1"` in the configuration, or state
    the floor in your dependencies, which gradlint reads (torchvision, torchaudio and torchtext imply one). Code behind
    a version check or a `try`/`except` for the import is not reported. `custom_fwd` and `custom_bwd`, deprecated at the
    same time, are not reported yet.

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
                    # what the new class makes is no instance of the old one
                    asked = _asked_for(program, home + name)
                    related = [(program.site(part), "the old class is asked for here") for part in asked[:1]]
                    fix = [] if asked else [migrate_amp(site, new)]
                    yield self.finding(site, old=home + name, new=new, related=related, fix=fix)


def _asked_for(program: Program, dotted: str) -> list[s.Expr]:
    """Where the class itself is meant, not an object of it: `isinstance`, an annotation, a base, a variable."""
    called = {call.func.node for call in program.calls()}
    return [
        part
        for stmt in program.statements()
        for expr in (*s.expressions(stmt), *_annotations(stmt))
        for part in s.walk_expr(expr)
        if isinstance(part, s.Attr | s.Name) and part.node not in called and program.dotted(part) == dotted
    ]


def _annotations(stmt: s.Stmt) -> list[s.Expr]:
    match stmt:
        case s.Def():
            return [p.annotation for p in stmt.params if p.annotation is not None]
        case s.Assign() if stmt.annotation is not None:
            return [stmt.annotation]
        case _:
            return []


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
