"""Objects of the project's classes: how they are made, and what they have by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.python import syntax as s
from gradlint.python.calls import Arguments
from gradlint.python.classes import Classes, Member, MemberKind
from gradlint.python.values import Class, Collection, Function, Instance, Kind, Super, Value

if TYPE_CHECKING:
    from gradlint.python.evaluate import Evaluator


class Objects:
    """Those that one evaluator comes by."""

    def __init__(self, core: Evaluator) -> None:
        self._core = core
        #: those that were made, as far as code was followed
        self.made: list[Instance] = []
        #: the bases of classes; while a class is kept, its id is its own
        self._lines: dict[int, tuple[Class, list[Class]]] = {}

    def make(self, cls: Class, given: Arguments[Value]) -> Value:
        """An object; of a class without functions, a record of what it is given."""
        if not any(isinstance(stmt, s.Def) for one in self.lineage(cls) for stmt in one.node.body):
            return Collection(list(given.args), dict(given.kwargs), Kind.RECORD)
        made = Instance(cls, given)
        self.made.append(made)
        return made

    def ready(self, instance: Instance) -> None:
        """Runs the constructor, when somebody first asks for what it sets."""
        if instance.ready:
            return
        instance.ready = True
        function = self.function(instance.cls, "__init__")
        if function is None:
            return
        core = self._core
        # it was there before the branch, and outside of the context, in which somebody first asks
        journals, core.journals = core.journals, []
        caller, core.frame = core.frame, core.module.inner()
        core.frame.state = core.domain.enter(core.frame, core.module)
        function.owner = instance
        core.flow.follow(core, function, function.node, instance.given or Arguments())
        core.frame, core.journals = caller, journals

    def member(self, base: Instance | Super | Class, name: str) -> Value | None:
        """What an object or a class has by this name."""
        if isinstance(base, Instance):
            if not base.ready:
                self.ready(base)
            if name in base.attributes:
                return base.attributes[name]
        owner = base.owner if isinstance(base, Super) else base
        cls = owner.cls if isinstance(owner, Instance) else owner if isinstance(owner, Class) else None
        found = self._find(cls, name, base.cls if isinstance(base, Super) else None) if cls is not None else None
        if found is None:
            return None
        place, member = found
        if isinstance(member.stmt, s.Assign):
            value = self._core.evaluated(member.stmt.value, place.outer)
            return self._core.domain.store(member.stmt, place, value)
        bound: Value | None = owner
        if member.kind is MemberKind.STATIC or (isinstance(base, Class) and member.kind is not MemberKind.OF_CLASS):
            bound = None
        function = Function(member.stmt, place.outer, bound, f"{owner.key}.{name}")
        if member.kind is MemberKind.PROPERTY and bound is not None:
            return self._core.flow.follow(self._core, function, member.stmt, Arguments())
        return function

    def function(self, cls: Class, name: str) -> Function | None:
        """The function that objects of a class have by this name."""
        found = self._find(cls, name, None)
        if found is None or not isinstance(found[1].stmt, s.Def):
            return None
        return Function(found[1].stmt, found[0].outer, None, f"{cls.key}.{name}")

    def has(self, cls: Class, name: str) -> bool:
        return self._find(cls, name, None) is not None

    def lineage(self, cls: Class) -> list[Class]:
        """The class, its bases and theirs, each in the frame that it was defined in."""
        found = self._lines.get(id(cls))
        if found is None:
            bases = cls.outer.program.owner(cls.node.node).once(Classes).lineage(cls.node)[1:]
            line = [cls, *(self._core.names.class_of(base, cls.outer) for base in bases)]
            found = self._lines[id(cls)] = cls, line
        return found[1]

    def _find(self, cls: Class, name: str, behind: s.Class | None) -> tuple[Class, Member] | None:
        """Who has it, and what it is; `behind` one of the classes: what `super()` finds there."""
        line = self.lineage(cls)
        if behind is not None:
            line = line[next((n for n, one in enumerate(line) if one.node.node == behind.node), len(line)) + 1 :]
        for one in line:
            member = _own(one, name)
            if member is not None:
                return one, member
        return None


def _own(cls: Class, name: str) -> Member | None:
    program = cls.outer.program
    classes = program.once(Classes)
    member = classes.own(cls.node, name)
    whole = program.classes.get(cls.node.name) if member is None and program.path else None
    if whole is not None and whole.node == cls.node.node and whole is not cls.node:
        return classes.own(whole, name)  # what cannot matter there may matter here: a constant
    return member
