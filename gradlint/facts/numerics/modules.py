"""Classes of the file: what their objects hold, and what calling them gives."""

from __future__ import annotations

from gradlint.facts.numerics.calls import Calls, facts_of
from gradlint.facts.numerics.facts import DATA, UNKNOWN, Fact, Items, Object, Routine, Value, combine
from gradlint.python import syntax as s
from gradlint.python.calls import Arguments, bind
from gradlint.python.classes import MemberKind


class Modules(Calls):
    """Objects, their attributes and their methods."""

    def make(self, cls: s.Class, given: Arguments[Value]) -> Value:
        if not any(isinstance(stmt, s.Def) for one in self.classes.lineage(cls) for stmt in one.body):
            return Items(list(given.args), dict(given.kwargs))  # a record: a dataclass, a NamedTuple
        made = Object(cls)
        init = self.classes.method(cls, "__init__")
        if init is not None:
            made.made_with = bind(init.params[1:], given).values
        return made

    def attribute_of(self, owner: Object, name: str) -> Value | None:
        if owner.cls is None:
            return None
        if not owner.ready:
            owner.ready = True
            self._prepare(owner)
        if name in owner.attributes:
            return owner.attributes[name]
        member = self.classes.member(owner.cls, name)
        if member is None:
            return None
        if member.function is None:
            return DATA if isinstance(member.stmt, s.Assign) and isinstance(member.stmt.value, s.Const) else UNKNOWN
        routine = Routine(member.function, owner if member.kind is not MemberKind.STATIC else None)
        return self.follow(routine, Arguments()) if member.kind is MemberKind.PROPERTY else routine

    def _prepare(self, owner: Object) -> None:
        """Runs the constructors, the bases' first."""
        assert owner.cls is not None
        # what a constructor makes was there before the branch in which somebody first asks for it
        journals, self.journals = self.journals, []
        line = reversed(self.classes.lineage(owner.cls))
        for init in [stmt for one in line for stmt in one.body if isinstance(stmt, s.Def) and stmt.name == "__init__"]:
            own = {p.name: owner.made_with[p.name] for p in init.params if p.name in owner.made_with}
            self.follow(Routine(init, owner), Arguments([], own))
        self.journals = journals

    def forward(self, owner: Object, given: Arguments[Value]) -> Value:
        if owner.cls is None:
            return combine(facts_of(given)).but(grad=True, raw=True)
        method = self.classes.method(owner.cls, "forward") or self.classes.method(owner.cls, "__call__")
        if method is None:
            return combine(facts_of(given)).but(grad=True, raw=True)
        result = self.follow(Routine(method, owner), given)
        return result if not isinstance(result, Fact) or result.grad is not None else result.but(grad=True)
