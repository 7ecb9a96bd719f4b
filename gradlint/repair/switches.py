"""Sees whether a scaler that works only under a flag has come to be used without it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_CALLS = {"scale", "step", "update", "unscale_"}
_BLOCKS = {"body", "orelse", "finalbody", "handlers"}
_FLAG = re.compile(r"(?i)amp|fp16|half|mixed|precision|scaler|autocast|float16")


def newly_unswitched(before: ast.Module, after: ast.Module) -> tuple[str, ...]:
    """Scalers that were used only where a flag said so in some function, and are now used without it there."""
    old, new = dict(_uses(before)), dict(_uses(after))
    return tuple(sorted({name for (scope, name), free in new.items() if free and old.get((scope, name)) is False}))


def _uses(tree: ast.Module) -> Iterator[tuple[tuple[str, str], bool]]:
    """((function, scaler), whether some use of it stands under no switch)."""
    found: dict[tuple[str, str], bool] = {}
    _walk(tree.body, "", False, found)
    yield from found.items()


def _walk(body: list[ast.stmt], scope: str, switched: bool, found: dict[tuple[str, str], bool]) -> None:
    for statement in body:
        _note(statement, scope, switched, found)
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            _walk(statement.body, f"{scope}.{statement.name}", False, found)
            continue
        asks = isinstance(statement, ast.If) and _is_switch(statement.test)
        for inner in ("body", "orelse", "finalbody"):
            _walk(getattr(statement, inner, []), scope, switched or asks, found)
        for handler in getattr(statement, "handlers", []):
            _walk(handler.body, scope, switched, found)
        if asks and isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return | ast.Continue):
            switched = True  # `if scaler is None: …; return`: what follows stands under it, too


def _is_switch(test: ast.expr) -> bool:
    return _FLAG.search(ast.unparse(test)) is not None


def _note(statement: ast.stmt, scope: str, switched: bool, found: dict[tuple[str, str], bool]) -> None:
    """The calls of a statement's own expressions."""
    fields = [value for name, value in ast.iter_fields(statement) if name not in _BLOCKS]
    pending: list[tuple[object, bool]] = [(value, switched) for value in fields]
    while pending:
        node, inside = pending.pop()
        if isinstance(node, list):
            pending.extend((x, inside) for x in node)
        elif isinstance(node, ast.AST):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CALLS:
                base = ast.unparse(node.func.value)
                if "scaler" in base.lower():
                    found[scope, base] = found.get((scope, base), False) or not inside
            under = inside or (isinstance(node, ast.IfExp) and _is_switch(node.test))
            pending.extend((child, under) for child in ast.iter_child_nodes(node))
