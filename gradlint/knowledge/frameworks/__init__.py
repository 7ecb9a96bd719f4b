"""The frameworks, one file each: what they do in the user's name. A new one is a new file; no list knows it."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from typing import TypeVar

from gradlint.events import HELPER, PLAIN, Backward, Event, Framework
from gradlint.knowledge.pattern import Pattern
from gradlint.knowledge.rows import Calls, Does, Makes, Opens, Passes, Row, Switch, Thing, fits

R = TypeVar("R", bound=Row)


def _all() -> tuple[Framework, ...]:
    """Every `Framework` of the modules of this folder, by name of the module."""
    files = sorted(file for folder in __path__ for file in os.listdir(folder) if file.endswith(".py"))
    found: list[Framework] = []
    for file in files:
        if file != "__init__.py":
            module = importlib.import_module(f"{__name__}.{file.removesuffix('.py')}")
            found += [x for x in vars(module).values() if isinstance(x, Framework) and x not in found]
    return tuple(found)


FRAMEWORKS = _all()
#: as they are named in recordings
BY_NAME = {framework.name: framework for framework in (*FRAMEWORKS, PLAIN, HELPER)}
PACKAGES = frozenset(package for framework in FRAMEWORKS for package in framework.packages)


@functools.cache
def rows(verb: type[R]) -> tuple[tuple[Framework, R], ...]:
    return tuple((framework, row) for framework in FRAMEWORKS for row in framework.rows if isinstance(row, verb))


#: the classes of their objects, without their modules
CLASSES = frozenset(
    name.rpartition(".")[2]
    for _, row in rows(Makes)
    for name in (row.functions if row.thing is Thing.OBJECT else row.classes)
)
#: methods that nobody but a framework's object has
TELLING = frozenset(name for framework in FRAMEWORKS for row in framework.rows if row.telling for name in row.methods)
#: what the file's classes are derived from
BASES = frozenset(name.rpartition(".")[2] for _, row in rows(Calls) for name in row.of)

_NAMED = tuple((f, row, Pattern(row.named)) for f, row in rows(Makes) if row.named)


# -- functions and classes, by their dotted names


@functools.lru_cache(4096)
def of_call(dotted: str) -> tuple[Framework, Row] | None:
    """The row that says what this function does; the first row that fits."""
    for framework in FRAMEWORKS:
        for row in framework.rows:
            if any(fits(name, dotted) for name in row.functions):
                return framework, row
    return None


def maker(thing: Thing, dotted: str) -> Framework:
    """Whose optimizer this class makes."""
    found = of_call(dotted)
    if found is not None and isinstance(found[1], Makes) and found[1].thing is thing:
        return found[0]
    return PLAIN


def in_use(imports: Collection[str], words: Set[str]) -> Iterator[Framework]:
    """The frameworks that a file with these imports trains with; `pl.LightningModule` is a word, not an import."""
    for framework in FRAMEWORKS:
        if any(fits(name, dotted) for name in framework.trains for dotted in imports) or any(
            base in words for row in framework.rows if isinstance(row, Calls) for base in map(_tail, row.of)
        ):
            yield framework


def _tail(name: str) -> str:
    return name.rpartition(".")[2]


# -- objects that come from elsewhere, by what they are called


@functools.lru_cache(4096)
def named(name: str, thing: Thing = Thing.OBJECT) -> Framework | None:
    """Whose object it is, if its name says so."""
    for framework, row, pattern in _NAMED:
        if row.thing is thing and pattern.search(name):
            return framework
    return None


def engine(name: str) -> Framework:
    """Whose engine it is: that of the name, or of anybody who has engines. A model that steps is one."""
    return named(name, Thing.ENGINE) or next(f for f, row in rows(Makes) if row.thing is Thing.ENGINE)


def preparing(seen: Set[str]) -> Framework:
    """Who has prepared the optimizers that a file with these words gets from elsewhere."""
    for framework, row in rows(Makes):
        if row.prepared_by in seen:
            uses = [x for x in framework.rows if isinstance(x, Opens) and x.context is Switch.WINDOW]
            words = {name for one in (*uses, *does(framework, Thing.OBJECT, Backward)) for name in one.methods}
            if words & seen:
                return framework
    return PLAIN


def speaks_of_one(word: str) -> bool:
    """A name that has a framework's in it."""
    return any(True for _ in _spoken_of(word))


def speaks_of_clipping(word: str) -> bool:
    """A name that has that of a framework in it whose step clips."""
    return any(framework.clips for framework in _spoken_of(word))


def _spoken_of(word: str) -> Iterator[Framework]:
    low = word.lower()
    return (framework for framework in FRAMEWORKS if framework.stem and framework.stem in low)


# -- methods


@functools.lru_cache(4096)
def method(framework: Framework, name: str, on: Thing = Thing.OBJECT) -> Row | None:
    """The row that says what a method of an object does."""
    for row in framework.rows:
        if name in row.methods and _whose(row) is on:
            return row
    return None


def _whose(row: Row) -> Thing | None:
    match row:
        case Does():
            return row.on
        case Opens() | Passes():
            return Thing.OBJECT
        case Makes() if row.thing is Thing.TEXT:
            return Thing.SUBCLASS
        case _:
            return None


def does(framework: Framework, on: Thing, event: type[Event]) -> list[Does]:
    return [row for row in framework.rows if isinstance(row, Does) and row.on is on and row.event is event]


@functools.lru_cache(4096)
def on_any(name: str, on: Thing, given: str = "") -> tuple[Framework, Does] | None:
    """What some framework does by a method that it has given to things of torch's: `optimizer.backward(loss)`."""
    for framework, row in rows(Does):
        if row.on is on and name in row.methods and row.given == given:
            return framework, row
    return None


@functools.lru_cache(4096)
def tells_window(name: str) -> bool:
    """An attribute that says that this micro-batch is the last of its window."""
    return any(row.told_by == name for _, row in rows(Opens) if row.told_by)


# -- classes of the file


def calling(bases: Iterable[str]) -> tuple[Framework, Calls] | None:
    """Who calls the methods of a class with these bases."""
    for framework, row in rows(Calls):
        if any(fits(name, base) for name in row.of for base in bases):
            return framework, row
    return None


def alike(methods: Callable[[str], bool]) -> tuple[Framework, Calls] | None:
    """Who calls the methods of a class that has these, whatever its base is."""
    return next(((f, row) for f, row in rows(Calls) if row.alike and all(map(methods, row.alike))), None)
