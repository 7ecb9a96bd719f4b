"""Cuts a file down to what a fix can matter to: what it changed, who calls that, and whom that calls.

Of a text that is tried, only the statements that changed are parsed; the others are those of the file, and what is
known of them is kept, so that a trial costs what it changes and not what the file holds.
"""

from __future__ import annotations

import ast
import copy
import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from gradlint.python.source import Broken, Source, parsed, read
from gradlint.repair.edits import shared, shared_end

if TYPE_CHECKING:
    from gradlint.model import Unreadable
    from gradlint.python.source import Newer

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Import = ast.Import | ast.ImportFrom
#: a file that cannot be cut to less than this part of its definitions is judged whole
_WORTH = 0.5


class Focus:
    """A file, and what is known of the statements of its module."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._body = source.tree.body
        self._starts = [0, *(found.end() for found in re.finditer("\n", source.text))]
        #: by the statements of the file itself, which are kept, so that their ids are theirs
        self._own = {id(x) for x in self._body}
        self._names: dict[int, set[str]] = {}
        #: what was read last, with what is gone and what has come
        self._last: tuple[ast.Module, list[ast.stmt], list[ast.stmt]] | None = None
        self._first = [min([x.lineno, *(d.lineno for d in getattr(x, "decorator_list", ()))]) - 1 for x in self._body]
        #: whether a statement may be cut off from those before it: it begins a row of its own
        self._apart = [True, *((x.end_lineno or 0) <= row for x, row in zip(self._body, self._first[1:], strict=False))]

    # -- reading

    def read(self, text: str) -> Source | Broken | Newer | Unreadable:
        """A text that is tried; the places in its tree are right in what changed and in front of it."""
        found = self._spliced(text)
        return read(text.encode("utf-8", "surrogatepass")) if found is None else found

    def _spliced(self, text: str) -> Source | None:
        """None where the rows do not tell which statements have changed."""
        if self._source.masked is not None or not self._body or "\r" in text or "\f" in text:
            return None
        old, first, apart = self._source.text, self._first, self._apart
        head = shared(old, text)
        tail = shared_end(old, text, head)
        low = bisect_right(first, old.count("\n", 0, head)) - 1
        while low >= 0 and not apart[low]:
            low -= 1
        if low < 0:
            return None
        # the first row of which nothing has changed
        end = old.count("\n", 0, len(old) - tail) + 1
        high = bisect_left(first, end, low + 1)
        while high < len(first) and not apart[high]:
            high += 1
        begin = first[low]
        rest = len(old) - self._starts[first[high]] if high < len(first) else 0
        part = text[self._starts[begin] : len(text) - rest]
        try:
            tree = ast.increment_lineno(parsed(part), begin)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        whole = ast.Module([*self._body[:low], *tree.body, *self._body[high:]], self._source.tree.type_ignores)
        self._last = whole, self._body[low:high], tree.body
        return Source(self._source.data, text, whole)

    # -- what to look at

    def concerned(self, after: ast.Module) -> frozenset[str] | None:
        """The names of the top-level definitions to look at; None if all of them are."""
        gone, come = self._changes(after)
        old, new = _definitions(gone), _definitions(come)
        left = {id(x) for x in gone}
        every = self._definitions
        if old.keys() != new.keys() or len(every) < 4 or _rest(gone) != _rest(come):
            return None
        found = {name for name in new if ast.dump(old[name]) != ast.dump(new[name])}
        # of several definitions of a name, the last one counts
        changed = {name: _said(node) for name, node in new.items() if id(every[name]) in left}
        pending = list(found)
        while pending:
            name = pending.pop()
            near = (changed[name] if name in changed else self._identifiers(every[name])) & every.keys()
            near |= self._mentioning.get(name, set()) - changed.keys()
            near |= {other for other, said in changed.items() if name in said}
            pending.extend(near - found)
            found |= near
        return frozenset(found) if len(found) <= _WORTH * len(every) else None

    def reaching(self, after: ast.Module) -> frozenset[str]:
        """The functions, by name, that come by what was changed, in themselves or in whom they call; "": the module."""
        gone, come = self._changes(after)
        old, new = _pieces(gone), _pieces(come)
        found = {name for name in new if [ast.dump(x) for x in old.get(name, [])] != [ast.dump(x) for x in new[name]]}
        left = {id(x) for x in gone}
        changed = [pair for stmt in come for pair in _mentioned(stmt).items()]
        pending = list(found)
        while pending:
            name = pending.pop()
            near = {other for stmt, other in self._saying.get(name, ()) if stmt not in left}
            near |= {other for other, said in changed if name in said}
            pending.extend(near - found)
            found |= near
        return frozenset(found)

    def imports_change(self, after: ast.Module) -> bool:
        return any(isinstance(x, _Import) for part in self._changes(after) for x in part)

    def narrowed(self, tree: ast.Module, names: frozenset[str]) -> ast.Module:
        """The file without the other definitions; those that the module's own code mentions are left, empty."""
        rest = [x for x in tree.body if not isinstance(x, _Definition | _Import)]
        used = set().union(*map(self._identifiers, rest))
        body: list[ast.stmt] = []
        for node in tree.body:
            if isinstance(node, _Definition) and node.name not in names:
                if node.name not in used and not node.name.startswith("test_"):  # what is a test is known by its names
                    continue
                node = copy.copy(node)
                node.body = [ast.Pass(lineno=node.lineno, col_offset=0, end_lineno=node.lineno, end_col_offset=4)]
            body.append(node)
        return ast.Module(body, tree.type_ignores)

    def _changes(self, after: ast.Module) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """The statements of the module that are gone, and those that have come."""
        if self._last is not None and self._last[0] is after:
            return self._last[1], self._last[2]
        kept = {id(x) for x in after.body}
        return [x for x in self._body if id(x) not in kept], [x for x in after.body if id(x) not in self._own]

    def _identifiers(self, node: ast.stmt) -> set[str]:
        found = self._names.get(id(node))
        if found is None:
            found = _said(node)
            if id(node) in self._own:
                self._names[id(node)] = found
        return found

    @cached_property
    def _definitions(self) -> dict[str, _Definition]:
        return _definitions(self._body)

    @cached_property
    def _mentioning(self) -> dict[str, set[str]]:
        """The definitions of the file, by each of the names that they mention."""
        found: dict[str, set[str]] = {}
        for name, node in self._definitions.items():
            for said in self._identifiers(node):
                found.setdefault(said, set()).add(name)
        return found

    @cached_property
    def _saying(self) -> dict[str, list[tuple[int, str]]]:
        """By each name of the file: the statement that says it, and the function that it does so in; "": in none."""
        found: dict[str, list[tuple[int, str]]] = {}
        for node in self._body:
            for function, names in _mentioned(node).items():
                for said in names:
                    found.setdefault(said, []).append((id(node), function))
        return found


def _mentioned(node: ast.stmt) -> dict[str, set[str]]:
    """What a statement says, by the function that says it; "": outside of any."""
    return {name: set().union(*map(_said, inner)) for name, inner in _pieces([node]).items()}


def _pieces(body: list[ast.stmt]) -> dict[str, list[ast.AST]]:
    """The statements of each function, by its name, without definitions inside it; "": of the module and classes."""
    pieces: dict[str, list[ast.AST]] = {"": [x for x in body if not isinstance(x, _Definition)]}
    for node in (inner for stmt in body for inner in ast.walk(stmt)):
        if isinstance(node, _Definition):
            name = "" if isinstance(node, ast.ClassDef) else node.name
            pieces.setdefault(name, []).extend(x for x in node.body if not isinstance(x, _Definition))
    return pieces


def _definitions(body: list[ast.stmt]) -> dict[str, _Definition]:
    return {node.name: node for node in body if isinstance(node, _Definition)}


def _rest(body: list[ast.stmt]) -> list[str]:
    """What stands outside of definitions, without the imports, which a fix may add to and drop."""
    return [ast.dump(x) for x in body if not isinstance(x, _Definition | _Import)]


def _said(node: ast.AST) -> set[str]:
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found.add(inner.id)
        elif isinstance(inner, ast.Attribute):
            found.add(inner.attr)
    return found
