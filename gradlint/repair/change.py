"""What a fix changes: the statements that differ, who comes by them, and the part of the file that matters to it.

Of a text that is tried, only the statements that changed are parsed; the others are those of the file, and what is
known of them is kept, so that a trial costs what it changes and not what the file holds.
"""

from __future__ import annotations

import ast
import copy
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from gradlint.python.source import Lines, Source, parsed, read
from gradlint.records import dataclass
from gradlint.repair.edits import shared, shared_end

if TYPE_CHECKING:
    from gradlint.model import Unreadable
    from gradlint.python.source import Broken, Newer

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Import = ast.Import | ast.ImportFrom
#: what a statement holds beside its own expressions
_Inside = ast.stmt | ast.excepthandler | ast.match_case
#: a file that cannot be cut to less than this part of its rows is judged whole
_WORTH = 0.5

#: What leads to what, by names: a function to those that it mentions, "" (the module) likewise, a name of the module to
#: what its value is made of. A class `C` leads to its methods `C.m`, each of these to the members that it mentions and
#: to `C()`, which is the making of an object.
Mentions = dict[str, set[str]]


class Original:
    """The file as it is, and what is known of the statements of its module."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.body = source.tree.body
        self.lines = source.lines()
        self._first = [_range(x)[0] for x in self.body]
        #: whether a statement may be cut off from those before it: it begins a row of its own
        self._apart = [True, *((x.end_lineno or 0) < row for x, row in zip(self.body, self._first[1:], strict=False))]

    def change(self, text: str) -> Change | Broken | Newer | Unreadable:
        """A text that is tried; the places in its tree are right in what changed and in front of it."""
        found = self._spliced(text)
        if found is not None:
            return found
        whole = read(text.encode("utf-8", "surrogatepass"))
        if not isinstance(whole, Source):
            return whole
        return Change(self, whole, Side(self.body, self.lines), Side(whole.tree.body, whole.lines()))

    def _spliced(self, text: str) -> Change | None:
        """None where the rows do not tell which statements have changed."""
        if self.source.masked is not None or not self.body or "\r" in text or "\f" in text:
            return None
        old, first, apart = self.source.text, self._first, self._apart
        head = shared(old, text)
        tail = shared_end(old, text, head)
        low = bisect_right(first, self.lines.position(head)[0]) - 1
        while low >= 0 and not apart[low]:
            low -= 1
        if low < 0:
            return None
        # behind the last row of which something has changed
        high = bisect_right(first, self.lines.position(len(old) - tail)[0], low + 1)
        while high < len(first) and not apart[high]:
            high += 1
        rest = len(old) - self.lines.start(first[high]) if high < len(first) else 0
        part = text[self.lines.start(first[low]) : len(text) - rest]
        try:
            tree = ast.increment_lineno(parsed(part), first[low] - 1)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        whole = ast.Module([*self.body[:low], *tree.body, *self.body[high:]], self.source.tree.type_ignores)
        gone, come = Side(self.body[low:high], self.lines), Side(tree.body, Lines(part), first[low] - 1)
        return Change(self, Source(self.source.data, text, whole), gone, come)

    @cached_property
    def rows(self) -> int:
        return _rows(self.source.tree)

    @cached_property
    def mentions(self) -> dict[str, list[tuple[ast.stmt, set[str]]]]:
        """What leads where, with the statement of the module that says so."""
        found: dict[str, list[tuple[ast.stmt, set[str]]]] = {}
        for stmt in self.body:
            for name, said in _mentions(stmt).items():
                found.setdefault(name, []).append((stmt, said))
        return found

    @cached_property
    def mentioned(self) -> dict[str, list[tuple[ast.stmt, str]]]:
        """The other way round: by what is said."""
        found: dict[str, list[tuple[ast.stmt, str]]] = {}
        for name, told in self.mentions.items():
            for stmt, said in told:
                for other in said:
                    found.setdefault(other, []).append((stmt, name))
        return found

    @cached_property
    def used(self) -> frozenset[str]:
        """What the module's own code mentions."""
        return frozenset().union(*(said for _, said in self.mentions.get("", ())))


@dataclass(frozen=True, slots=True)
class Part:
    """What matters to a change: where paths that come by it may start, and what may happen on these."""

    starts: frozenset[str]
    names: frozenset[str]
    #: what the module's own code mentions
    used: frozenset[str]

    def of(self, tree: ast.Module) -> ast.Module:
        """The file without the other definitions; those that the module's own code mentions are left, empty."""
        left = self.used | {name.removesuffix("()") for name in self.names}
        kept = (x for x in tree.body if not isinstance(x, _Definition) or x.name in left or x.name.startswith("test_"))
        return ast.Module([x for stmt in kept if (x := self._cut(stmt)) is not None], tree.type_ignores)

    def _cut(self, stmt: ast.stmt) -> ast.stmt | None:
        if not isinstance(stmt, _Definition):
            return stmt
        if stmt.name in self.names or f"{stmt.name}()" in self.names:
            left = [x for x in stmt.body if self._is_kept(x, stmt)]
        elif stmt.name in self.used or stmt.name.startswith("test_"):  # what is a test is known by its names
            left = [ast.Pass(lineno=stmt.lineno, col_offset=0, end_lineno=stmt.lineno, end_col_offset=4)]
        else:
            return None
        if len(left) < len(stmt.body) or left[0] is not stmt.body[0]:
            stmt = copy.copy(stmt)
            stmt.body = left
        return stmt

    def _is_kept(self, stmt: ast.stmt, owner: _Definition) -> bool:
        if not isinstance(owner, ast.ClassDef) or not isinstance(stmt, _Function) or _is_implied(stmt, owner):
            return True
        return f"{owner.name}.{stmt.name}" in self.names


@dataclass(frozen=True, slots=True)
class Side:
    """The statements of the module that are gone, or those that have come, and where their rows are found."""

    body: list[ast.stmt]
    lines: Lines
    #: the rows in front of those
    above: int = 0

    def text(self, stmt: ast.stmt) -> str:
        return "".join(map(self.row, _range(stmt)))

    def row(self, row: int) -> str:
        return self.lines.row(row - self.above)


class Change:
    """A text that is tried, beside the file as it is."""

    def __init__(self, original: Original, source: Source, gone: Side, come: Side) -> None:
        self.source = source
        self._original = original
        self._gone, self._come = gone, come

    @property
    def of_imports(self) -> bool:
        return any(isinstance(x, _Import) for x in (*self._gone.body, *self._come.body))

    def functions(self) -> frozenset[str]:
        """The names of the functions whose code differs, that of functions inside them included; "" is the module."""
        before, after = (dict(_functions(side)) for side in (self._gone, self._come))
        return frozenset({"", *(name for name, code in after.items() if before.get(name) != code)})

    def part(self) -> Part:
        """What the change can matter to."""
        original, gone = self._original, {*self._gone.body}
        come: dict[str, list[set[str]]] = {}
        for stmt in self._come.body:
            for name, said in _mentions(stmt).items():
                come.setdefault(name, []).append(said)

        def callers(name: str) -> Iterator[str]:
            yield from (other for stmt, other in original.mentioned.get(name, ()) if stmt not in gone)
            yield from (other for other, told in come.items() if any(name in said for said in told))

        def callees(name: str) -> Iterator[str]:
            told = [said for stmt, said in original.mentions.get(name, ()) if stmt not in gone] + come.get(name, [])
            return (other for said in told for other in said if other in original.mentions or other in come)

        reached = _closure(self._changed(), callers)
        # nothing starts with a class
        starts = {name for name in reached if f"{name}()" not in original.mentions and f"{name}()" not in come}
        used = original.used.union(*come.get("", ()))
        return Part(frozenset(x.rpartition(".")[2] for x in starts), frozenset(_closure(starts, callees)), used)

    def _changed(self) -> set[str]:
        """The functions and classes whose code differs, and what is bound by other statements of the module that do."""
        old, new = map(_rows_by_home, (self._gone, self._come))
        found = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        before, after = ({side.text(x): x for x in side.body} for side in (self._gone, self._come))
        for stmt in (*(before[x] for x in before.keys() - after), *(after[x] for x in after.keys() - before)):
            if not isinstance(stmt, _Definition):
                found.update(_mentions(stmt))
        return found

    def is_apart(self, part: Part) -> bool:
        """Whether the part is worth to be looked at alone: the code of the module itself has not changed, and most of
        the file is left out."""
        if _outline(self._gone.body) != _outline(self._come.body):
            return False
        return _rows(part.of(self._original.source.tree)) <= _WORTH * self._original.rows


def _closure(names: Iterable[str], near: Callable[[str], Iterable[str]]) -> set[str]:
    """The names, and all that one comes to from them."""
    found, waiting = set(names), [*names]
    while waiting:
        more = {*near(waiting.pop())} - found
        found |= more
        waiting.extend(more)
    return found


def _functions(side: Side) -> Iterator[tuple[str, str]]:
    for node in (inner for stmt in side.body for inner in ast.walk(stmt)):
        if isinstance(node, _Function):
            yield node.name, side.text(node)


def _range(stmt: ast.stmt) -> range:
    """The rows of a statement, those of its decorators included."""
    first = min([stmt.lineno, *(x.lineno for x in getattr(stmt, "decorator_list", ()))])
    return range(first, (stmt.end_lineno or first) + 1)


def _rows_by_home(side: Side) -> dict[str, list[str]]:
    """The code of functions and classes, and of the module, each without that of definitions inside it."""
    homes: dict[int, str] = {}
    for stmt in side.body:
        for node, place in _walk(stmt):
            if isinstance(node, ast.stmt) and (node is stmt or isinstance(node, _Definition)):
                homes.update(dict.fromkeys(_range(node), place.home))
    found: dict[str, list[str]] = {}
    for row in sorted(homes):
        found.setdefault(homes[row], []).append(side.row(row))
    return found


def _outline(body: Iterable[ast.stmt]) -> list[str]:
    """The names of definitions, and whatever stands outside of them but imports, which a fix may add to and drop."""
    return [x.name if isinstance(x, _Definition) else ast.dump(x) for x in body if not isinstance(x, _Import)]


def _rows(tree: ast.Module) -> int:
    """The rows of all statements, but for those of the methods that were left out of a class."""
    inside = (x for stmt in tree.body for x in (stmt.body if isinstance(stmt, ast.ClassDef) else [stmt]))
    return sum((x.end_lineno or x.lineno) - x.lineno + 1 for x in inside)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a statement stands."""

    #: the function or class that its code belongs to, which for a definition is itself; and that of what is round it
    home: str
    outer: str
    #: the class of which it is a member
    owner: ast.ClassDef | None
    #: the innermost class round it
    cls: str


def _walk(stmt: ast.stmt) -> Iterator[tuple[ast.AST, _Place]]:
    """The statements in a statement of the module, from the top down."""
    waiting: list[tuple[ast.AST, str, ast.ClassDef | None, str]] = [(stmt, "", None, "")]
    while waiting:
        node, outer, owner, cls = waiting.pop()
        home, member_of = outer, owner
        if isinstance(node, ast.ClassDef):
            home, member_of, cls = f"{node.name}()", node, node.name
        elif isinstance(node, _Function):
            member_of = None
            home = node.name
            if owner is not None:
                home = f"{owner.name}()" if _is_implied(node, owner) else f"{owner.name}.{node.name}"
        yield node, _Place(home, outer, owner, cls)
        inside = [x for x in _children(node) if isinstance(x, _Inside)]
        waiting.extend((x, home, member_of, cls) for x in reversed(inside))


def _children(node: ast.AST) -> list[ast.AST]:
    """As `ast.iter_child_nodes` gives them, but for what says only how a name is used; all of a file come by here."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [x for x in value if isinstance(x, ast.AST)]
        elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
            found.append(value)
    return found


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """All that stands in a node without the statements inside it."""
    waiting = [x for x in _children(node) if not isinstance(x, _Inside)]
    while waiting:
        part = waiting.pop()
        yield part
        if not isinstance(part, ast.Name | ast.Constant):
            waiting += _children(part)


def _mentions(stmt: ast.stmt) -> Mentions:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for node, place in _walk(stmt):
        if isinstance(node, ast.ClassDef):
            found[node.name].add(place.home)
        if isinstance(node, _Function) and place.owner is not None:
            method = f"{place.cls}.{node.name}"
            found[place.cls].add(method)
            found[method].add(f"{place.cls}()")
        elif isinstance(node, _Definition) and place.outer:
            found[place.outer].add(node.name)
        said, bound = set(), set()
        for part in _parts(node):
            match part:
                case ast.Name(id=name):
                    said.add(name)
                    if isinstance(part.ctx, ast.Store) and not place.home:
                        bound.add(name)
                case ast.Attribute(attr=name):
                    said.add(f"{place.cls}.{name}")
                    if isinstance(part.ctx, ast.Store) and place.cls:
                        bound.add(f"{place.cls}.{name}")
                case ast.Constant(value=str() as name) if name.isidentifier():
                    said.update((name, f"{place.cls}.{name}"))
                case ast.alias():
                    bound.add((part.asname or part.name).partition(".")[0])
        if isinstance(node, ast.Global):
            said, bound = {place.home}, {*node.names}
        for name in (place.home, *bound):
            found[name] |= said
    return found


def _is_implied(method: _Function, owner: ast.ClassDef) -> bool:
    """It may be called without being named: what a class inherits calls its methods, and Python `__init__`."""
    return bool(owner.bases or owner.keywords) or method.name.startswith("__")
