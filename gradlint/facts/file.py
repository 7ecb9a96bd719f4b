"""One file as rules see it: `gradlint.subjects.File`, answered from the program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar, cast

from gradlint.facts import settings
from gradlint.python import syntax as s
from gradlint.python.binding import called
from gradlint.python.classes import Classes
from gradlint.python.contexts import turns_off
from gradlint.python.scope import How, Scope, Scopes
from gradlint.python.usage import Use
from gradlint.subjects import Argument, Call

if TYPE_CHECKING:
    from gradlint.events import Site
    from gradlint.facts.models import Models, Monitoring
    from gradlint.facts.token_means import TokenMeans
    from gradlint.python.module import Module, Words
    from gradlint.subjects import File as AnyFile
    from gradlint.subjects import Setting, Stack

T = TypeVar("T")


class File:
    """A program, and what rules may ask of it. Nothing is looked at before somebody asks."""

    def __init__(self, program: Module) -> None:
        self.program = program
        self._kept: dict[Callable[[AnyFile], object], object] = {}
        self._calls: dict[int, Call] = {}
        #: the calls, each with its number, by the last part of what is called
        self._tails: dict[str, list[tuple[int, s.Call]]] | None = None
        self._blocks: dict[int, int] | None = None

    def once(self, query: Callable[[AnyFile], T]) -> T:
        if query not in self._kept:
            self._kept[query] = query(self)
        return cast("T", self._kept[query])

    # -- words and names

    @property
    def words(self) -> Words:
        return self.program.all_words

    @property
    def imports(self) -> dict[str, str]:
        return self.program.imports

    @property
    def defined(self) -> frozenset[str]:
        return frozenset((*self.program.classes, *self.program.functions))

    @property
    def target_torch(self) -> tuple[int, int] | None:
        return self.program.target_torch

    @property
    def is_test(self) -> bool:
        if any(name.partition(".")[0] in ("pytest", "unittest") for name in self.imports.values()):
            return True
        return any(name.startswith("test_") for name in self.program.functions)

    def words_of(self, function: str) -> list[Words]:
        program = self.program
        return [program.collect_words(s.walk_stmts(d.body)) for d in program.functions.get(function, ())]

    def clears(self, site: Site) -> bool:
        text, usage = s.render(self._looked_up_on(site)), self.program.usage
        known = usage.of(Use.ZEROED, text, self._scopes.of(site.node))
        return known if known is not None else usage.anywhere(Use.ZEROED, text)

    def mentions(self, name: str) -> list[Site]:
        callees = {call.func.node for call in self.program.calls()}
        return [
            self.program.site(part)
            for stmt in self.program.statements()
            for expr in (*s.expressions(stmt), *_annotations(stmt))
            for part in s.walk_expr(expr)
            if isinstance(part, s.Attr | s.Name) and part.node not in callees and self.program.dotted(part) == name
        ]

    def assigns(self, name: str) -> bool:
        assignments = (stmt for stmt in self.program.statements() if isinstance(stmt, s.Assign))
        targets = (target for stmt in assignments for target in stmt.targets)
        return any(isinstance(target, s.Attr) and self.program.dotted(target) == name for target in targets)

    def reads(self, text: str) -> int:
        last = text.rpartition(".")[2]
        return sum(
            (isinstance(part, s.Name) and part.id == text)
            or (isinstance(part, s.Attr) and part.name == last and s.render(part) == text)
            for stmt in self.program.statements()
            for expr in s.expressions(stmt)
            if not (isinstance(stmt, s.Assign) and any(expr is target for target in stmt.targets))
            for part in s.walk_expr(expr)
        )

    def made_by(self, site: Site) -> str:
        made = self.program.resolve(self._looked_up_on(site))
        return self.program.dotted(made.func) if isinstance(made, s.Call) else ""

    def _looked_up_on(self, site: Site) -> s.Expr | None:
        found = self._scopes.expr(site.node)
        return found.base if isinstance(found, s.Attr) else found

    @property
    def uncalled(self) -> list[Site]:
        alone = (stmt.value for stmt in self.program.statements() if isinstance(stmt, s.ExprStmt))
        return [self.program.site(value) for value in alone if isinstance(value, s.Attr)]

    def block_of(self, site: Site) -> int:
        if self._blocks is None:
            blocks = [self.program.body, *(b for stmt in self.program.statements() for b in s.blocks(stmt))]
            self._blocks = {x.value.node: n for n, b in enumerate(blocks) for x in b if isinstance(x, s.ExprStmt)}
        return self._blocks.get(site.node, -1)

    # -- calls

    def calls(self, *names: str) -> list[Call]:
        if names and not self._may_call(names):
            return []
        if not names:
            return [self._call(call) for call in self.program.calls()]
        if self._tails is None:
            self._tails = {}
            for number, call in enumerate(self.program.calls()):
                self._tails.setdefault(self._tail(call), []).append((number, call))
        wanted, tails = frozenset(names), {name.rpartition(".")[2] for name in names}
        maybe = sorted(one for tail in tails for one in self._tails.get(tail, ()))
        found = (self._call(call) for _, call in maybe)
        return [call for call in found if call.last in wanted or call.name in wanted]

    def _tail(self, call: s.Call) -> str:
        """Whatever `f.g` means ends in `g`; a name may be given to anything that is imported."""
        if isinstance(call.func, s.Attr):
            return call.func.name
        return self._name(call.func, self._scopes.of(call.node)).rpartition(".")[2] or called(call)

    def _may_call(self, names: Iterable[str]) -> bool:
        """One of the names stands in the file at all, or is imported under another one."""
        tails = {name.rpartition(".")[2] for name in names}
        imported = (name.rpartition(".")[2] for name in self.imports.values())
        return not tails.isdisjoint(self.words.seen) or not tails.isdisjoint(imported)

    def _call(self, call: s.Call) -> Call:
        known = self._calls.get(call.node)
        if known is None:
            known = self._calls[call.node] = self._made(call)
        return known

    def _made(self, call: s.Call) -> Call:
        scope, stmt, site = self._scopes.of(call.node), self._scopes.stmt_of(call.node), self.program.site
        around = list(self._scopes.around(stmt))[::-1] if stmt is not None else []
        bound = stmt.targets if isinstance(stmt, s.Assign) and stmt.value is call else []
        name = self._name(call.func, scope)
        return Call(
            site(call), name, name.rpartition(".")[2] or called(call), site(call.func, s.render(call.func)),
            tuple(self._argument(x, scope) for x in call.args),
            {key: self._argument(x, scope) for key, x in call.kwargs.items()},
            starred=call.starred,
            conditions=tuple(s.render(x.test) for x in around if isinstance(x, s.If)),
            caught=tuple(s.render(kind) for x in around if isinstance(x, s.Try) for kind, _ in x.handlers),
            home=next((x.definition.node for x in scope.chain() if x.definition is not None), None),
            bound_to=s.render(bound[0]) if len(bound) == 1 else "",
            opens=isinstance(stmt, s.With) and any(item is call for item, _ in stmt.items) and _computes(stmt),
        )  # fmt: skip

    @property
    def _scopes(self) -> Scopes:
        return self.program.once(Scopes)

    def _name(self, expr: s.Expr, scope: Scope) -> str:
        """What is imported under a name; "" if that may be several things, or is of the file itself."""
        found = set(self._scopes.meanings(expr, scope))
        return found.pop() if len(found) == 1 and not all(map(str.isidentifier, found)) else ""

    def _argument(self, value: s.Expr, scope: Scope) -> Argument:
        constant = isinstance(value, s.Const)
        written = value.value if isinstance(value, s.Const) else None
        meant, scope = self._meant(value, scope)
        either = (self._name(x, scope) for x in (meant.then, meant.other)) if isinstance(meant, s.IfExp) else ()
        return Argument(
            self.program.site(value, s.render(value)), self._name(meant, scope), constant, written, tuple(either)
        )

    def _meant(self, value: s.Expr, scope: Scope) -> tuple[s.Expr, Scope]:
        """What stands for a name, or for an attribute of the object, that is assigned exactly once; and where."""
        me = next((x for x in scope.chain() if x.cls is not None and x.params), None)
        if me is not None and isinstance(value, s.Attr) and isinstance(value.base, s.Name) and me.cls is not None:
            if value.base.id == me.params[0].name:
                found = self.program.once(Classes).attribute(me.cls, value.name)
                if len(found) == 1 and found[0][0].how is How.WHOLE and found[0][1].program is self.program:
                    value, scope = found[0][0].value, found[0][1]
        return self.program.resolve(value) or value, scope

    def trains_round(self, call: Call) -> bool:
        stmt = self._scopes.stmt_of(call.site.node)
        assert stmt is not None
        around = [stmt, *self._scopes.around(stmt)]
        for each in around:
            if isinstance(each, s.With) and turns_off((x for x, _ in each.items), self.program.dotted):
                return False  # nothing is trained there
            if isinstance(each, s.Def) and self._trains(each.body):
                return True
        top: list[s.Stmt] = [stmt for stmt in self.program.body if not isinstance(stmt, s.Def | s.Class)]
        return not isinstance(around[-1], s.Def | s.Class) and self._trains(top)

    def _trains(self, body: list[s.Stmt]) -> bool:
        words = self.program.words(body)
        return words.backward and words.steps

    # -- what is found out by following the file

    @property
    def settings(self) -> list[Setting]:
        return [*settings.clip_settings(self.program), *settings.second_divisions(self.program)]

    @property
    def stacks(self) -> list[Stack]:
        from gradlint.facts.layers import saturating_stacks

        return saturating_stacks(self.program)

    @property
    def models(self) -> Models:
        from gradlint.facts.models import Models

        return self.program.once(Models)

    @property
    def monitoring(self) -> Monitoring:
        from gradlint.facts.models import Monitoring

        return self.program.once(Monitoring)

    @property
    def token_means(self) -> TokenMeans:
        from gradlint.facts.token_means import TokenMeans

        return self.program.once(TokenMeans)

    def is_one(self, window: str) -> bool:
        return settings.is_one(window, self.program)


def _annotations(stmt: s.Stmt) -> Iterator[s.Expr]:
    match stmt:
        case s.Def():
            yield from (p.annotation for p in stmt.params if p.annotation is not None)
        case s.Assign() if stmt.annotation is not None:
            yield stmt.annotation
        case _:
            pass


def _computes(stmt: s.With) -> bool:
    return any(isinstance(x, s.Assign) and isinstance(x.value, s.Call) for x in s.walk_stmts(stmt.body))
