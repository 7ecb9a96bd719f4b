"""The classes that a class is made of, as far as the file defines them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.python import syntax as s

if TYPE_CHECKING:
    from gradlint.python.module import Program


def bases(cls: s.Class, program: Program) -> list[s.Class]:
    """Those of its bases that the file defines; what is imported under the same name is another class."""
    named = (base.id for base in cls.bases if isinstance(base, s.Name) and base.id not in program.imports)
    found = (program.classes.get(name) for name in named)
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
