"""Calls as Python binds them: what is given, and which parameter gets it. The values may be anything.

One copy for all who bind: interpreters hand in their values, readers of a file the expressions themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from gradlint.knowledge.rows import At
from gradlint.python import syntax as s
from gradlint.records import dataclass, field

V = TypeVar("V")


@dataclass(slots=True, eq=False)
class Arguments(Generic[V]):
    """What a call is given, by position and by name, beside the expressions that say so."""

    args: list[V] = field(default_factory=list)
    kwargs: dict[str, V] = field(default_factory=dict)
    exprs: list[s.Expr] = field(default_factory=list)
    named: dict[str, s.Expr] = field(default_factory=dict)
    #: there may be more: `*args` or `**kwargs` of which the content is not known
    starred: bool = False

    @property
    def every(self) -> list[V]:
        return [*self.args, *self.kwargs.values()]

    def get(self, position: int, *names: str) -> V | None:
        """What is given by one of these names, or at this position."""
        for name in names:
            if name in self.kwargs:
                return self.kwargs[name]
        return self.args[position] if 0 <= position < len(self.args) else None

    def at(self, where: At) -> V | None:
        """What a row of a framework speaks of."""
        return self.get(where.position, *where.names)

    def expression(self, position: int, *names: str) -> s.Expr | None:
        """Where that is written."""
        for name in names:
            if name in self.named:
                return self.named[name]
        return self.exprs[position] if 0 <= position < len(self.exprs) else None

    def behind(self, value: V, expr: s.Expr) -> Arguments[V]:
        """The same with one in front: the object that a method is called on."""
        return Arguments([value, *self.args], self.kwargs, [expr, *self.exprs], self.named, self.starred)

    def before(self, more: Arguments[V]) -> Arguments[V]:
        """These, and then others."""
        return Arguments(
            [*self.args, *more.args], {**self.kwargs, **more.kwargs}, [*self.exprs, *more.exprs],
            {**self.named, **more.named}, self.starred or more.starred,
        )  # fmt: skip

    def without_first(self) -> Arguments[V]:
        return Arguments(self.args[1:], self.kwargs, self.exprs[1:], self.named, self.starred)


@dataclass(slots=True, eq=False)
class Bound(Generic[V]):
    """The parameters of one call."""

    #: those that are given something, by name
    values: dict[str, V] = field(default_factory=dict)
    #: those that are not: their defaults hold, where they have one
    missing: list[s.Param] = field(default_factory=list)
    #: positional arguments that no parameter takes: what `*args` collects
    rest: list[V] = field(default_factory=list)
    #: keywords that no parameter takes: what `**kwargs` collects
    keywords: dict[str, V] = field(default_factory=dict)


def bind(params: Sequence[s.Param], given: Arguments[V], owner: V | None = None) -> Bound[V]:
    """Which parameter gets what; `owner` is the object that a method is called on, and its first parameter's value."""
    found: Bound[V] = Bound()
    waiting = list(given.args)
    if owner is not None and params and not params[0].star:
        waiting.insert(0, owner)
    keywords = {name: value for name, value in given.kwargs.items() if not name.startswith("**")}
    for param in params:
        if param.star == "*":
            found.rest, waiting = waiting, []
        elif param.star:
            continue
        elif waiting:
            found.values[param.name] = waiting.pop(0)
        elif param.name in keywords:
            found.values[param.name] = keywords.pop(param.name)
        else:
            found.missing.append(param)
    found.rest = found.rest or waiting
    found.keywords = keywords
    return found


def fits(params: Sequence[s.Param], given: Arguments[V]) -> bool:
    """Whether Python would take these arguments: `model.train()` is no call of `def train(self, loader)`."""
    if given.starred:
        return True
    stars = {param.star for param in params}
    bound = bind(params, given)
    if (bound.rest and "*" not in stars) or (bound.keywords and "**" not in stars):
        return False
    return all(param.default is not None for param in bound.missing)


def written(call: s.Call) -> Arguments[s.Expr]:
    """The arguments of a call as the expressions that they are."""
    kwargs = {name: value for name, value in call.kwargs.items() if not name.startswith("**")}
    return Arguments(list(call.args), kwargs, list(call.args), kwargs, call.starred)


def evaluated(
    call: s.Call,
    ev: Callable[[s.Expr], V],
    items: Callable[[V], Sequence[V] | None],
    entries: Callable[[V], Mapping[str, V] | None],
) -> Arguments[V]:
    """The arguments of a call as values; `*a` and `**k` are taken apart where it is known what is in them.

    `items` and `entries` say that, and None where nobody knows: then the value stands for all that it may hold.
    """
    if not call.starred:
        values = [ev(arg) for arg in call.args]
        return Arguments(values, {name: ev(arg) for name, arg in call.kwargs.items()}, call.args, call.kwargs)
    found: Arguments[V] = Arguments()
    for arg in call.args:
        value = ev(arg.value if isinstance(arg, s.Star) else arg)
        parts = items(value) if isinstance(arg, s.Star) else [value]
        found.starred |= parts is None
        found.args.extend([value] if parts is None else parts)
        found.exprs.extend([arg] * (1 if parts is None else len(parts)))
    for name, arg in call.kwargs.items():
        value = ev(arg)
        inside = entries(value) if name.startswith("**") else {name: value}
        found.starred |= inside is None
        for key, part in (inside if inside is not None else {name: value}).items():
            found.kwargs[key] = part
            found.named[key] = arg
    return found
