"""Empties the functions that cannot matter to gradients, so that most of a large file is never looked at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gradlint.frontend.knowledge.torch_api import EVENT_METHODS

_WORDS = re.compile(
    r"\b(?:" + "|".join(sorted(re.escape(w) for w in EVENT_METHODS - {"update", "scale", "accumulate"})) + r")\b"
    r"|GradScaler|autocast|cuda\.amp|cpu\.amp|\.grad\b|all_reduce|require_backward_grad_sync|gradient_clip|"
    r"nullcontext|fully_shard|DataParallel|contextmanager"
)
#: a name that is called, handed on, or taken from self
_CALLED = re.compile(r"\w+(?=[(,)])|(?<=self\.)\w+")
#: below this a file is read whole: looking for what to leave out costs more than it saves
_SMALL = 6_000
#: names that say nothing about who calls whom
_COMMON = frozenset({"__init__", "forward", "__call__"})
#: functions that a rule may read though no event stands in them
_KEPT = frozenset({"__init__", "training_step", "__call__", "compute_loss"})

_Definition = ast.FunctionDef | ast.AsyncFunctionDef


def empty(tree: ast.Module, text: str) -> ast.Module:
    """Empties, in place, the functions with no event that no function with events calls."""
    if len(text) < _SMALL:
        return tree
    lines = re.findall(r"[^\n]*\n|[^\n]+$", text)
    definitions = list(_definitions(tree.body))
    keep = _needed(definitions, lines)
    for definition in definitions:
        if id(definition) not in keep:
            definition.body = []
    return tree


def _definitions(body: list[ast.stmt]) -> Iterator[_Definition]:
    """Functions of the module and methods of its classes."""
    for stmt in body:
        if isinstance(stmt, _Definition):
            yield stmt
        elif isinstance(stmt, ast.ClassDef):
            yield from _definitions(stmt.body)


def _needed(definitions: list[_Definition], lines: list[str]) -> set[int]:
    """Functions with event words, those that call them, and what they call."""
    bodies = {id(d): "".join(lines[d.lineno - 1 : d.end_lineno]) for d in definitions}
    strong = {id(d) for d in definitions if _WORDS.search(bodies[id(d)])}
    fresh = {d.name for d in definitions if id(d) in strong} - _COMMON
    while fresh:
        callers = re.compile(r"\b(?:" + "|".join(sorted(fresh)) + r")\b")
        found = [d for d in definitions if id(d) not in strong and callers.search(bodies[id(d)])]
        strong.update(id(d) for d in found)
        fresh = {d.name for d in found} - _COMMON
    wanted = {name for key in strong for name in _CALLED.findall(bodies[key])} | _KEPT
    return strong | {id(d) for d in definitions if d.name in wanted and d.name != "forward"}
