"""Which names a statement reads and binds, where a name gets its value, and what may stand in its place."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.knowledge import tensor_api as api
from gradlint.records import dataclass, field
from gradlint.repair.document import with_leading
from gradlint.repair.nodes import NotFixable, assigns, check_comments_kept, root, tight, within

if TYPE_CHECKING:
    from gradlint.python.anchor import Chunk
    from gradlint.repair.bench import Bench
    from gradlint.repair.tree import Statement


@dataclass(frozen=True, slots=True)
class Names:
    """The names and dotted names that a piece of code reads and binds."""

    read: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)

    def check_apart(self, other: Names) -> None:
        """Nothing would get another value if the two were exchanged."""
        clash = (self.bound & (other.read | other.bound)) | (self.read & other.bound)
        if clash:
            raise NotFixable(f"`{min(clash)}` would change its meaning on the way")


def names_of(code: str) -> Names:
    """The names in the text of a statement (its header only, if the caller cut it so)."""
    found = Names()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name | ast.Attribute):
            text = node.id if isinstance(node, ast.Name) else ast.unparse(node)
            (found.read if isinstance(node.ctx, ast.Load) else found.bound).add(text)
        if isinstance(node, ast.AugAssign):
            found.read.add(ast.unparse(node.target))
    return found


def merged(parts: Iterable[Names]) -> Names:
    whole = Names()
    for part in parts:
        whole.read.update(part.read)
        whole.bound.update(part.bound)
    return whole


def leaves_block(code: str) -> bool:
    """A jump out of the place where it stands cannot be carried elsewhere."""
    jumps = (ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Yield, ast.YieldFrom)
    return any(isinstance(node, jumps) for node in ast.walk(ast.parse(code)))


@dataclass(frozen=True, slots=True)
class Definition:
    """`name = value`, alone in its row, and the only one that reaches the place that was asked about."""

    statement: Statement
    name: str
    value: cst.BaseExpression


def assignments(bench: Bench, name: str) -> list[cst.Assign]:
    """Every `name = …` of the file; a dotted name will do."""
    found = bench.assigns(name.rpartition(".")[2])
    return [x for x in found if any(bench.code(t.target) == name for t in x.targets)]


def definition(bench: Bench, name: cst.Name) -> Definition:
    """The one assignment that gives a name its value here."""
    here = bench.statement(name)
    if not _is_one(here) or _is_inner(here, name.value):
        raise NotFixable(f"where `{name.value}` is made was not found")
    current = here
    while True:
        siblings = current.siblings()
        for other in reversed(siblings[: siblings.index(current)]):
            if name.value in bench.names_bound(other):
                return _plain(bench, other, name.value)
        owner = current.owner
        if owner is None or isinstance(owner.node, cst.FunctionDef | cst.ClassDef):
            raise NotFixable(f"`{name.value}` is not made in the same function")
        changed = isinstance(owner.node, cst.For | cst.While) and name.value in bench.names_bound(owner)
        if changed or name.value in bench.names_in(owner).bound:
            raise NotFixable(f"`{name.value}` changes from turn to turn")
        current = owner


def _plain(bench: Bench, statement: Statement, name: str) -> Definition:
    if isinstance(statement.node, cst.With) and name not in bench.names_in(statement).bound:
        # a block that is always run: what binds the name last in it
        inside = statement.blocks[0].items
        return _plain(bench, next(x for x in reversed(inside) if name in bench.names_bound(x)), name)
    if isinstance(statement.node, cst.SimpleStatementLine) and len(statement.node.body) == 1:
        made = statement.node.body[0]
        if isinstance(made, cst.Assign) and assigns(made, name):
            return Definition(statement, name, made.value)
    raise NotFixable(f"`{name}` is made in more than one way")


def _is_one(statement: Statement) -> bool:
    return not isinstance(statement.node, cst.SimpleStatementLine) or len(statement.node.body) == 1


def _is_inner(statement: Statement, name: str) -> bool:
    """A comprehension or a lambda gives the name another meaning."""
    header = statement.node if isinstance(statement.node, cst.SimpleStatementLine) else None
    if header is None:
        return False
    targets = [x for loop in within(header, cst.CompFor) for x in within(loop.target, cst.Name)]
    params = [x.name for x in within(header, cst.Param)]
    return any(x.value == name for x in (*targets, *params))


# -- who reads it


def readers(bench: Bench, made: Definition) -> list[cst.Name]:
    """The places that may see this value."""
    found: list[cst.Name] = []
    current = made.statement
    while True:
        siblings = current.siblings()
        at = siblings.index(current)
        if _read_by(siblings[at + 1 :], made.name, found):
            break
        owner = current.owner
        if owner is None or isinstance(owner.node, cst.FunctionDef | cst.ClassDef):
            break
        if isinstance(owner.node, cst.For | cst.While):
            # the next turn, as far as nothing binds it anew
            found += reads(owner.header[0], made.name)
            if not _read_by(siblings[: at + 1], made.name, found):
                found += [x for other in siblings[: at + 1] for x in reads(other.node, made.name)]
        current = owner
    found += _seen_by_functions(bench, made)
    return list({id(x): x for x in found}.values())


def _read_by(statements: list[Statement], name: str, found: list[cst.Name]) -> bool:
    """True if one of them gives the name another value, whatever the conditions."""
    for statement in statements:
        found += reads(statement.node, name)
        if _is_one(statement) and isinstance(statement.node, cst.SimpleStatementLine):
            made = statement.node.body[0]
            if isinstance(made, cst.Assign) and any(name in _bound_by(t.target) for t in made.targets):
                return True
    return False


def _bound_by(target: cst.BaseExpression) -> set[str]:
    if isinstance(target, cst.Name):
        return {target.value}
    if isinstance(target, cst.Tuple | cst.List):
        return {name for element in target.elements for name in _bound_by(element.value)}
    return set()


def _seen_by_functions(bench: Bench, made: Definition) -> list[cst.Name]:
    """Functions that stand before it may be called behind it."""
    home = made.statement.function
    inside = home.leaves() if home is not None else bench.document.statements()
    defs = [x for x in inside if isinstance(x.node, cst.FunctionDef) and x is not home]
    return [name for x in defs if not x.holds(made.statement) for name in reads(x.node, made.name)]


def reads(node: cst.CSTNode, name: str) -> list[cst.Name]:
    """The places of a piece of code that read a name: attributes, keywords and plain targets are none."""
    return [x for x in _names(node) if x.value == name]


def _names(node: cst.CSTNode) -> Iterator[cst.Name]:
    match node:
        case cst.Name():
            yield node
        case cst.Attribute():
            yield from _names(node.value)
        case cst.Arg():
            yield from _names(node.value)
        case cst.AssignTarget() if isinstance(node.target, cst.Name):
            pass
        case cst.AssignTarget() if isinstance(node.target, cst.Tuple | cst.List):
            for element in node.target.elements:
                if not isinstance(element.value, cst.Name):
                    yield from _names(element.value)
        case cst.Param():
            if node.default is not None:
                yield from _names(node.default)
        case _:
            for child in node.children:
                yield from _names(child)


# -- the same value elsewhere


def check_unchanged(bench: Bench, parts: list[cst.BaseExpression], made: Definition, at: cst.CSTNode) -> None:
    """Expressions of the definition have the same value at another place: nothing in between binds or edits names."""
    here = bench.statement(at)
    read = {name for part in parts for name in bench.names_read(part)}
    roots = {name.partition(".")[0] for name in read}
    between = {id(x): x for x in bench.document.between(made.statement.end, here.start)}
    for owner in here.ancestors():
        if owner.holds(made.statement):
            break
        if isinstance(owner.node, cst.For | cst.While):
            between |= {id(x): x for x in owner.leaves()}
    for statement in between.values():
        if statement is made.statement:
            continue
        changed = read & bench.names_in(statement).bound
        edited = roots & _edited(statement) if isinstance(statement.node, cst.SimpleStatementLine) else set()
        if changed or edited:
            raise NotFixable(f"`{min(changed or edited)}` changes on the way")


def _edited(statement: Statement) -> set[str]:
    """Names whose contents a statement changes: `x[mask] = 0`, `x.relu_()`."""
    roots: set[str] = set()
    for target in within(statement.node, cst.AssignTarget):
        if isinstance(target.target, cst.Subscript | cst.Attribute):
            roots.add(root(target.target))
    for aug in within(statement.node, cst.AugAssign):
        roots.add(root(aug.target))
    for call in within(statement.node, cst.Call):
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value.endswith("_") and not func.attr.value.startswith("_"):
            roots.add(root(func.value))
    return roots - {""}


def names_outside(chunk: Chunk) -> set[str]:
    """The names that a statement of the module binds; of what it only holds, some may be among them."""
    match chunk.stmts[0]:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case _:
            return names_of(chunk.text).bound


def names_of_function(bench: Bench, near: Statement) -> set[str]:
    """All names that the function of a statement uses, and those that the file binds outside of functions."""
    home = near.function
    if home is None:
        return set(re.findall(r"\w+", bench.document.source))
    outside = {n for chunk in bench.document.anchors.chunks for n in names_outside(chunk)}
    known = names_of(bench.code(home.node))
    params = {x.name.value for x in within(home.node, cst.Param)}
    return known.read | known.bound | params | outside


def is_cheap(node: cst.BaseExpression) -> bool:
    """It may be written again: names, numbers, arithmetic, another shape; no network."""
    if any(within(node, cst.Lambda)) or any(within(node, cst.CompFor)) or any(within(node, cst.Await)):
        return False
    return all(isinstance(x.func, cst.Attribute) and x.func.attr.value in api.SAME for x in within(node, cst.Call))


def drop_definition(bench: Bench, home: Definition) -> None:
    """Removes an assignment; a block does not begin with the empty line that was behind it."""
    check_comments_kept(home.statement.node.body[0])
    siblings = home.statement.siblings()
    first = siblings[0] is home.statement
    bench.document.take_out(home.statement)
    if first and siblings and home.statement.owner is not None:
        lines = itertools.dropwhile(lambda line: line.comment is None, siblings[0].node.leading_lines)
        siblings[0].node = with_leading(siblings[0].node, [*lines])


def as_value(bench: Bench, node: cst.BaseExpression) -> cst.BaseExpression:
    """As the right side of an assignment: several rows need parentheses of their own there."""
    return tight(node) if "\n" in bench.code(node) else node
