"""Numbers on the way to the loss: guards, and one function for two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.model import FixSafety
from gradlint.remedy import Remedy

if TYPE_CHECKING:
    from gradlint.events import Site
    from gradlint.rewrite.bench import Bench
    from gradlint.subjects import Operation


def clamp_operand(log: Site, operand: Site) -> Remedy:
    """`torch.log(p)` -> `torch.log(p.clamp_min(eps))`, with an eps that this file's numbers can hold."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.numerics.guard import clamp_operand

        clamp_operand(bench, log, operand)

    return Remedy("Keep it above 0 with `clamp_min`", act)


def root_to_absolute(root: Site, operand: Site, *, tensor: bool) -> Remedy:
    """`torch.sqrt(x ** 2)` -> `x.abs()`."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.numerics.guard import root_to_absolute

        root_to_absolute(bench, root, operand, tensor=tensor)

    return Remedy("Take the absolute value", act)


def fuse(
    operation: Operation, message: str, *, exp: Operation | None = None, safety: FixSafety | None = None
) -> Remedy:  # fmt: skip
    """One function of torch for an operation and what made its operand; unsafe: the operand has other uses, too."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.numerics.fuse import fuse

        fuse(bench, operation, exp, elsewhere=safety is FixSafety.UNSAFE)

    return Remedy(message, act, safety)
