"""Training files with a few faults in them, as hypothesis draws them."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import strategies as st

from tests.repair.composition import (
    Clearing,
    Clipping,
    Home,
    Plan,
    Precision,
    Scheduling,
    Window,
    Wrapping,
    composed,
)
from tests.repair.layout import Mark, Stmt, Style, block, bodies, mark

#: what a fault may hit: the statements of an update
_EVENT = re.compile(r"clip_grad|\.step\(|zero_grad|backward|unscale_|\.update\(|apply_update|^loss = |autocast|no_sync")
_COMMENTS = ("# why", "# größer als üblich", "# TODO: (später)", "#!")
#: texts that people get wrong, and how
_REWRITES = (
    ("clip_grad_norm_(", "clip_grad_value_("),
    ("clip_grad_norm_(", "clip_grad_norm("),
    ("torch.amp.GradScaler(\"cuda\")", "torch.cuda.amp.GradScaler()"),
    ("torch.autocast(\"cuda\", ", "torch.cuda.amp.autocast("),
    ("scaler.scale(loss).backward()", "loss.backward()"),
    (" / accum", ""),
    ("(i + 1) %", "i %"),
    (" or i + 1 == len(loader)", ""),
    ("if not full else", "if full else"),
    ("DistributedDataParallel", "FullyShardedDataParallel"),
    ("backward()", "backward"),
    (".step()", ".step"),
    ("zero_grad()", "zero_grad"),
    (".unscale_(", ".step("),
    (".update()", ".get_scale()"),
)  # fmt: skip
_ALL = "for p in {model}.parameters():"
#: what is done to gradients by hand: a header if it is a loop, and the statement
_ADDED = (
    (_ALL, "p.grad /= accum"),
    (_ALL, "p.grad.add_(torch.randn_like(p.grad), alpha=0.01)"),
    (_ALL, "torch.distributed.all_reduce(p.grad)"),
    ("", "print(sum(p.grad.norm() for p in {model}.parameters()))"),
)
#: what people put round a statement; each may need a clause behind it
_WRAPPERS = (
    ("if accum > 2:", ""),
    ("with torch.profiler.record_function('update'):", ""),
    ("for _ in range(2):", ""),
    ("try:", "finally:"),
)
_SILENCED = ("# gradlint: ignore", "# gradlint: ignore[GL4]", "# noqa: GL101", "# gradlint: ignore[clip-after-step]")


class Drawn(NamedTuple):
    """A source, and what it is made of: the repr tells hypothesis' reader all there is to know."""

    source: bytes

    def __repr__(self) -> str:
        return f"Drawn({self.source!r})\n{self.source.decode('latin-1')}"


@st.composite
def right_files(draw: st.DrawFn) -> Drawn:
    """Files without a fault, in any layout."""
    return _written(draw, composed(draw(_plans())))


@st.composite
def training_files(draw: st.DrawFn) -> Drawn:
    """Files with up to three faults, in any layout."""
    plan = draw(_plans())
    file = composed(plan)
    for _ in range(draw(st.sampled_from((1, 2, 3, 1, 2, 0)))):
        file = _with_fault(draw, file, plan)
    return _written(draw, file)


def _plans() -> st.SearchStrategy[Plan]:
    kinds = (Window, Home, Clearing, Wrapping, Scheduling, Clipping, Precision)
    return st.builds(Plan, *map(st.sampled_from, kinds), st.booleans(), st.booleans())


def _written(draw: st.DrawFn, file: list[Stmt]) -> Drawn:
    """With a few peculiarities of layout, here and there."""
    everything = [stmt for body in bodies(file) for stmt in body]
    everything += [body[at] for body, at in _events(file)] * 3  # where it matters most
    for _ in range(draw(st.integers(0, 5))):
        comment = draw(st.sampled_from(_COMMENTS))
        mark(draw(st.sampled_from(everything)), draw(st.sampled_from(Mark)), comment)
    style = st.builds(
        Style,
        indent=st.sampled_from(("    ", "  ", "\t")),
        newline=st.sampled_from(("\n", "\r\n")),
        final_newline=st.booleans(),
        encoding=st.sampled_from(("utf-8", "utf-8-sig", "latin-1")),
    )
    return Drawn(draw(style).written(file))


def _with_fault(draw: st.DrawFn, file: list[Stmt], plan: Plan) -> list[Stmt]:
    """A copy with one fault; the file itself if the fault makes no Python of it."""
    faulty = copy.deepcopy(file)
    kind = draw(
        st.sampled_from(("move", "move", "delete", "duplicate", "rewrite", "rewrite", "add", "wrap", "silence"))
    )
    if kind == "rewrite":
        _rewrite(draw, faulty)
    else:
        _disturb(draw, faulty, kind, f"{plan.own}model")
    for emptied in bodies(faulty):
        if not emptied:
            emptied.append(Stmt("pass"))
    return faulty if _parses(faulty) else file


def _disturb(draw: st.DrawFn, file: list[Stmt], kind: str, model: str) -> None:
    """Something happens to one of the update's statements, or beside it."""
    body, at = draw(st.sampled_from(list(_events(file))))
    stmt = body[at]
    if kind in ("move", "delete"):
        del body[at]
    if kind == "add":
        header, code = (text.format(model=model) for text in draw(st.sampled_from(_ADDED)))
        stmt = block(header, code) if header else Stmt(code)
    if kind == "wrap":
        header, clause = draw(st.sampled_from(_WRAPPERS))
        body[at : at + 1] = [Stmt(header, [stmt]), *([Stmt(clause, [Stmt("pass")])] if clause else [])]
    elif kind == "silence":
        stmt.behind = draw(st.sampled_from(_SILENCED))
    elif kind != "delete":
        target, place = draw(st.sampled_from(list(_places(file, body))))
        target.insert(place, copy.deepcopy(stmt))


def _rewrite(draw: st.DrawFn, file: list[Stmt]) -> None:
    """One text becomes another, in one statement."""
    found = [(x, pair) for body in bodies(file) for x in body for pair in _REWRITES if pair[0] in x.code]
    stmt, (old, new) = draw(st.sampled_from(found))
    stmt.code = stmt.code.replace(old, new)


def _events(file: list[Stmt]) -> Iterator[tuple[list[Stmt], int]]:
    for body in bodies(file):
        yield from ((body, n) for n, stmt in enumerate(body) if _EVENT.search(stmt.code))


def _places(file: list[Stmt], near: list[Stmt]) -> Iterator[tuple[list[Stmt], int]]:
    """Where a statement may go: anywhere in its own function."""
    owner = file
    for body in bodies(file):
        for stmt in body:
            if stmt.code.startswith("def ") and any(inner is near for inner in bodies(stmt.body or [])):
                owner = stmt.body or []
    for body in bodies(owner):
        yield from ((body, n) for n in range(len(body) + 1))


def _parses(file: list[Stmt]) -> bool:
    try:
        ast.parse(Style().written(file))
    except SyntaxError:
        return False
    return True
