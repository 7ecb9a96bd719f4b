"""What a value is made of: the expressions that flow into it, as far as gradients go through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gradlint.knowledge.torch_api import CUTS
from gradlint.python import syntax as s
from gradlint.python.classes import Classes
from gradlint.python.scope import Binding, Scope, Scopes

#: a value of more expressions than this is not followed to its end
_LIMIT = 3000


class Origins:
    """Follows names, attributes, arguments and returned values of one file backwards."""

    def __init__(self, scopes: Scopes, forward: Callable[[s.Call, Scope], s.Def | None] | None = None) -> None:
        """`forward`: the method that runs when a model is called, where that is known."""
        self._scopes = scopes
        self._forward = forward

    def of(self, expr: s.Expr, scope: Scope) -> Iterator[tuple[s.Expr, Scope]]:
        """The expression, its parts and everything that they were computed from."""
        waiting: list[tuple[s.Expr, Scope]] = [(expr, scope)]
        seen: set[tuple[int, str]] = set()
        left = _LIMIT
        while waiting:
            current, place = waiting.pop()
            for part in _parts(current):
                left -= 1
                if left < 0:
                    return
                yield part, place
                for key, values in self._sources(part, place):
                    if key not in seen:
                        seen.add(key)
                        waiting.extend(values)

    def _sources(self, part: s.Expr, scope: Scope) -> Iterator[tuple[tuple[int, str], list[tuple[s.Expr, Scope]]]]:
        match part:
            case s.Name():
                bound = self._scopes.bindings(part.id, scope)
                if bound is not None:
                    values = self._reaching(bound[0], part, scope is bound[1])
                    yield (id(bound[1]), part.id), [(b.value, bound[1]) for b in values]
                else:
                    yield (id(scope), part.id), list(self._scopes.handed(part.id, scope))
            case s.Attr(base=s.Name(id="self")) if scope.cls is not None:
                stored = self._scopes.program.once(Classes).attribute(scope.cls, part.name)
                yield (id(scope.cls), part.name), [(b.value, place) for b, place in stored if not b.quiet]
            case s.Call():
                for function in self._functions(part, scope):
                    yield (id(function), "returns"), self._returns(function)
            case _:
                return

    def _reaching(self, bindings: list[Binding], use: s.Expr, local: bool) -> list[Binding]:
        """Those through which gradients come; none if the last one before the use was made under no_grad."""
        row = self._scopes.row(use.node)
        before = [b for b in bindings if b.row < row]
        if local and before and before[-1].quiet:
            return []
        return [b for b in bindings if not b.quiet]

    def _functions(self, call: s.Call, scope: Scope) -> Iterator[s.Def]:
        """The functions of the file that a call runs, by what its name means there."""
        found = self._scopes.program.callees.functions(call.func, scope)
        yield from found
        method = self._forward(call, scope) if self._forward is not None and not found else None
        if method is not None:
            yield method

    def _returns(self, function: s.Def) -> list[tuple[s.Expr, Scope]]:
        scope = self._scopes.of_def.get(function.node)
        if scope is None:
            return []
        returns = (x for x in s.walk_stmts(function.body) if isinstance(x, s.Return))
        return [(x.value, scope) for x in returns if x.value is not None]


def _parts(expr: s.Expr) -> Iterator[s.Expr]:
    """The expression and what is inside it, without what is cut off from the graph."""
    stack: list[s.Expr] = [expr]
    while stack:
        current = stack.pop()
        if isinstance(current, s.Call) and isinstance(current.func, s.Attr) and current.func.name in CUTS:
            continue
        yield current
        stack.extend(s.parts(current))
