"""What a fix changes: the statements that differ, who comes by them, and the part of the file that matters to it.

Of a text that is tried, only the statements that changed are parsed; the others are those of the file, and what is
known of them is kept, so that a trial costs what it changes and not what the file holds.
"""

from __future__ import annotations

import ast
import copy
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradlint.python.source import Source, parsed, read
from gradlint.records import dataclass

if TYPE_CHECKING:
    from gradlint.model import Unreadable
    from gradlint.python.lines import Lines
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
        self._rows = source.text.split("\n")
        self._mentions: dict[ast.stmt, Mentions] = {}
        self._first = [_range(x)[0] - 1 for x in self.body]
        #: whether a statement may be cut off from those before it: it begins a row of its own
        self._apart = [True, *((x.end_lineno or 0) <= row for x, row in zip(self.body, self._first[1:], strict=False))]

    def change(self, text: str) -> Change | Broken | Newer | Unreadable:
        """A text that is tried; the places in its tree are right in what changed and in front of it."""
        found = self._spliced(text) or read(text.encode("utf-8", "surrogatepass"))
        return Change(self, found) if isinstance(found, Source) else found

    def _spliced(self, text: str) -> Source | None:
        """None where the rows do not tell which statements have changed."""
        if self.source.masked is not None or not self.body or "\r" in text or "\f" in text:
            return None
        old, new = self._rows, text.split("\n")
        most = min(len(old), len(new))
        head = next((n for n in range(most) if old[n] != new[n]), most)
        tail = next((n for n in range(most - head) if old[-1 - n] != new[-1 - n]), most - head)
        first, apart = self._first, self._apart
        low = max((n for n, row in enumerate(first) if row <= head and apart[n]), default=None)
        if low is None:
            return None
        end = len(old) - tail
        high = next((n for n in range(low + 1, len(first)) if first[n] >= end and apart[n]), len(first))
        begin, stop = first[low], first[high] if high < len(first) else len(old)
        part = "\n" * begin + "\n".join(new[begin : len(new) - (len(old) - stop)])
        try:
            tree = parsed(part)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        body = [*self.body[:low], *tree.body, *self.body[high:]]
        return Source(self.source.data, text, ast.Module(body, self.source.tree.type_ignores))

    def mentions(self, stmt: ast.stmt) -> Mentions:
        """What is said in a statement of the module; kept, for those of the file are asked about by every trial."""
        found = self._mentions.get(stmt)
        if found is None:
            found = self._mentions[stmt] = _mentions(stmt)
        return found


@dataclass(frozen=True, slots=True)
class Part:
    """What matters to a change: where paths that come by it may start, and what may happen on these."""

    starts: frozenset[str]
    names: frozenset[str]
    #: what the module's own code mentions
    used: frozenset[str]

    def of(self, tree: ast.Module) -> ast.Module:
        """The file without the other definitions; those that the module's own code mentions are left, empty."""
        return ast.Module([x for stmt in tree.body if (x := self._cut(stmt)) is not None], tree.type_ignores)

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


class Change:
    """A text that is tried, beside the file as it is."""

    def __init__(self, original: Original, source: Source) -> None:
        self.source = source
        self._original = original
        kept, own = {*source.tree.body}, {*original.body}
        #: the statements of the module that are gone, and those that have come
        self._gone = [x for x in original.body if x not in kept]
        self._come = [x for x in source.tree.body if x not in own]

    @property
    def of_imports(self) -> bool:
        return any(isinstance(x, _Import) for x in (*self._gone, *self._come))

    def functions(self) -> frozenset[str]:
        """The names of the functions whose code differs, that of functions inside them included; "" is the module."""
        before, after = (dict(_functions(*each)) for each in self._sides())
        return frozenset({"", *(name for name, code in after.items() if before.get(name) != code)})

    def part(self) -> Part:
        """What the change can matter to."""
        mentions: dict[str, list[set[str]]] = {}
        for stmt in self.source.tree.body:
            for name, said in self._original.mentions(stmt).items():
                mentions.setdefault(name, []).append(said)
        starts = self._changed()
        grown = True
        while grown:
            callers = {name for name, told in mentions.items() if not all(map(starts.isdisjoint, told))}
            grown = not callers <= starts
            starts |= callers
        starts = {name for name in starts if f"{name}()" not in mentions}  # nothing starts with a class
        names, waiting = set(starts), [*starts]
        while waiting:
            for said in mentions.get(waiting.pop(), ()):
                more = (said & mentions.keys()) - names
                names |= more
                waiting.extend(more)
        functions = frozenset(name.rpartition(".")[2] for name in starts)
        return Part(functions, frozenset(names), frozenset().union(*mentions.get("", ())))

    def _changed(self) -> set[str]:
        """The functions and classes whose code differs, and what is bound by other statements of the module that do."""
        old, new = (_rows_by_home(*each) for each in self._sides())
        found = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        before, after = ({_text(x, lines): x for x in body} for body, lines in self._sides())
        for stmt in (*(before[x] for x in before.keys() - after), *(after[x] for x in after.keys() - before)):
            if not isinstance(stmt, _Definition):
                found.update(self._original.mentions(stmt))
        return found

    def _sides(self) -> Iterator[tuple[list[ast.stmt], Lines]]:
        yield self._gone, self._original.source.lines()
        yield self._come, self.source.lines()

    def is_apart(self, part: Part) -> bool:
        """Whether the part is worth to be looked at alone: the code of the module itself has not changed, and most of
        the file is left out."""
        tree = self._original.source.tree
        return _outline(self._gone) == _outline(self._come) and _rows(part.of(tree)) <= _WORTH * _rows(tree)


def _functions(body: Iterable[ast.stmt], lines: Lines) -> Iterator[tuple[str, str]]:
    for node in (inner for stmt in body for inner in ast.walk(stmt)):
        if isinstance(node, _Function):
            yield node.name, _text(node, lines)


def _text(stmt: ast.stmt, lines: Lines) -> str:
    return "".join(map(lines.row, _range(stmt)))


def _range(stmt: ast.stmt) -> range:
    """The rows of a statement, those of its decorators included."""
    first = min([stmt.lineno, *(x.lineno for x in getattr(stmt, "decorator_list", ()))])
    return range(first, (stmt.end_lineno or first) + 1)


def _rows_by_home(body: Iterable[ast.stmt], lines: Lines) -> dict[str, list[str]]:
    """The code of functions and classes, and of the module, each without that of definitions inside it."""
    homes: dict[int, str] = {}
    for stmt in body:
        for node, place in _walk(stmt):
            if isinstance(node, ast.stmt) and (node is stmt or isinstance(node, _Definition)):
                homes.update(dict.fromkeys(_range(node), place.home))
    found: dict[str, list[str]] = {}
    for row in sorted(homes):
        found.setdefault(homes[row], []).append(lines.row(row))
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
        inside = [x for x in ast.iter_child_nodes(node) if isinstance(x, _Inside)]
        waiting.extend((x, home, member_of, cls) for x in reversed(inside))


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
        for part in (x for own in ast.iter_child_nodes(node) if not isinstance(own, _Inside) for x in ast.walk(own)):
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
