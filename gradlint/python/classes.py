"""The classes of a file: their bases, and what their objects have by them."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.python import syntax as s
from gradlint.python.binding import bound_by, own_statements, target_names
from gradlint.records import dataclass

if TYPE_CHECKING:
    from gradlint.python.module import Program

#: what the names of a scope are: a class of the file, or something else
Names = dict[str, s.Class | None]


class MemberKind(enum.Enum):
    """How an object has it."""

    METHOD = "method"
    STATIC = "static method"
    OF_CLASS = "class method"
    #: it is called when it is asked for
    PROPERTY = "property"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Member:
    """What a class body says of a name."""

    #: the class that says it: this one, or a base
    owner: s.Class
    stmt: s.Def | s.Assign
    kind: MemberKind

    @property
    def function(self) -> s.Def | None:
        return self.stmt if isinstance(self.stmt, s.Def) else None


class Classes:
    """Asks `program.once(Classes)`; names of bases are looked up where the class stands."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._scopes: dict[int, tuple[Names, ...]] = {}
        self._members: dict[int, dict[str, Member]] = {}
        self._lineages: dict[int, tuple[s.Class, ...]] = {}
        self._place(program.body, (_names(program.body),))

    def bases(self, cls: s.Class) -> list[s.Class]:
        """Those of its bases that the file defines."""
        scopes = self._scopes.get(id(cls), ())
        found = (self._named(base, scopes) for base in cls.bases)
        return [base for base in found if base is not None and base is not cls]

    def lineage(self, cls: s.Class) -> tuple[s.Class, ...]:
        """The class, its bases and theirs: a base comes with all of its own before the next one."""
        known = self._lineages.get(id(cls))
        if known is None:
            known = self._lineages[id(cls)] = tuple(self._walk(cls))
        return known

    def foreign(self, cls: s.Class) -> set[str]:
        """The full names of all bases that the file does not define, those of its bases included."""
        return {
            dotted
            for one in self.lineage(cls)
            for base in one.bases
            if self._named(base, self._scopes.get(id(one), ())) is None and (dotted := self._program.dotted(base))
        }

    def member(self, cls: s.Class, name: str, *, behind: s.Class | None = None) -> Member | None:
        """What an object of a class has by this name; `behind` a class of its lineage: what `super()` finds there."""
        line = self.lineage(cls)
        if behind is not None:
            line = line[next((n for n, one in enumerate(line) if one is behind), len(line)) + 1 :]
        return next((found for one in line if (found := self._own(one).get(name)) is not None), None)

    def method(self, cls: s.Class, name: str) -> s.Def | None:
        found = self.member(cls, name)
        return found.function if found is not None else None

    def _walk(self, cls: s.Class) -> Iterator[s.Class]:
        waiting, seen = [cls], set[int]()
        while waiting:
            current = waiting.pop()
            if id(current) not in seen:
                seen.add(id(current))
                yield current
                waiting.extend(reversed(self.bases(current)))

    def _own(self, cls: s.Class) -> dict[str, Member]:
        """The last definition or assignment of each name in a class body; of a property, what gives its value."""
        members = self._members.get(id(cls))
        if members is None:
            members = self._members[id(cls)] = {}
            for stmt in cls.body:
                if isinstance(stmt, s.Def):
                    kind = self.kind(stmt)
                    if kind is not None:
                        members[stmt.name] = Member(cls, stmt, kind)
                elif isinstance(stmt, s.Assign):
                    for target in stmt.targets:
                        if isinstance(target, s.Name):
                            members[target.id] = Member(cls, stmt, MemberKind.VALUE)
        return members

    def kind(self, function: s.Def) -> MemberKind | None:
        """How objects have a function of a class body, by its decorators; None for what only sets a property."""
        for decorator in function.decorators:
            match decorator:
                case s.Attr(name="setter" | "deleter"):
                    return None
                case s.Attr(name="getter"):
                    return MemberKind.PROPERTY
                case s.Name() | s.Attr():
                    found = _KINDS.get(self._program.dotted(decorator).rpartition(".")[2])
                    if found is not None:
                        return found
                case _:
                    continue
        return MemberKind.METHOD

    # -- where classes stand

    def _named(self, expr: s.Expr, scopes: tuple[Names, ...]) -> s.Class | None:
        """The class that a name means in these scopes; a name of anything else hides those further out."""
        match expr:
            case s.Name():
                return next((names[expr.id] for names in reversed(scopes) if expr.id in names), None)
            case s.Attr():
                outer = self._named(expr.base, scopes)
                inner = (x for x in outer.body if isinstance(x, s.Class)) if outer is not None else ()
                return next((x for x in inner if x.name == expr.name), None)
            case s.Item():
                return self._named(expr.base, scopes)  # `Base[T]`
            case _:
                return None

    def _place(self, body: list[s.Stmt], scopes: tuple[Names, ...]) -> None:
        for stmt in own_statements(body):
            if isinstance(stmt, s.Class):
                self._scopes[id(stmt)] = scopes
                # what a class body defines is seen by what stands there, not by its methods
                inner: Names = {x.name: x for x in stmt.body if isinstance(x, s.Class)}
                for part in stmt.body:
                    self._place([part], scopes if isinstance(part, s.Def) else (*scopes, inner))
            elif isinstance(stmt, s.Def):
                self._place(stmt.body, (*scopes, _names(stmt.body, stmt.params)))


def _names(body: list[s.Stmt], params: list[s.Param] | None = None) -> Names:
    found: Names = {param.name: None for param in params or ()}
    for stmt in own_statements(body):
        if isinstance(stmt, s.Class):
            found[stmt.name] = found.get(stmt.name) or stmt
        elif isinstance(stmt, s.Import):
            for local in stmt.bindings:
                found.setdefault(local, None)
        else:
            for bound in bound_by(stmt):
                for name in target_names(bound.target):
                    found.setdefault(name, None)
    return found


_KINDS = {
    "property": MemberKind.PROPERTY, "cached_property": MemberKind.PROPERTY, "lazy_property": MemberKind.PROPERTY,
    "abstractproperty": MemberKind.PROPERTY, "staticmethod": MemberKind.STATIC, "classmethod": MemberKind.OF_CLASS,
}  # fmt: skip
