"""Cuts a file down to what a fix can matter to: what it changed, who calls that, and whom that calls."""

from __future__ import annotations

import ast
import copy

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
#: a file that cannot be cut to less than this part of its definitions is judged whole
_WORTH = 0.5


def concerned(before: ast.Module, after: ast.Module) -> frozenset[str] | None:
    """The names of the top-level definitions to look at; None if all of them are."""
    old, new = _definitions(before), _definitions(after)
    if old.keys() != new.keys() or len(old) < 4 or _rest(before) != _rest(after):
        return None
    changed = {name for name in new if ast.dump(old[name]) != ast.dump(new[name])}
    mentions = {name: _identifiers(node) & new.keys() for name, node in new.items()}
    found = set(changed)
    pending = list(changed)
    while pending:
        name = pending.pop()
        near = mentions[name] | {other for other, said in mentions.items() if name in said}
        pending.extend(near - found)
        found |= near
    return frozenset(found) if len(found) <= _WORTH * len(new) else None


def reaching(before: ast.Module, after: ast.Module) -> frozenset[str]:
    """The names of the functions that come by what was changed, in themselves or in whom they call; "": the module."""
    old, new = _pieces(before), _pieces(after)
    found = {name for name in new if [ast.dump(x) for x in old.get(name, [])] != [ast.dump(x) for x in new[name]]}
    mentions = {name: set().union(*map(_identifiers, nodes)) for name, nodes in new.items()}
    grown = True
    while grown:
        more = {name for name, said in mentions.items() if name not in found and said & found}
        found |= more
        grown = bool(more)
    return frozenset(found)


def _pieces(tree: ast.Module) -> dict[str, list[ast.AST]]:
    """The statements of each function, by its name, without definitions inside it; "": of the module and classes."""
    pieces: dict[str, list[ast.AST]] = {"": []}
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | _Definition):
            name = "" if isinstance(node, ast.Module | ast.ClassDef) else node.name
            pieces.setdefault(name, []).extend(x for x in node.body if not isinstance(x, _Definition))
    return pieces


def narrowed(tree: ast.Module, names: frozenset[str]) -> ast.Module:
    """The file with all other definitions empty."""
    body: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, _Definition) and node.name not in names:
            node = copy.copy(node)
            node.body = [ast.Pass(lineno=node.lineno, col_offset=0, end_lineno=node.lineno, end_col_offset=4)]
        body.append(node)
    return ast.Module(body, tree.type_ignores)


def _definitions(tree: ast.Module) -> dict[str, _Definition]:
    return {node.name: node for node in tree.body if isinstance(node, _Definition)}


def _rest(tree: ast.Module) -> list[str]:
    """What stands outside of definitions, without the imports, which a fix may add to and drop."""
    return [ast.dump(x) for x in tree.body if not isinstance(x, _Definition | ast.Import | ast.ImportFrom)]


def _identifiers(node: ast.AST) -> set[str]:
    named = {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}
    return named | {x.attr for x in ast.walk(node) if isinstance(x, ast.Attribute)}
