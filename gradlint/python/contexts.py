"""What a `with` and a decorator switch, by the name of what is called, never by its text."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gradlint.knowledge import torch_api as api
from gradlint.knowledge.rows import Switch
from gradlint.python import syntax as s

#: `torch.inference_mode(x)`, of which x is not known
UNSETTLED = object()


def switch(dotted: str, mode: object = None) -> Switch | None:
    """What the context of this full name switches.

    `mode` is what it is given: None for nothing, `UNSETTLED` where that is computed.
    """
    tail = dotted.rpartition(".")[2]
    if tail == "autocast":
        return Switch.AUTOCAST
    if dotted in api.NO_GRAD:
        if tail == "enable_grad":
            return Switch.GRAD
        if mode is UNSETTLED:
            return Switch.EITHER
        if tail == "set_grad_enabled":
            return Switch.GRAD if mode else Switch.NO_GRAD
        return Switch.GRAD if mode is False else Switch.NO_GRAD
    if not dotted.startswith("torch.") and tail.endswith(_OFF):
        return Switch.NO_GRAD  # a helper from elsewhere is taken at its word: `smart_inference_mode`
    return None


def switched(expr: s.Expr, dotted: Callable[[s.Expr], str]) -> Switch | None:
    """What an expression switches that stands in a `with` or is a decorator; `dotted` gives the full name of one."""
    match expr:
        case s.IfExp():
            both = {switched(expr.then, dotted), switched(expr.other, dotted)}
            if len(both) == 1:
                return both.pop()
            return Switch.EITHER if Switch.NO_GRAD in both else None
        case s.Call():
            given = expr.args[0] if expr.args else expr.kwargs.get("mode")
            if given is None:
                return switch(dotted(expr.func), UNSETTLED if expr.starred else None)
            return switch(dotted(expr.func), given.value if isinstance(given, s.Const) else UNSETTLED)
        case s.Name() | s.Attr():
            return switch(dotted(expr))
        case _:
            return None


def without_gradients(found: Switch | None, *, outside: bool) -> bool:
    """Whether no gradient is kept inside a context; `outside`: none is kept round it."""
    return found is Switch.NO_GRAD or (outside and found is not Switch.GRAD)


def turns_off(exprs: Iterable[s.Expr], dotted: Callable[[s.Expr], str], *, outside: bool = False) -> bool:
    """The same for several contexts, or decorators, one inside the other."""
    off = outside
    for expr in exprs:
        off = without_gradients(switched(expr, dotted), outside=off)
    return off


_OFF = ("no_grad", "inference_mode")
