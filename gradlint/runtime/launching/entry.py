"""How a script has to be started so that its imports work: as a file, or as a module of its package."""

from __future__ import annotations

import ast
import importlib.machinery
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """See `Orders` for what the fields mean."""

    home: str
    module: str = ""
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Module:
    """What `python -m` would run."""

    #: the dotted name; of a package that of its `__main__`
    name: str
    path: Path
    #: the folder that holds its outermost package
    home: str


def find_module(name: str) -> Module | None:
    """The file behind a dotted name, found as `python -m` finds it, but nothing is imported; None if there is none."""
    folders = [os.getcwd(), *(folder for folder in sys.path if folder)]
    found: importlib.machinery.ModuleSpec | None = None
    for part in name.split("."):
        # By its last name: of a whole one, Python would want the packages around it to be imported.
        found = importlib.machinery.PathFinder.find_spec(part, folders)
        if found is None:
            return None
        folders = list(found.submodule_search_locations or ())
    if found is not None and found.submodule_search_locations is not None:
        return find_module(f"{name}.__main__")
    if found is None or found.origin is None or not found.origin.endswith((".py", ".pyw")):
        return None
    path = Path(found.origin)
    return Module(name, path, str(path.parents[name.count(".")]))


def examine(script: Path, source: bytes) -> Entry:
    """`from .model import Net` needs the package; `from pkg.model import Net` only needs the folder above."""
    # Python resolves links before it looks for the modules beside a script (on Windows it does not)
    real = Path(os.path.abspath(script) if os.name == "nt" else os.path.realpath(script))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return Entry(home=str(real.parent))  # Python itself will tell
    levels = [level for level, _ in _imports(tree) if level]
    if levels and (package := _package(real, max(levels))):
        home = real.parents[len(package)]
        return Entry(home=str(home), module=".".join((*package, real.stem)))
    names = {name.partition(".")[0] for _, name in _imports(tree)}
    above = [str(folder.parent) for folder in real.parents if folder.name in names]
    return Entry(home=str(real.parent), paths=tuple(above))


def _package(script: Path, depth: int) -> tuple[str, ...]:
    """The names of the packages around it: as many as hold an `__init__.py`, and as many as the dots ask for."""
    names: list[str] = []
    for folder in script.parents:
        if not folder.name.isidentifier() or (len(names) >= depth and not (folder / "__init__.py").exists()):
            break
        names.insert(0, folder.name)
    return tuple(names) if len(names) >= depth and script.stem.isidentifier() else ()


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The number of dots and the name of each import that a plain script has to get through."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""
        elif isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.Try) and any(map(_catches_imports, node.handlers)):
            continue  # `try: from .model import Net` has its own way out
        elif isinstance(node, ast.If) and _is_not_for_scripts(node.test):
            yield from (found for child in node.orelse for found in _imports(ast.Module([child], [])))
        else:
            yield from _imports(node)


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    caught = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return bool(caught & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException", "SystemError"})


def _is_not_for_scripts(test: ast.expr) -> bool:
    """`if TYPE_CHECKING:`, `if __package__:`, `if __name__ != "__main__":`."""
    if isinstance(test, ast.Compare):
        left, differs = test.left, isinstance(test.ops[0], ast.NotEq | ast.IsNot)
        return isinstance(left, ast.Name) and left.id in {"__name__", "__package__"} and differs
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name in {"TYPE_CHECKING", "__package__"}
