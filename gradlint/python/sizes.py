"""Whether the file itself says that a window holds one micro-batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.python import syntax as s
from gradlint.python.constants import Constants, Scope
from gradlint.python.homes import Homes

if TYPE_CHECKING:
    from gradlint.python.module import Program


def is_one(window: str, program: Program) -> bool:
    """N of `% N` is a constant 1 wherever the file asks so: written down, or a default that its callers leave alone.

    What a command line or a caller of another file may set is not settled.
    """
    constants = program.once(Constants)
    sizes = [
        (part.right, scope)
        for part, scope in constants.expressions()
        if isinstance(part, s.Bin) and part.op == "%" and s.render(part.right) == window
    ]
    return bool(sizes) and all(_one(size, scope, constants, program) for size, scope in sizes)


def _one(size: s.Expr, scope: Scope, constants: Constants, program: Program) -> bool:
    if constants.number(size, scope) == 1:
        return True
    match size:
        case s.Name():
            return _default_of_one(size, program.once(Homes))
        case s.Attr(base=s.Name() as base):
            homes = program.once(Homes)
            handed = [s.Attr(size.node, value, size.name) for value, _ in homes.handed(base.id, homes.home(size.node))]
            return bool(handed) and all(constants.number(each, scope) == 1 for each in handed)
        case _:
            return False


def _default_of_one(size: s.Name, homes: Homes) -> bool:
    """A parameter with the default 1, which no call of the file gives another value; there must be a call."""
    home = homes.home(size.node)
    default = next((p.default for h in home.chain() for p in h.params if p.name == size.id), None)
    if not isinstance(default, s.Const) or default.value != 1 or isinstance(default.value, bool):
        return False
    owner = next(h for h in home.chain() if any(p.name == size.id for p in h.params))
    if owner.definition is None or size.id in home.names:
        return False
    calls = homes.calls.get(owner.definition.name, [])
    return bool(calls) and not any(c.starred for c, _ in calls) and not any(homes.handed(size.id, home))
