"""What the process that runs the script is told: how to start it so that its imports work, and which sources run.

Fixed sources run in place of the originals: same `__file__`, other text. Nothing beside the user's files is touched.
Python reads the source of scripts and modules through `io.open_code`, in `runpy` and in `importlib` alike; that is
where another text can be handed out while every path stays what it was.
"""

from __future__ import annotations

import _io
import ast
import dataclasses
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import linecache
import os
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import IO, Any

#: names the file of the orders; the script's own children inherit it, and are known by it
VARIABLE = "GRADLINT_RUN"
FILE = "orders.json"
#: the exit code of a process in which recording did not even start
TROUBLE = 70
#: the interpreter that runs the script; others that the script starts are let alone (`sitecustomize` looks)
PYTHON_VARIABLE = "GRADLINT_PYTHON"


def this_python() -> str:
    return f"{sys.prefix} {sys.hexversion}"


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Under which a script runs."""

    arguments: tuple[str, ...] = ()
    #: optimizer steps after which it is stopped
    steps: int = 8
    seed: int = 0
    #: "cpu", "cuda" or "mps"; see `launch.run.resolve`
    device: str = "cpu"
    #: a file of the user -> the file whose text runs in its place
    overlay: Mapping[str, str] = field(default_factory=dict)
    #: further folders whose files are the user's own code, though they look installed
    own: tuple[str, ...] = ()
    #: GPUs that the script is told of, and that are none: what it puts there lands on the CPU
    pretended: int = 0


@dataclass(frozen=True)
class Orders(Conditions):
    """All that has to be known on the other side."""

    #: where recordings and endings are written
    folder: str
    #: absolute, as the user named it: what `__file__` will be
    script: str
    #: the dotted name to run it under, for scripts with relative imports; "" for a plain script
    module: str = ""
    #: what goes first on sys.path: the script's folder, or the folder that holds its package
    home: str = ""
    #: more folders, to be looked through last
    paths: tuple[str, ...] = ()

    def write(self) -> Path:
        path = Path(self.folder, FILE)
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")
        return path


def read(path: str) -> Orders:
    with open(path, encoding="utf-8") as file:
        told: dict[str, Any] = json.load(file)
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in told.items()}
    return Orders(**values)


# -- how it has to be started ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """See `Orders` for what the fields mean."""

    home: str
    module: str = ""
    paths: tuple[str, ...] = ()


def find_module(name: str) -> tuple[Path, Entry] | None:
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
    return path, Entry(str(path.parents[name.count(".")]), name)


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


# -- modules, as soon as they are imported ----------------------------------------------------------------------------


class Imports(importlib.abc.MetaPathFinder):
    """Finds nothing itself: it lets the others find a module, and tells when that has been run.

    A spec may be asked for without an import, so that only the end of the import says that the module is there.
    """

    def __init__(self) -> None:
        self._wanted: dict[str, list[Callable[[Any], None]]] = {}
        self._looking: set[str] = set()

    def when(self, name: str, act: Callable[[Any], None]) -> None:
        """Now if the module is loaded, else as soon as it is."""
        if name in sys.modules:
            act(sys.modules[name])
        else:
            self._wanted.setdefault(name, []).append(act)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._wanted or fullname in self._looking:
            return None
        self._looking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        except (ImportError, ValueError):
            return None  # whoever looks next says so in the usual way
        finally:
            self._looking.discard(fullname)
        loader: Any = spec.loader if spec is not None else None
        if loader is None or not hasattr(loader, "exec_module"):
            return None
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for act in self._wanted[fullname]:
                act(module)

        loader.exec_module = exec_module
        return spec


# -- other texts in the place of files ---------------------------------------------------------------------------------


def same(path: str) -> str:
    """One spelling for each file."""
    return os.path.normcase(os.path.realpath(path))


class Overlay:
    """Which text runs in place of which file."""

    def __init__(self, copies: Mapping[str, str]) -> None:
        self._copies = {same(original): copy for original, copy in copies.items()}
        #: bytecode of the originals, which Python would think fresh
        self._stale = {same(cache) for original in copies for cache in _caches(original)}
        # most files that are read have nothing to do with it, and a real path costs several system calls
        self._names = {os.path.basename(path) for path in (*self._copies, *self._stale)}

    def read(self, path: str) -> bytes:
        """The source that runs as this file."""
        with open(self._copies.get(same(path), path), "rb") as file:
            return file.read()

    def install(self) -> None:
        """From here on this process reads the copies. To be called once."""
        if not self._copies:
            return
        plain = io.open_code

        def open_code(path: str) -> IO[bytes]:
            if os.path.normcase(os.path.basename(path)) not in self._names:
                return plain(path)
            wanted = same(path)
            if wanted in self._stale:
                raise FileNotFoundError(path)  # importlib then compiles the source
            if wanted in self._copies:
                self._remember_lines(path, wanted)
            return plain(self._copies.get(wanted, path))

        # importlib takes it from the one, runpy from the other
        setattr(_io, "open_code", open_code)  # noqa: B010 - a plain assignment is not typed
        setattr(io, "open_code", open_code)  # noqa: B010

    def _remember_lines(self, path: str, wanted: str) -> None:
        """Tracebacks show the lines that run, not those on the disk; `linecache` never drops an entry without time."""
        try:
            with tokenize.open(self._copies[wanted]) as file:
                lines = file.readlines()
        except (OSError, SyntaxError, UnicodeError):
            return  # the import is about to say so
        linecache.cache[path] = (sum(map(len, lines)), None, lines, path)

    def show(self, path: str) -> None:
        """Let tracebacks show the lines of this file that run."""
        if (wanted := same(path)) in self._copies:
            self._remember_lines(path, wanted)


def _caches(source: str) -> list[str]:
    try:
        return [importlib.util.cache_from_source(source, optimization=level) for level in ("", "1", "2")]
    except NotImplementedError:  # an interpreter that keeps no bytecode
        return []
