"""Evaluates Python: names, expressions, assignments, and calls of the project's own functions and classes.

What the values mean is a domain's business, and so is nothing else: a domain brings values of its own and twelve
hooks. How statements are run (branches joined, or one of them taken) is told by the function `run`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradlint.python import constants
from gradlint.python import syntax as s
from gradlint.python.calls import Arguments, bind, evaluated
from gradlint.python.classes import Classes, MemberKind
from gradlint.python.contexts import turns_off
from gradlint.python.frame import Frame, Names
from gradlint.python.scope import Scopes
from gradlint.python.values import (
    LONGEST,
    Class,
    Collection,
    Constant,
    Domain,
    Enough,
    External,
    Function,
    Instance,
    Kind,
    Rest,
    Super,
    Value,
)

if TYPE_CHECKING:
    from gradlint.python.module import Module

#: values that change in place
Container = Collection | Instance
#: what containers held before the branches that are running changed them
Journal = dict[int, tuple[Container, Container]]


class Evaluator:
    """Follows the code of one file, with a budget."""

    def __init__(
        self, program: Module, domain: Domain, run: Callable[[Evaluator, list[s.Stmt]], bool], *,
        budget: int, depth: int, words: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        """`words`: another file of the project is followed if it has one of these."""
        self.program = program
        self.classes = program.once(Classes)
        self.domain = domain
        self.module = Frame(program.once(Scopes).module)
        self.frame = self.module
        self.names = Names(self.module, self.evaluated, self._enter, words)
        self.budget = budget
        self.journals: list[Journal] = []
        #: functions that somebody in this file calls, and objects that are made, as far as it was followed
        self.followed: set[int] = set()
        self.made: list[Instance] = []
        self._run = run
        self._depth = depth
        self._inside: list[s.Node] = []
        self._known: dict[object, Value] = {}

    def let_go(self) -> None:
        """Nothing is followed any more: the domain and all that it knows of this, which know each other, are gone."""
        self.names.let_go()
        vars(self).clear()

    def run(self, body: list[s.Stmt]) -> bool:
        """Runs a block; False if its end is not reached."""
        return self._run(self, body)

    # -- names

    def look_up(self, name: str, node: int = -1) -> Value:
        return self.names.look_up(name, self.frame, node) or self.domain.unknown(name)

    def evaluated(self, expr: s.Expr, frame: Frame, name: str = "") -> Value:
        """The value of an expression in another frame."""
        caller, self.frame = self.frame, frame
        try:
            return self.ev(expr)
        finally:
            self.frame = caller

    def _enter(self, frame: Frame) -> None:
        frame.state = self.domain.enter(frame, self.module)

    def dotted(self, expr: s.Expr) -> str:
        """The full name of what an expression means here; "" for a value that has no such name."""
        match expr:
            case s.Name():
                found = self.names.look_up(expr.id, self.frame)
                if found is None:
                    return expr.id
                return found.dotted if isinstance(found, External) else expr.id if isinstance(found, Function) else ""
            case s.Attr():
                base = self.dotted(expr.base)
                return f"{base}.{expr.name}" if base or isinstance(expr.base, s.Name) else ""
            case _:
                return ""

    def classes_of(self, cls: s.Class) -> Classes:
        """Those of the file that defines a class."""
        return self.program.owner(cls.node).once(Classes)

    # -- expressions

    def ev(self, expr: s.Expr) -> Value:
        self.budget -= 1
        if self.budget < 0:
            raise Enough
        return _EVALUATE[type(expr)](self, expr)

    def _attr(self, expr: s.Attr) -> Value:
        return self.attribute(self.ev(expr.base), expr)

    def attribute(self, base: Value, expr: s.Attr) -> Value:
        found = self.domain.attribute(base, expr)
        if found is not None:
            return found
        match base:
            case External():
                return self.names.named(f"{base.dotted}.{expr.name}", self.frame, expr.node)
            case Instance() | Super() | Class():
                found = self.member(base, expr.name)
            case Collection():
                found = base.entries.get(expr.name)
            case _:
                pass
        return found if found is not None else self.domain.unknown(expr.name)

    def _operator(self, expr: s.Bin | s.Unary | s.Compare) -> Value:
        parts = [expr.value] if isinstance(expr, s.Unary) else [expr.left, expr.right]
        return self.operate(expr, [self.ev(part) for part in parts])

    def operate(self, expr: s.Bin | s.Unary | s.Compare, values: list[Value]) -> Value:
        match values:
            case [Constant() as value]:
                return self._folded(expr, values, constants.unary(expr.op, value.value))
            case [Constant() as left, Constant() as right]:
                compute = constants.compare if isinstance(expr, s.Compare) else constants.binary
                return self._folded(expr, values, compute(expr.op, left.value, right.value))
            case [Collection() as one, Collection() as other] if expr.op == "+":
                return Collection([*one.items, *other.items], {}, one.kind)
            case [Collection() as row, Constant(int() as times)] | [Constant(int() as times), Collection() as row]:
                if expr.op == "*" and 0 <= times * len(row.items) <= LONGEST:
                    return Collection(row.items * times, {}, row.kind)
            case _:
                pass
        return self.domain.operate(expr, values)

    def _folded(self, expr: s.Expr, values: list[Value], found: object) -> Value:
        return Constant(found) if found is not constants.NOT_KNOWN else self.domain.operate(expr, values)  # type: ignore[arg-type]

    def _bool(self, expr: s.Bool) -> Value:
        return self.joined([self.ev(item) for item in expr.items])

    def joined(self, values: list[Value]) -> Value:
        """What is known of any one of these."""
        if not values:
            return self.domain.unknown("")
        found = values[0]
        for value in values[1:]:
            found = self.domain.join(found, value)
        return found

    def _if(self, expr: s.IfExp) -> Value:
        holds = self.domain.truth(self.ev(expr.test), expr.test)
        if holds is not None:
            return self.ev(expr.then if holds else expr.other)
        return self.domain.join(self.ev(expr.then), self.ev(expr.other))

    def _item(self, expr: s.Item) -> Value:
        base, index = self.ev(expr.base), self.ev(expr.index)
        if isinstance(base, Collection):
            slices = isinstance(expr.index, s.Other)
            found = base.between([self.ev(x) for x in s.parts(expr.index)]) if slices else base.at(index)
            if found is not None:
                return found
        return self.domain.item(base, index, expr)

    def _sequence(self, expr: s.Sequence) -> Value:
        items: list[Value] = []
        for item in expr.items:
            value = self.ev(item)
            if not isinstance(item, s.Star):
                items.append(value)
            elif isinstance(value, Collection):
                items.extend(value.items)
            else:
                items.append(Rest(value))
        return Collection(items, {}, KINDS[expr.kind])

    def _dict(self, expr: s.Dict) -> Value:
        found = Collection(kind=Kind.DICT)
        for key, item in expr.pairs:
            value = self.ev(item)
            name = key.value if isinstance(key, s.Const) else None
            if key is None and isinstance(value, Collection):
                found.items.extend(value.items)
                found.entries.update(value.entries)
            elif isinstance(name, str):
                found.entries[name] = self.domain.store(s.Name(item.node, name), None, value)
            else:
                found.items.append(value)
        return found

    def _comprehension(self, expr: s.Comprehension) -> Value:
        turns = self.domain.iterate(self.ev(expr.iterable), expr.target)
        whole = turns.whole and not expr.conditions and expr.kind is not s.Display.DICT
        kept, self.frame.names = self.frame.names, dict(self.frame.names)
        found: list[Value] = []
        for value in turns.values if whole else [self.joined(turns.values)]:
            self.assign(expr.target, value)
            for condition in expr.conditions:
                self.ev(condition)
            made = self.ev(expr.element)
            inner = isinstance(expr.element, s.Comprehension) and expr.element.kind is s.Display.INNER
            found.extend(made.items if inner and isinstance(made, Collection) else [made])
        self.frame.names = kept
        return Collection(found if whole or not found else [Rest(self.joined(found))])

    def _walrus(self, expr: s.Walrus) -> Value:
        value = self.ev(expr.value)
        self.assign(expr.target, value)
        return value

    def _other(self, expr: s.Yield | s.Other) -> Value:
        return self.domain.operate(expr, [self.ev(part) for part in s.parts(expr)])

    # -- assignments

    def assign(self, target: s.Expr, value: Value) -> None:
        match target:
            case s.Name():
                self.frame.names[target.id] = self.domain.store(target, None, value)
            case s.Attr():
                base = self.ev(target.base)
                value = self.domain.store(target, base, value)
                if isinstance(base, Instance):
                    self.ready(base)
                    self.change(base)
                    base.attributes[target.name] = value
            case s.Item():
                base = self.ev(target.base)
                value = self.domain.store(target, base, value)
                if isinstance(base, Collection):
                    self.change(base)
                    if not base.put(self.ev(target.index), value):
                        base.items = [Rest(self.joined([*base.parts, value]))]
            case s.Sequence():
                self._unpack(target, value)
            case s.Star():
                self.assign(target.value, self.domain.item(value, None, target.value))
            case _:
                pass

    def _unpack(self, target: s.Sequence, value: Value) -> None:
        items = _items(value) or []
        known = len(items) == len(target.items)
        for place, part in enumerate(target.items):
            self.assign(part, items[place] if known else self.domain.item(value, None, part))

    def change(self, container: Container) -> None:
        """Something is about to be put into a container that others may hold, too."""
        for journal in self.journals:
            if id(container) not in journal:
                journal[id(container)] = (container, container.copy())

    # -- calls

    def _call(self, node: s.Call) -> Value:
        func = node.func
        if isinstance(func, s.Attr):
            base = self.ev(func.base)
            if isinstance(base, External):
                callee = self.names.named(f"{base.dotted}.{func.name}", self.frame, func.node)
                return self.call(callee, node, self.arguments(node))
            if isinstance(base, Instance | Super | Class):
                found = self.member(base, func.name)
                if found is not None:
                    return self.call(found, node, self.arguments(node))
            given = self.arguments(node)
            known = self._of_collection(base, func.name, given) if isinstance(base, Collection) else None
            return known if known is not None else self.domain.method(base, func.name, node, given)
        if isinstance(func, s.Name) and func.id == "super" and self.frame.owner is not None:
            return Super(self.frame.owner, self.frame.scope.cls)
        return self.call(self.ev(func), node, self.arguments(node))

    def arguments(self, node: s.Call) -> Arguments[Value]:
        return evaluated(node, self.ev, _items, _entries)

    def call(self, callee: Value, node: s.Call, given: Arguments[Value]) -> Value:
        match callee:
            case Function():
                return self.follow(callee, node, given)
            case Class():
                return self.make(callee, given)
            case Instance():
                found = self.member(callee, "__call__")
                return self.domain.call(callee, node, given) if found is None else self.call(found, node, given)
            case _:
                return self.domain.call(callee, node, given)

    def extend(self, base: Collection, value: Value) -> None:
        """`base += value`; of what cannot be listed nobody knows how much it is."""
        self.change(base)
        for part in value.items if isinstance(value, Collection) else [Rest(self.element(value))]:
            base.add(part)

    def _of_collection(self, base: Collection, name: str, given: Arguments[Value]) -> Value | None:
        """The methods of lists and dicts; None for any other."""
        match name, given.args:
            case (("append" | "add" | "appendleft"), [value]) | ("insert", [_, value]):
                self.change(base)
                base.add(value)
            case "extend", [value]:
                self.extend(base, value)
            case "update", [Collection() as value]:
                self.change(base)
                base.entries.update(value.entries)
            case "values", []:
                return Collection(base.parts)
            case "items", []:
                names = [*[self.domain.unknown("") for _ in base.items], *map(Constant, base.entries)]
                return Collection([Collection([k, x], {}, Kind.TUPLE) for k, x in zip(names, base.parts, strict=True)])
            case (("get" | "pop"), [Constant(str() as key), *_]) if key in base.entries:
                return base.entries[key]
            case "copy", []:
                return base.copy()
            case _:
                return None
        return Constant(None)

    def element(self, value: Value) -> Value:
        """Any one of what a value holds."""
        return self.joined(self.domain.iterate(value, None).values)

    # -- functions

    def follow(self, function: Function, node: s.Node, given: Arguments[Value]) -> Value:
        """What a function of the file gives back for these arguments."""
        code = function.node
        if self.frame.depth >= self._depth or any(code is x for x in self._inside):
            # how often a function calls itself is not known
            call = node if isinstance(node, s.Call) else s.Call(node.node, s.Name(node.node, ""), [], {})
            return self.domain.call(function, call, given)
        caller, frame = self.frame, function.outer.entered(code)
        frame.names = names = self._bound(function, given)
        frame.owner = function.owner if isinstance(code, s.Def) else function.outer.owner
        frame.depth, frame.no_grad = caller.depth + 1, caller.no_grad
        if isinstance(code, s.Def):
            frame.no_grad = turns_off(code.decorators, self.dotted, outside=frame.no_grad)
        frame.state = self.domain.enter(frame, caller)
        self.followed.add(id(code))
        key = (id(code), function.owner, frame.no_grad, frame.state,
               tuple((name, value.signature()) for name, value in names.items()))  # fmt: skip
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._entered(code, frame, caller)
        return known

    def _entered(self, code: s.Def | s.Lambda, frame: Frame, caller: Frame) -> Value:
        self.frame = frame
        self._inside.append(code)
        try:
            if isinstance(code, s.Lambda):
                return self.ev(code.body)
            self.run(code.body)
            return self.joined(frame.returns) if frame.returns else Constant(None)
        finally:
            self._inside.pop()
            self.frame = caller

    def _bound(self, function: Function, given: Arguments[Value]) -> dict[str, Value]:
        """The parameters with their values."""
        code, params = function.node, function.node.params
        bound = bind(params, given, function.owner)
        names: dict[str, Value] = {}
        for param in params:
            value = bound.values.get(param.name)
            if param.star == "*":
                more = [Rest(self.domain.unknown(param.name))] if given.starred else []
                names[param.name] = Collection([*bound.rest, *more])
            elif param.star:
                names[param.name] = Collection([], bound.keywords, Kind.DICT)
            elif value is not None and value is function.owner:
                names[param.name] = value
            elif isinstance(code, s.Def):
                # among arguments that are not known there may be one for it
                default = param.default if value is None and not given.starred else None
                known = self.evaluated(default, function.outer) if default is not None else None
                names[param.name] = self.domain.parameter(param, value, known, code)
            else:
                names[param.name] = value or self.domain.unknown(param.name)
        return names

    # -- classes

    def make(self, cls: Class, given: Arguments[Value]) -> Value:
        """An object; of a class without functions, a record of what it is given."""
        lineage = self.classes_of(cls.node).lineage(cls.node)
        if not any(isinstance(stmt, s.Def) for one in lineage for stmt in one.body):
            return Collection(list(given.args), dict(given.kwargs), Kind.RECORD)
        made = Instance(cls.node, cls.outer, given)
        self.made.append(made)
        return made

    def member(self, base: Instance | Super | Class, name: str) -> Value | None:
        """What an object or a class has by this name."""
        if isinstance(base, Instance):
            self.ready(base)
            if name in base.attributes:
                return base.attributes[name]
        owner = base.owner if isinstance(base, Super) else base
        cls = owner.node if isinstance(owner, Class) else owner.cls if isinstance(owner, Instance) else None
        found = None
        if cls is not None:
            behind = base.cls if isinstance(base, Super) else None
            found = self.classes_of(cls).member(cls, name, behind=behind)
        if found is None or cls is None:
            return None
        assert isinstance(owner, Instance | Class)
        if found.function is None:
            value = found.stmt.value if isinstance(found.stmt, s.Assign) else None
            return self.evaluated(value, owner.outer) if value is not None else None
        bound: Value | None = owner
        if found.kind is MemberKind.STATIC or (isinstance(base, Class) and found.kind is not MemberKind.OF_CLASS):
            bound = None
        function = Function(found.function, self._outer(found.function, owner.outer), bound)
        if found.kind is MemberKind.PROPERTY and bound is not None:
            return self.follow(function, found.function, Arguments())
        return function

    def _outer(self, method: s.Def, near: Frame) -> Frame:
        """The names that a method sees: those round its class, which may be of another file than the object's."""
        program = self.program.owner(method.node)
        return near if near.scope.program is program else self.names.frame_of(program)

    def ready(self, instance: Instance) -> None:
        """Runs the constructor, when somebody first asks for what it sets."""
        if instance.ready:
            return
        instance.ready = True
        init = self.classes_of(instance.cls).member(instance.cls, "__init__")
        if init is None or init.function is None:
            return
        # it was there before the branch, and outside of the context, in which somebody first asks
        journals, self.journals = self.journals, []
        caller, self.frame = self.frame, self.module.inner()
        self.frame.depth = caller.depth
        self.frame.state = self.domain.enter(self.frame, self.module)
        function = Function(init.function, self._outer(init.function, instance.outer), instance)
        self.follow(function, init.function, instance.given or Arguments())
        self.frame = caller
        self.journals = journals


def _items(value: Value) -> list[Value] | None:
    return value.items if isinstance(value, Collection) and value.whole and not value.entries else None


def _entries(value: Value) -> dict[str, Value] | None:
    return value.entries if isinstance(value, Collection) and not value.items else None


KINDS = {s.Display.LIST: Kind.LIST, s.Display.TUPLE: Kind.TUPLE, s.Display.SET: Kind.LIST}

# by type, not by match: this runs for every expression
_EVALUATE: dict[type[s.Node], Callable[[Evaluator, Any], Value]] = {
    s.Name: lambda self, expr: self.look_up(expr.id, expr.node),
    s.Attr: Evaluator._attr,
    s.Call: Evaluator._call,
    s.Const: lambda self, expr: Constant(expr.value),
    s.Bin: Evaluator._operator,
    s.Unary: Evaluator._operator,
    s.Compare: Evaluator._operator,
    s.Bool: Evaluator._bool,
    s.IfExp: Evaluator._if,
    s.Item: Evaluator._item,
    s.Sequence: Evaluator._sequence,
    s.Dict: Evaluator._dict,
    s.Lambda: lambda self, expr: Function(expr, self.names.seen(self.frame)),
    s.Comprehension: Evaluator._comprehension,
    s.Star: lambda self, expr: self.ev(expr.value),
    s.Walrus: Evaluator._walrus,
    s.Yield: Evaluator._other,
    s.Other: Evaluator._other,
}
