"""Evaluates Python: names, expressions, assignments, and calls of the project's own functions and classes.

What the values mean is a domain's business, and so is nothing else: a domain brings values of its own and twelve
hooks. How code is run (branches joined, or one of them taken) is a flow's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradlint.python import constants
from gradlint.python import syntax as s
from gradlint.python.calls import Arguments, bind, evaluated
from gradlint.python.classes import Classes
from gradlint.python.contexts import turns_off
from gradlint.python.frame import Frame, Names
from gradlint.python.objects import Objects
from gradlint.python.scope import Scopes
from gradlint.python.values import (
    LONGEST,
    Bound,
    Class,
    Collection,
    Constant,
    Domain,
    Enough,
    External,
    Flow,
    Function,
    Instance,
    Kind,
    Partial,
    Rest,
    Super,
    Value,
    by_key,
    pair,
)

if TYPE_CHECKING:
    from gradlint.python.module import Module

#: values that change in place
Container = Collection | Instance
#: values whose members a class body says; a tuple, as `A | B` would be made anew for each call
_HAVE_MEMBERS = (Instance, Super, Class)
#: what containers held before the branches that are running changed them
Journal = dict[int, tuple[Container, Container]]


class Evaluator:
    """Follows the code of one file, with a budget: the calls, statements and turns that it may come by."""

    def __init__(
        self, program: Module, domain: Domain, flow: Flow, *, budget: int, depth: int,
        words: frozenset[str] | None = None,
    ) -> None:  # fmt: skip
        """`words`: another file of the project is followed if it has one of these."""
        self.program = program
        self.classes = program.once(Classes)
        self.domain = domain
        self.flow = flow
        self.objects = Objects(self)
        self.module = Frame(program.once(Scopes).module)
        self.frame = self.module
        self.names = Names(self.module, self._elsewhere, self._open, words)
        self.budget = budget
        self.journals: list[Journal] = []
        #: functions that somebody in this file calls, as far as it was followed
        self.followed: set[int] = set()
        #: those that are running, and who called them
        self.inside: list[tuple[s.Node, Frame]] = []
        self._depth = depth

    def let_go(self) -> None:
        """Nothing is followed any more: the domain and all that it knows of this, which know each other, are gone."""
        self.names.let_go()
        vars(self).clear()

    def spend(self) -> None:
        self.budget -= 1
        if self.budget < 0:
            raise Enough

    # -- names

    def _name(self, expr: s.Name) -> Value:
        found = self.frame.names.get(expr.id) or self.frame.find(expr.id)
        if found is None or type(found) is External:
            found = self.names.look_up(expr.id, self.frame, expr.node)
        return found if found is not None else self.domain.unknown(expr.id)

    def evaluated(self, expr: s.Expr, frame: Frame) -> Value:
        """The value of an expression in another frame."""
        caller, self.frame = self.frame, frame
        try:
            return self.ev(expr)
        finally:
            self.frame = caller

    def _open(self, frame: Frame) -> None:
        """Another file of the project is come by."""
        frame.state = self.domain.enter(frame, self.module)

    def _elsewhere(self, expr: s.Expr, frame: Frame, name: str) -> Value:
        return self.flow.elsewhere(self, expr, frame, name)

    def declare(self, stmt: s.Def | s.Class | s.Import | s.Scope) -> None:
        """What a statement says of names."""
        match stmt:
            case s.Def():
                self.frame.bind(stmt.name, Function(stmt, self.names.seen(self.frame), key=stmt.name))
            case s.Class():
                self.frame.bind(stmt.name, Class(stmt, self.names.seen(self.frame)))
            case s.Import():
                for local, dotted in stmt.bindings.items():
                    self.frame.bind(local, External(dotted))
            case s.Scope():
                self.frame.shared.update(stmt.names)

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
                found = self.objects.member(base, expr.name)
            case Collection():
                found = base.entries.get(expr.name)
            case _:
                pass
        return found if found is not None else self.domain.unknown(expr.name)

    def _binary(self, expr: s.Bin | s.Compare) -> Value:
        return self.domain.operate(expr, [self.ev(expr.left), self.ev(expr.right)])

    def _several(self, expr: s.Unary | s.Bool | s.Yield | s.Other) -> Value:
        return self.domain.operate(expr, [self.ev(part) for part in s.parts(expr)])

    def folded(self, expr: s.Expr, values: list[Value]) -> Value | None:
        """What Python itself makes of constants and collections; None if it is not known."""
        match expr, values:
            case s.Unary(op=op), [Constant() as value]:
                return _constant(constants.unary(op, value.value))
            case ((s.Bin(op=op) | s.Compare(op=op)), [Constant() as left, Constant() as right]):
                compute = constants.compare if isinstance(expr, s.Compare) else constants.binary
                return _constant(compute(op, left.value, right.value))
            case s.Bin(op="+"), [Collection() as one, Collection() as other]:
                return Collection([*one.items, *other.items], {}, one.kind)
            case (
                s.Bin(op="*"),
                [Collection() as row, Constant(int() as times)] | [Constant(int() as times), Collection() as row],
            ) if 0 <= times * len(row.items) <= LONGEST:
                return Collection(row.items * times, {}, row.kind)
            case s.Bool(), _:
                return self.joined(values)
            case ((s.Comprehension() | s.IfExp()), [*_, made]):
                return made
            case _:
                return None

    def joined(self, values: list[Value]) -> Value:
        """What is known of any one of these."""
        if not values:
            return self.domain.unknown("")
        found = values[0]
        for value in values[1:]:
            found = self.domain.join(found, value)
        return found

    def _if(self, expr: s.IfExp) -> Value:
        test = self.ev(expr.test)
        holds = self.domain.truth(test, expr)
        if holds is not None:
            found = self.ev(expr.then if holds else expr.other)
        else:
            found = self.domain.join(self.ev(expr.then), self.ev(expr.other))
        return self.domain.operate(expr, [test, found])

    def _item(self, expr: s.Item) -> Value:
        base = self.ev(expr.base)
        found: Value | None
        if isinstance(expr.index, s.Other):
            bounds = [self.ev(part) for part in s.parts(expr.index)]
            index = self.domain.operate(expr.index, bounds)
            found = base.between(bounds) if isinstance(base, Collection) else None
        else:
            index = self.ev(expr.index)
            found = base.at(index) if isinstance(base, Collection) else None
        return found if found is not None else self.domain.item(base, index, expr)

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
        return Collection(items, {}, _KINDS[expr.kind], expr)

    def _dict(self, expr: s.Dict) -> Value:
        found = Collection(kind=Kind.DICT, expr=expr)
        for key, item in expr.pairs:
            value = self.ev(item)
            if key is not None:
                found.put(self.ev(key), self.domain.store(s.Item(item.node, expr, key), None, value))
            elif isinstance(value, Collection):
                found.items.extend(value.items)
                found.entries.update(value.entries)
            else:
                found.items.append(value)
        return found

    def _comprehension(self, expr: s.Comprehension) -> Value:
        turns = self.domain.iterate(self.ev(expr.iterable), expr.target)
        kept, self.frame.names = self.frame.names, dict(self.frame.names)
        found: list[Value] = []
        whole = turns.whole
        for value in turns.values if whole else [self.joined(turns.values)]:
            self.spend()
            self.assign(expr.target, value)
            let_in = [self.domain.truth(self.ev(condition), expr) for condition in expr.conditions]
            if False in let_in:
                continue
            whole = whole and None not in let_in
            made = self.ev(expr.element)
            inner = isinstance(expr.element, s.Comprehension) and expr.element.kind is s.Display.INNER
            found.extend(made.items if inner and isinstance(made, Collection) else [made])
        self.frame.names = kept
        if not whole and found:
            found = [Rest(self.joined(found))]
        made_of = by_key(found) if expr.kind is s.Display.DICT else Collection(found)
        return self.domain.operate(expr, [Collection(made_of.items, made_of.entries, _KINDS[expr.kind], expr)])

    def _walrus(self, expr: s.Walrus) -> Value:
        self.assign(expr.target, self.ev(expr.value))
        return self.ev(expr.target)

    # -- assignments

    def assign(self, target: s.Expr, value: Value, source: s.Expr | None = None) -> None:
        """`source` is the right-hand side, where the whole of it goes to this target."""
        match target:
            case s.Name():
                self.frame.bind(target.id, self.domain.store(target, None, value, source))
            case s.Attr():
                base = self.ev(target.base)
                value = self.domain.store(target, base, value, source)
                if isinstance(base, Instance):
                    self.set(base, target.name, value)
            case s.Item():
                base = self.ev(target.base)
                value = self.domain.store(target, base, value, source)
                if isinstance(base, Collection):
                    self.change(base)
                    if not base.put(self.ev(target.index), value):
                        base.items = [Rest(self.joined([*base.each, value]))]
            case s.Sequence():
                self._unpack(target, value)
            case _:
                pass

    def set(self, instance: Instance, name: str, value: Value) -> None:
        """An attribute of an object."""
        self.objects.ready(instance)
        self.change(instance)
        instance.attributes[name] = value

    def _unpack(self, target: s.Sequence, value: Value) -> None:
        items, parts = _items(value) or [], target.items
        star = next((place for place, part in enumerate(parts) if isinstance(part, s.Star)), None)
        if star is not None and len(items) >= len(parts) - 1:
            behind = len(items) - (len(parts) - star - 1)
            items = [*items[:star], Collection(items[star:behind]), *items[behind:]]
        known = len(items) == len(parts)
        for place, part in enumerate(parts):
            inner = part.value if isinstance(part, s.Star) else part
            self.assign(inner, items[place] if known else self.domain.item(value, None, inner))

    def change(self, container: Container) -> None:
        """Something is about to be put into a container that others may hold, too."""
        for journal in self.journals:
            if id(container) not in journal:
                journal[id(container)] = (container, container.copy())

    # -- calls

    def _call(self, node: s.Call) -> Value:
        self.spend()
        func = node.func
        if isinstance(func, s.Attr):
            base = self.ev(func.base)
            if isinstance(base, External):
                callee = self.names.named(f"{base.dotted}.{func.name}", self.frame, func.node)
                return self.call(callee, node, self.arguments(node))
            if isinstance(base, _HAVE_MEMBERS):
                found = self.objects.member(base, func.name)
                if found is not None:
                    return self.call(found, node, self.arguments(node))
            return self._method(base, func.name, node, self.arguments(node))
        if isinstance(func, s.Name) and func.id == "super" and self.frame.owner is not None:
            return Super(self.frame.owner, self.frame.scope.cls)
        return self.call(self.ev(func), node, self.arguments(node))

    def arguments(self, node: s.Call) -> Arguments[Value]:
        return evaluated(node, self.ev, _items, _entries)

    def call(self, callee: Value, node: s.Call, given: Arguments[Value]) -> Value:
        match callee:
            case Function():
                return self.flow.follow(self, callee, node, given)
            case External():
                if callee.dotted == "functools.partial" and given.args:
                    return Partial(given.args[0], given.without_first(), node)
                return self.domain.call(callee, node, given)
            case Instance():
                found = self.objects.member(callee, "__call__")
                return self.domain.call(callee, node, given) if found is None else self.call(found, node, given)
            case Partial():
                return self.call(callee.func, node, callee.given.before(given))
            case Bound():
                return self._method(callee.base, callee.name, node, given)
            case _:
                return self.domain.call(callee, node, given)

    def _method(self, base: Value, name: str, node: s.Call, given: Arguments[Value]) -> Value:
        """A method that no code of the project defines."""
        known = self._of_collection(base, name, node, given) if isinstance(base, Collection) else None
        return known if known is not None else self.domain.method(base, name, node, given)

    def extend(self, base: Collection, value: Value) -> None:
        """`base += value`; of what cannot be listed nobody knows how much it is."""
        self.change(base)
        for part in value.items if isinstance(value, Collection) else [Rest(self.element(value))]:
            base.add(part)

    def _of_collection(self, base: Collection, name: str, node: s.Call, given: Arguments[Value]) -> Value | None:
        """The methods of lists and dicts; None for any other."""
        match name, given.args:
            case (("append" | "add" | "appendleft"), [value]) | ("insert", [_, value]):
                self.change(base)
                base.add(self.domain.store(node, base, value))
            case "extend", [value]:
                self.extend(base, self.domain.store(node, base, value))
            case "update", [] | [Collection()]:
                self.change(base)
                for entries in [*(x.entries for x in given.args if isinstance(x, Collection)), given.kwargs]:
                    base.entries.update({key: self.domain.store(node, base, value) for key, value in entries.items()})
            case "values", []:
                return Collection(base.parts, expr=base.expr)
            case "keys", []:
                keys = [*[self.domain.unknown("") for _ in base.items], *map(Constant, base.entries)]
                return Collection(keys, expr=base.expr)
            case "items", []:
                named = [pair(Constant(key), value) for key, value in base.entries.items()]
                return Collection([*(pair(self.domain.unknown(""), x) for x in base.items), *named], expr=base.expr)
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

    def enter(self, function: Function, node: s.Node, given: Arguments[Value]) -> Value:
        """Goes into a function of the project; how often one calls itself is not known."""
        code = function.node
        if len(self.inside) >= self._depth or any(code is x for x, _ in self.inside):
            call = node if isinstance(node, s.Call) else s.Call(node.node, s.Name(node.node, ""), [], {})
            return self.domain.call(function, call, given)
        caller, frame = self.frame, function.outer.entered(code)
        frame.owner = function.owner if isinstance(code, s.Def) else function.outer.owner
        frame.no_grad = caller.no_grad
        if isinstance(code, s.Def):
            frame.no_grad = turns_off(code.decorators, self.dotted, outside=frame.no_grad)
        frame.names = self.bound(function, given, frame)
        frame.state = self.domain.enter(frame, caller)
        self.followed.add(id(code))
        self.frame = frame
        self.inside.append((code, caller))
        try:
            return self.ev(code.body) if isinstance(code, s.Lambda) else self.flow.returned(self, function, node)
        finally:
            self.inside.pop()
            self.frame = caller

    def bound(self, function: Function, given: Arguments[Value], frame: Frame) -> dict[str, Value]:
        """The parameters of a call with their values."""
        code, params = function.node, function.node.params
        bound = bind(params, given, function.owner)
        names: dict[str, Value] = {}
        for param in params:
            value = bound.values.get(param.name)
            if param.star:
                more = [Rest(self.domain.unknown(param.name))] if given.starred else []
                several = param.star == "*"
                names[param.name] = Collection(
                    [*bound.rest, *more] if several else [*more], {} if several else bound.keywords,
                    Kind.TUPLE if several else Kind.DICT, s.Name(code.node, param.star + param.name),
                )  # fmt: skip
            elif value is not None and value is function.owner:
                names[param.name] = value
            elif isinstance(code, s.Def):
                # among arguments that are not known there may be one for it
                default = param.default if value is None and not given.starred else None
                known = self.evaluated(default, function.outer) if default is not None else None
                names[param.name] = self.domain.parameter(param, value, known, frame)
            else:
                names[param.name] = value or self.domain.unknown(param.name)
        return names


def _items(value: Value) -> list[Value] | None:
    return value.items if isinstance(value, Collection) and value.whole and not value.entries else None


def _constant(found: object) -> Value | None:
    return Constant(found) if found is not constants.NOT_KNOWN else None  # type: ignore[arg-type]


def _entries(value: Value) -> dict[str, Value] | None:
    return value.entries if isinstance(value, Collection) and not value.items else None


_KINDS = {
    s.Display.LIST: Kind.LIST, s.Display.TUPLE: Kind.TUPLE, s.Display.SET: Kind.LIST, s.Display.DICT: Kind.DICT,
    s.Display.GENERATOR: Kind.GENERATOR, s.Display.INNER: Kind.LIST,
}  # fmt: skip

# by type, not by match: this runs for every expression
_EVALUATE: dict[type[s.Node], Callable[[Evaluator, Any], Value]] = {
    s.Name: Evaluator._name,
    s.Attr: Evaluator._attr,
    s.Call: Evaluator._call,
    s.Const: lambda self, expr: Constant(expr.value),
    s.Bin: Evaluator._binary,
    s.Unary: Evaluator._several,
    s.Compare: Evaluator._binary,
    s.Bool: Evaluator._several,
    s.IfExp: Evaluator._if,
    s.Item: Evaluator._item,
    s.Sequence: Evaluator._sequence,
    s.Dict: Evaluator._dict,
    s.Lambda: lambda self, expr: Function(expr, self.names.seen(self.frame), key=s.render(expr)),
    s.Comprehension: Evaluator._comprehension,
    s.Star: lambda self, expr: self.ev(expr.value),
    s.Walrus: Evaluator._walrus,
    s.Yield: Evaluator._several,
    s.Other: Evaluator._several,
}
