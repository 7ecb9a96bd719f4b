"""Finds how a file names what it imports, and adds, renames and drops imports without leaving unused ones."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, cast

import libcst as cst

from gradlint.records import dataclass
from gradlint.repair.nodes import NotFixable, comma, root, within

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench
    from gradlint.repair.tree import Statement


@dataclass(frozen=True, slots=True)
class Import:
    """One name that one import statement of the module binds."""

    statement: Statement
    node: cst.Import | cst.ImportFrom
    alias: cst.ImportAlias
    #: what it stands for, and what it is called here
    dotted: str
    local: str


def imports(bench: Bench) -> Iterator[Import]:
    """The imports at module level, those inside `try` and `if` included."""
    for statement in _outside(bench.document.root.items):
        for small in statement.node.body:
            if isinstance(small, cst.Import | cst.ImportFrom) and not isinstance(small.names, cst.ImportStar):
                yield from _names(statement, small)


def _outside(statements: Iterable[Statement]) -> Iterator[Statement]:
    """The simple statements outside of functions and classes that may import something."""
    for statement in statements:
        chunk = statement.chunk
        if statement.is_top and chunk is not None and (chunk.is_definition or "import" not in chunk.text):
            continue
        if isinstance(statement.node, cst.SimpleStatementLine):
            yield statement
        elif not isinstance(statement.node, cst.FunctionDef | cst.ClassDef):
            yield from _outside(item for block in statement.blocks for item in block.items)


def _names(statement: Statement, node: cst.Import | cst.ImportFrom) -> Iterator[Import]:
    base = module_of(node)
    for alias in cast("tuple[cst.ImportAlias, ...]", node.names):
        name = alias.evaluated_name
        local = alias.evaluated_alias
        if isinstance(node, cst.Import):
            head = name.partition(".")[0]
            yield Import(statement, node, alias, name if local else head, local or head)
        else:
            yield Import(statement, node, alias, f"{base}.{name}", local or name)


def module_of(node: cst.Import | cst.ImportFrom) -> str:
    if not isinstance(node, cst.ImportFrom):
        return ""
    dots = "." * len(node.relative)
    return dots + (cst.helpers.get_full_name_for_node(node.module) or "" if node.module is not None else "")


def imported(bench: Bench, local: str) -> Import | None:
    """What the file imports under a name."""
    return next((known for known in imports(bench) if known.local == local), None)


def calling(bench: Bench, dotted: str, *args: cst.Arg) -> cst.Call:
    """A call of something of another module, as this file can write it."""
    return cst.Call(cst.parse_expression(reference(bench, dotted)), args)


def reference(bench: Bench, dotted: str) -> str:
    """How this file can write `torch.nn.utils.clip_grad_norm_`; imports it if there is no way yet."""
    best = ""
    for known in imports(bench):
        if dotted == known.dotted:
            return known.local
        if dotted.startswith(known.dotted + "."):
            way = known.local + dotted[len(known.dotted) :]
            best = way if not best or len(way) < len(best) else best
    if best:
        return best
    home, _, name = dotted.rpartition(".")
    add(bench, home, name)
    return name


def add(bench: Bench, module: str, name: str) -> None:
    """`from module import name`, in its group and in order."""
    code = f"from {module} import {name}"
    tops = [x for x in _outside(bench.document.root.items) if x.is_top and _is_import(x)]
    standard = module.partition(".")[0] in sys.stdlib_module_names
    future = [x for x in tops if _root(x) == "__future__"]
    group = [x for x in tops if x not in future and (_root(x) in sys.stdlib_module_names) == standard]
    before = [x for x in group if _key(x) <= (True, module)]
    document = bench.document
    new = document.new(code, document.root)
    if before:
        document.put_after(new, before[-1])
    elif group:
        document.put_before(new, group[0])
    elif future or (tops and not standard):
        document.put_after(new, (future or tops)[-1], gap=True)
    elif tops:
        document.put_before(new, tops[0], gap=True)
    else:
        _put_on_top(bench, new)


def _put_on_top(bench: Bench, new: Statement) -> None:
    items = bench.document.root.items
    if not items:
        raise NotFixable("the file is empty")
    if _is_docstring(items[0].node):
        bench.document.put_after(new, items[0], gap=True)
    else:
        bench.document.put_before(new, items[0], gap=True)


def _is_import(statement: Statement) -> bool:
    match statement.node:
        case cst.SimpleStatementLine(body=[cst.Import() | cst.ImportFrom()]):
            return True
        case _:
            return False


def _is_docstring(node: cst.CSTNode) -> bool:
    match node:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString())]):
            return True
        case _:
            return False


def _root(statement: Statement) -> str:
    return _key(statement)[1].partition(".")[0]


def _key(statement: Statement) -> tuple[bool, str]:
    """As isort sorts by default: `import a` before `from a import b`, each by module."""
    small = statement.node.body[0]
    if isinstance(small, cst.Import):
        return False, small.names[0].evaluated_name
    return True, module_of(small)


def rename(bench: Bench, known: Import, new: str, *, everywhere: bool) -> None:
    """The import gives another thing: under its alias, under its own name in all places, or beside the old one."""
    node = known.node
    names = list(cast("tuple[cst.ImportAlias, ...]", node.names))
    at = names.index(known.alias)
    present = any(other.evaluated_name == new and other.asname is None for other in names)
    if known.alias.asname is not None or everywhere:
        names[at] = known.alias.with_changes(name=cst.Name(new))
        if known.alias.asname is None and present:
            del names[at]
    elif not present:
        names.insert(at, known.alias.with_changes(name=cst.Name(new), comma=comma()))
    _write(bench, known, names)


def drop_with(bench: Bench, *gone: cst.CSTNode, kept: Container[str] = ()) -> None:
    """Imports that only these pieces of code use go with them, but for those that were changed for what comes instead.

    `kept`: names that this uses, too.
    """
    used: dict[str, set[int]] = {}
    for name in (name for node in gone for name in within(node, cst.Name)):
        used.setdefault(name.value, set()).add(id(name))
    for known in [x for x in imports(bench) if x.local in used and x.local not in kept]:
        places = bench.names(known.local)
        if places and all(id(x) in used[known.local] for x in places) and not known.statement.replaced:
            _drop(bench, known)


def _drop(bench: Bench, known: Import) -> None:
    node = known.node
    names = [a for a in cast("tuple[cst.ImportAlias, ...]", node.names) if a is not known.alias]
    if not names:
        bench.document.take_out(bench.document.apart(known.statement, node))
        return
    _write(bench, known, names)


def _write(bench: Bench, known: Import, names: list[cst.ImportAlias]) -> None:
    """The import with these names; a comma stands behind the last one only in parentheses."""
    node = known.node
    if not isinstance(node, cst.ImportFrom) or node.lpar is None:
        names[-1] = names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    bench.document.exchange(known.statement, node, node.with_changes(names=names))


FUNCTIONAL = "torch.nn.functional"
#: what these names are in code that does not show its imports
_MODULES = frozenset({"torch", "th", "nn", "F"})


def is_module(bench: Bench, node: cst.BaseExpression) -> bool:
    """`F`, `torch`, `nn.functional`: not a tensor that a method is called on."""
    name = root(node)
    if name not in _MODULES and name not in _imported_names(bench):
        return False
    home = bench.statement(node).function
    if home is None:
        return True
    # `dist = torch.cdist(a, b)` in a file that imports torch.distributed under that name
    params = {x.name.value for x in within(home.node.params, cst.Param)}
    return name not in bench.names_bound(home) | params


def _imported_names(bench: Bench) -> set[str]:
    """Names of modules, those that only one function imports included."""
    return {
        alias.evaluated_alias or alias.evaluated_name.partition(".")[0]
        for statement in bench.document.statements()
        if isinstance(statement.node, cst.SimpleStatementLine)
        for small in statement.node.body
        if isinstance(small, cst.Import | cst.ImportFrom) and not isinstance(small.names, cst.ImportStar)
        for alias in small.names
    }


def dotted(bench: Bench, func: cst.BaseExpression) -> str:
    """What a name that was imported alone stands for."""
    known = imported(bench, bench.code(func))
    return "" if known is None else known.dotted


def write_over(bench: Bench, old: cst.BaseExpression, new: cst.BaseExpression, *removed: cst.CSTNode) -> None:
    """Another expression in the place, and in the parentheses, of one. Imports that only the old code used, what was
    removed with it included, go, but for those that were changed for the new one."""
    if old.lpar and not new.lpar:
        new = new.with_changes(lpar=old.lpar, rpar=old.rpar)
    bench.replace(old, new)
    drop_with(bench, old, *removed, kept={name.value for name in within(new, cst.Name)})


def import_of(bench: Bench, node: cst.CSTNode, name: str) -> Import:
    local = bench.code(node)
    for known in imports(bench):
        if known.local == local and known.dotted.endswith(f".{name}"):
            return known
    raise NotFixable(f"where `{local}` is imported was not found")
