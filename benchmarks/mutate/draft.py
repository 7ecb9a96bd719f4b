"""Edits of whole statements in a source text, and the line where each ends up."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from .scene import Event, Scene, text


class RefusedError(Exception):
    """An edit of this draft would not keep the meaning of what it moves."""


@dataclass(frozen=True)
class Moved:
    """The lines of a statement on its way to another place, and which of them is the event."""

    lines: list[str]
    offset: int = 0


@dataclass(eq=False)
class Draft:
    """A changed copy of a file: collects edits, then renders text and the line to blame."""

    scene: Scene
    lines: list[str] = field(init=False)
    before: dict[int, list[str]] = field(init=False, default_factory=dict)
    blame_old: int | None = None
    blame_new: tuple[int, int] | None = None
    refused: str = ""
    """Why this draft must not be rendered; the first reason counts."""
    right: Draft | None = None
    """What the draft adds to the file, made right; None where it adds nothing that the file has not."""

    def __post_init__(self) -> None:
        self.lines = self.scene.source.splitlines()
        self.kept: list[str | None] = list(self.lines)

    def refuse(self, why: str) -> None:
        self.refused = self.refused or why

    def span(self, stmt: ast.stmt) -> range:
        """The line indices of a statement that has them for itself and can be re-indented."""
        span = range(stmt.lineno - 1, stmt.end_lineno or stmt.lineno)
        head, tail = self.lines[span[0]].encode(), self.lines[span[-1]].encode()
        rest = tail[stmt.end_col_offset :].decode().strip()
        if head[: stmt.col_offset].strip() or (rest and not rest.startswith("#")):
            self.refuse("shares its line")
        if self.lines[span[0]].lstrip().startswith("elif"):
            self.refuse("an elif")
        for node in ast.walk(stmt):
            multi = getattr(node, "end_lineno", 0) != getattr(node, "lineno", 0)
            if multi and isinstance(node, ast.JoinedStr | ast.Constant):
                self.refuse("a string over several lines")
        return span

    def written(self, stmt: ast.stmt, indent: int) -> list[str]:
        """The statement's own text at another indentation."""
        own = [self.lines[i] for i in self.span(stmt)]
        return [" " * indent + line[stmt.col_offset :] if line.strip() else "" for line in own]

    def lift(self, event: Event, body: list[ast.stmt], indent: int) -> Moved:
        """Take an event out of `body`, with the conditions it stands under there."""
        stmt, unit = event.stmt, self.scene.unit(body, event.stmt)
        if unit is None:
            self.refuse("not in this block")
            return Moved([], 0)
        pure = all(e.kind is event.kind for e in self.scene.events if self.scene.inside(e.stmt, unit))
        if unit is stmt or (pure and isinstance(unit, ast.If) and self.only_events(unit)):
            self.delete(unit, up_to=body)
            return Moved(self.written(unit, indent), stmt.lineno - unit.lineno)
        self.delete(stmt, up_to=body)
        if not isinstance(unit, ast.If) or unit.orelse or self.scene.body[stmt] is not unit.body:
            self.refuse("under more than one condition")
            return Moved([], 0)
        return Moved([" " * indent + f"if {text(unit.test)}:", *self.written(stmt, indent + 4)], 1)

    def only_events(self, unit: ast.If) -> bool:
        """Does an `if` hold nothing but events and conditions?"""
        events = {e.stmt for e in self.scene.events}
        return all(isinstance(s, ast.If) or s in events for s in ast.walk(unit) if isinstance(s, ast.stmt))

    def delete(self, stmt: ast.stmt, *, up_to: list[ast.stmt] | None = None) -> None:
        """Delete a statement, and the plain `if`s of which it is all, up to a statement of `up_to`."""
        scene, body = self.scene, self.scene.body[stmt]
        while len(body) == 1 and body is not up_to:
            parent = scene.parent[stmt]
            if not (isinstance(parent, ast.If) and not parent.orelse):
                break
            stmt, body = parent, scene.body[parent]
        span = self.span(stmt)
        for i in span:
            self.kept[i] = None
        if len(body) == 1:
            self.kept[span[0]] = " " * stmt.col_offset + "pass"

    def insert(self, line: int, new: Moved, *, blame: bool) -> None:
        """Insert lines before the 0-based `line`."""
        here = self.before.setdefault(line, [])
        if blame:
            self.blame_new = (line, len(here) + new.offset)
        here += new.lines

    def insert_before(self, anchor: ast.stmt, new: Moved, *, blame: bool = True) -> None:
        self.insert(self.span_start(anchor), new, blame=blame)

    def insert_after(self, anchor: ast.stmt, new: Moved, *, blame: bool = True) -> None:
        self.insert(anchor.end_lineno or anchor.lineno, new, blame=blame)

    def span_start(self, anchor: ast.stmt) -> int:
        if self.lines[anchor.lineno - 1].encode()[: anchor.col_offset].strip() or self.lines[
            anchor.lineno - 1
        ].lstrip().startswith("elif"):
            self.refuse("no room before it")
        return anchor.lineno - 1

    def replace(self, node: ast.expr | ast.alias | ast.ImportFrom, new: str) -> None:
        """Replace an expression, an imported name or an import."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        head = self.lines[first].encode()[: node.col_offset].decode()
        tail = self.lines[last].encode()[node.end_col_offset :].decode()
        if new.isidentifier() and head.endswith("(") and tail.startswith(")") and not head[:-1].rstrip()[-1:].isalnum():
            head, tail = head[:-1], tail[1:]  # `(loss / n).backward()` needs its parentheses no longer
        self.kept[first] = head + new + tail
        self.kept[first + 1 : last + 1] = [None] * (last - first)

    def blame(self, node: ast.stmt | ast.expr) -> Draft:
        self.blame_old = node.lineno - 1
        return self

    def render(self) -> tuple[str, int]:
        """The new text and the 1-based line to blame."""
        if self.refused:
            raise RefusedError(self.refused)
        out: list[str] = []
        line = 0
        for i in range(len(self.lines) + 1):
            if self.blame_new and self.blame_new[0] == i:
                line = len(out) + self.blame_new[1] + 1
            out += self.before.get(i, [])
            if i < len(self.lines) and (kept := self.kept[i]) is not None:
                if self.blame_old == i:
                    line = len(out) + 1
                out.append(kept)
        new = "\n".join(out) + "\n"
        compile(new, "mutant", "exec", ast.PyCF_ONLY_AST)
        if not line:
            raise RefusedError("nothing to blame")
        return new, line


def crosses_definition(scene: Scene, stmt: ast.stmt, first: int, last: int) -> bool:
    """Does another statement on the lines from `first` to `last` define what `stmt` uses, or use what it defines?"""
    reads, writes = _names(stmt)
    for other in scene.body:
        apart = scene.inside(other, stmt) or scene.inside(stmt, other)
        if not apart and first <= other.lineno <= last:
            r, w = _names(other)
            if reads & w or writes & (r | w):
                return True
    return False


def _names(stmt: ast.AST) -> tuple[set[str], set[str]]:
    nodes = [n for n in ast.walk(stmt) if isinstance(n, ast.Name | ast.Attribute)]
    reads = {text(n) for n in nodes if isinstance(n.ctx, ast.Load)}
    return reads, {text(n) for n in nodes if not isinstance(n.ctx, ast.Load)}
