"""The classes that a class is made of, as far as the file defines them."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.python import syntax as s
from gradlint.python.module import Program
from gradlint.python.written import last


def bases(cls: s.Class, program: Program) -> list[s.Class]:
    """Those of its bases that the file defines."""
    found = (program.classes.get(last(base)) for base in cls.bases)
    return [base for base in found if base is not None and base is not cls]


def lineage(cls: s.Class, program: Program) -> Iterator[s.Class]:
    """The class, its bases and theirs: a base comes with all of its own before the next one."""
    waiting, seen = [cls], set[int]()
    while waiting:
        current = waiting.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            waiting.extend(reversed(bases(current, program)))
