"""Blanks out the definitions that cannot matter, so that the slow parser sees only the rest; rows and columns stay."""

from __future__ import annotations

import ast
import re

from gradlint.frontend.knowledge.torch_api import EVENT_METHODS

_WORDS = re.compile(
    r"\b(?:" + "|".join(sorted(re.escape(w) for w in EVENT_METHODS - {"update", "scale", "accumulate"})) + r")\b"
    r"|GradScaler|autocast|cuda\.amp|cpu\.amp|\.grad\b|all_reduce|require_backward_grad_sync|gradient_clip|"
    r"nullcontext|fully_shard|DataParallel|contextmanager"
)
#: below this a file is parsed whole: cutting costs more than it saves
_SMALL = 6_000


def speaks_of_gradients(tree: ast.Module) -> bool:
    """The byte scan again, on code alone: words in docstrings and comments do not count."""
    words: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.ImportFrom):
            words.update(alias.name for alias in node.names)
            words.update((node.module or "").split("."))
        elif isinstance(node, ast.keyword) and node.arg:
            words.add(node.arg)
    return bool(words & _ALONE) or bool(words & _MADE and words & _USED) or words >= {"backward", "zero_grad"}


_ALONE = frozenset(
    {
        "clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "clip_grad_value", "clip_gradients", "unscale_",
        "GradScaler", "no_sync", "gradient_clip_algorithm", "amp",
    }
)  # fmt: skip
_MADE = frozenset({"backward", "zero_grad", "manual_backward"})
_USED = frozenset({"step", "autocast"})


def reduced(text: str, tree: ast.Module) -> str:
    """The text with functions blanked that hold no event and that no function with events names."""
    if len(text) < _SMALL or "\f" in text or "\r" in text.replace("\r\n", ""):
        return text
    lines = _lines(text)
    definitions = list(_definitions(tree.body))
    keep = _needed(definitions, lines)
    for definition in definitions:
        if id(definition) not in keep:
            _blank(definition, lines)
    return "".join(lines)


def _lines(text: str) -> list[str]:
    """Lines as the parser counts them: only newlines end one."""
    return re.findall(r"[^\n]*\n|[^\n]+$", text)


def _definitions(body: list[ast.stmt]) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions of the module and methods of its classes."""
    found: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    for stmt in body:
        if isinstance(stmt, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(stmt)
        elif isinstance(stmt, ast.ClassDef):
            found.extend(_definitions(stmt.body))
    return found


def _needed(definitions: list[ast.FunctionDef | ast.AsyncFunctionDef], lines: list[str]) -> set[int]:
    """Functions with event words, those that call them, and what they call; to a fixpoint."""
    bodies = {id(d): "".join(lines[d.lineno - 1 : d.end_lineno]) for d in definitions}
    names = {d.name for d in definitions}
    mentioned = {key: set(re.findall(r"\w+", body)) & names for key, body in bodies.items()}
    keep = {id(d) for d in definitions if _WORDS.search(bodies[id(d)]) or d.name in ("__init__", "training_step")}
    strong = {id(d) for d in definitions if _WORDS.search(bodies[id(d)])}
    changed = True
    while changed:
        changed = False
        kept_names = {d.name for d in definitions if id(d) in strong} - {"__init__", "forward"}
        for definition in definitions:
            if id(definition) not in strong and mentioned[id(definition)] & kept_names:
                strong.add(id(definition))
                changed = True
    wanted: set[str] = set().union(*(mentioned[key] for key in strong)) if strong else set()
    return keep | strong | {id(d) for d in definitions if d.name in wanted and d.name != "forward"}


def _blank(definition: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> None:
    """Replaces the body by `pass` on its first row and empty rows below."""
    head = definition.body[0]
    decorators = getattr(head, "decorator_list", [])
    first, last = min([head.lineno, *(d.lineno for d in decorators)]), definition.end_lineno
    if last is None or first == definition.lineno:
        return
    header_end = first - 1
    if not lines[header_end - 1].rstrip("\r\n").rstrip().endswith(":") and "#" not in lines[header_end - 1]:
        # decorators, comments or a one-line body between header and body: leave it alone
        if lines[header_end - 1].strip() and not lines[header_end - 1].lstrip().startswith("#"):
            return
    indent = " " * definition.body[0].col_offset
    if lines[first - 1][: len(indent)].strip():
        return
    indent = lines[first - 1][: definition.body[0].col_offset]
    lines[first - 1] = f"{indent}pass{_ending(lines[first - 1])}"
    for row in range(first, last):
        lines[row] = _ending(lines[row])


def _ending(line: str) -> str:
    return "\r\n" if line.endswith("\r\n") else "\n" if line.endswith("\n") else ""
