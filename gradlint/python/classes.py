"""The classes of a file: their bases, here and in other files, and what their objects have by them."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.python import syntax as s
from gradlint.python.scope import Binding, Scope, Scopes
from gradlint.records import dataclass

if TYPE_CHECKING:
    from gradlint.python.module import Module


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

    def __init__(self, program: Module) -> None:
        self._program = program
        self._scopes = program.once(Scopes)
        #: with the class: while it is kept, its id is its own
        self._members: dict[int, tuple[s.Class, dict[str, Member]]] = {}
        self._lineages: dict[int, tuple[s.Class, ...]] = {}

    def bases(self, cls: s.Class) -> list[s.Class]:
        """Those of its bases that the project defines."""
        here = self._of(cls)
        found = (here.named(base, here._scopes.of(cls.node)) or here._elsewhere(base) for base in cls.bases)
        return [base for base in found if base is not None and base is not cls]

    def _of(self, cls: s.Class) -> Classes:
        """Those of the file that a class is of."""
        program = self._program.owner(cls.node)
        return self if program is self._program else program.once(Classes)

    def _elsewhere(self, base: s.Expr) -> s.Class | None:
        """The class of another file that a name means."""
        found = self._program.elsewhere(self._program.dotted(base)) if self._program.project is not None else None
        return found.node if found is not None and isinstance(found.node, s.Class) else None

    def lineage(self, cls: s.Class) -> tuple[s.Class, ...]:
        """The class, its bases and theirs: a base comes with all of its own before the next one."""
        known = self._lineages.get(id(cls))
        if known is None:
            known = self._lineages[id(cls)] = tuple(self._walk(cls))
        return known

    def foreign(self, cls: s.Class) -> set[str]:
        """The full names of all bases that a file does not define itself, those of its bases included."""
        lines = ((one, self._of(one)) for one in self.lineage(cls))
        return {
            dotted
            for one, here in lines
            for base in one.bases
            if here.named(base, here._scopes.of(one.node)) is None and (dotted := here._program.dotted(base))
        }

    def member(self, cls: s.Class, name: str, *, behind: s.Class | None = None) -> Member | None:
        """What an object of a class has by this name; `behind` a class of its lineage: what `super()` finds there."""
        line = self.lineage(cls)
        if behind is not None:
            line = line[next((n for n, one in enumerate(line) if one is behind), len(line)) + 1 :]
        return next((found for one in line if (found := self.own(one, name)) is not None), None)

    def named(self, expr: s.Expr, scope: Scope) -> s.Class | None:
        """The class that a name means in a scope; a name of anything else hides those further out."""
        match expr:
            case s.Name():
                owner = scope.owner(expr.id)
                found = owner.defined.get(expr.id, ()) if owner is not None else ()
                return next((x for x in found if isinstance(x, s.Class)), None)
            case s.Attr():
                outer = self.named(expr.base, scope)
                inner = (x for x in outer.body if isinstance(x, s.Class)) if outer is not None else ()
                return next((x for x in inner if x.name == expr.name), None)
            case s.Item():
                return self.named(expr.base, scope)  # `Base[T]`
            case _:
                return None

    def method(self, cls: s.Class, name: str) -> s.Def | None:
        found = self.member(cls, name)
        return found.function if found is not None else None

    def attribute(self, cls: s.Class, name: str) -> list[tuple[Binding, Scope]]:
        """What `self.name` is in a class, or in the nearest base that has it."""
        return next((found for found in self._attributes(cls, name) if found), [])

    def is_filled(self, cls: s.Class, name: str) -> bool:
        """Whether another method than the constructor gives `self.name` a value."""
        every = (one for found in self._attributes(cls, name) for one in found)
        methods = (
            binding.value for binding, scope in every if scope.definition and scope.definition.name != "__init__"
        )
        return any(not isinstance(value, s.Const) or value.value is not None for value in methods)

    def _attributes(self, cls: s.Class, name: str) -> Iterator[list[tuple[Binding, Scope]]]:
        for one in self.lineage(cls):
            yield self._of(one)._scopes.attributes.get(one.node, {}).get(name, [])

    def own_method(self, cls: s.Class, name: str) -> s.Def | None:
        found = self.own(cls, name)
        return found.function if found is not None else None

    def _walk(self, cls: s.Class) -> Iterator[s.Class]:
        waiting, seen = [cls], set[int]()
        while waiting:
            current = waiting.pop()
            if id(current) not in seen:
                seen.add(id(current))
                yield current
                waiting.extend(reversed(self.bases(current)))

    def own(self, cls: s.Class, name: str) -> Member | None:
        """The last definition or assignment of a name in a class body; of a property, what gives its value."""
        here = self._of(cls)
        if here is not self:
            return here.own(cls, name)
        if id(cls) not in self._members:
            members: dict[str, Member] = {}
            self._members[id(cls)] = cls, members
            for stmt in cls.body:
                if isinstance(stmt, s.Def):
                    kind = self.kind(stmt)
                    if kind is not None:
                        members[stmt.name] = Member(cls, stmt, kind)
                elif isinstance(stmt, s.Assign):
                    for target in stmt.targets:
                        if isinstance(target, s.Name):
                            members[target.id] = Member(cls, stmt, MemberKind.VALUE)
        return self._members[id(cls)][1].get(name)

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


_KINDS = {
    "property": MemberKind.PROPERTY, "cached_property": MemberKind.PROPERTY, "lazy_property": MemberKind.PROPERTY,
    "abstractproperty": MemberKind.PROPERTY, "staticmethod": MemberKind.STATIC, "classmethod": MemberKind.OF_CLASS,
}  # fmt: skip
