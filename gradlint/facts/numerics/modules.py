"""Classes of the file: what their objects hold, and what calling them gives."""

from __future__ import annotations

from gradlint.facts.numerics.calls import Arguments, Calls
from gradlint.facts.numerics.facts import DATA, UNKNOWN, Fact, Items, Object, Routine, Value, combine
from gradlint.python import syntax as s
from gradlint.python.lineage import lineage


class Modules(Calls):
    """Objects, their attributes and their methods."""

    def make(self, cls: s.Class, given: Arguments) -> Value:
        if not any(isinstance(stmt, s.Def) for one in lineage(cls, self.program) for stmt in one.body):
            return Items(list(given.args), dict(given.kwargs))  # a record: a dataclass, a NamedTuple
        made = Object(cls)
        init = self.method(cls, "__init__")
        if init is not None:
            names = [p.name for p in init.params[1:]]
            made.made_with = dict(zip(names, given.args, strict=False)) | given.kwargs
        return made

    def method(self, cls: s.Class, name: str) -> s.Def | None:
        for one in lineage(cls, self.program):
            found = self.program.member(one, name)
            if isinstance(found, s.Def):
                return found
        return None

    def attribute_of(self, owner: Object, name: str) -> Value | None:
        if owner.cls is None:
            return None
        if not owner.ready:
            owner.ready = True
            self._prepare(owner)
        if name in owner.attributes:
            return owner.attributes[name]
        method = self.method(owner.cls, name)
        if method is not None:
            if any(s.render(d) == "property" for d in method.decorators):
                return self.follow(Routine(method, owner), Arguments())
            return Routine(method, owner)
        for one in lineage(owner.cls, self.program):
            found = self.program.member(one, name)
            if isinstance(found, s.Assign):
                return DATA if isinstance(found.value, s.Const) else UNKNOWN
        return None

    def _prepare(self, owner: Object) -> None:
        """Runs the constructors, the bases' first."""
        assert owner.cls is not None
        # what a constructor makes was there before the branch in which somebody first asks for it
        journals, self.journals = self.journals, []
        inits = [self.program.member(one, "__init__") for one in lineage(owner.cls, self.program)]
        for init in reversed([i for i in inits if isinstance(i, s.Def)]):
            own = {p.name: owner.made_with[p.name] for p in init.params if p.name in owner.made_with}
            self.follow(Routine(init, owner), Arguments([], own, [], {}))
        self.journals = journals

    def forward(self, owner: Object, given: Arguments) -> Value:
        if owner.cls is None:
            return combine(given.facts).but(grad=True, raw=True)
        method = self.method(owner.cls, "forward") or self.method(owner.cls, "__call__")
        if method is None:
            return combine(given.facts).but(grad=True, raw=True)
        result = self.follow(Routine(method, owner), given)
        return result if not isinstance(result, Fact) or result.grad is not None else result.but(grad=True)
