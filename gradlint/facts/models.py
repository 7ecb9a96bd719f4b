"""What an optimizer trains (a Transformer, a policy, a plain CNN), and whether somebody looks at its gradients."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gradlint.events import Backward, Event, Params, Site
from gradlint.facts.origins import Origins
from gradlint.facts.parts import Build, Part, Parts
from gradlint.knowledge import architectures as known
from gradlint.knowledge import frameworks, monitors, naming
from gradlint.knowledge.architectures import Kind
from gradlint.python import syntax as s
from gradlint.python.binding import called, identifiers, last
from gradlint.python.module import Module
from gradlint.python.scope import Scope, Scopes
from gradlint.subjects import Evidence

#: a loop of fewer turns, all of them known, is no training
LONG = 1000


class Models:
    """The models of one file; nothing is looked at before somebody asks."""

    def __init__(self, program: Module) -> None:
        self._program = program
        self._made: tuple[Scopes, Parts, Origins] | None = None
        self._policies: dict[tuple[int, tuple[str, ...]], Evidence | None] = {}

    @property
    def scopes(self) -> Scopes:
        return self._parts()[0]

    @property
    def origins(self) -> Origins:
        return self._parts()[2]

    def _parts(self) -> tuple[Scopes, Parts, Origins]:
        if self._made is None:
            scopes = self._program.once(Scopes)
            parts = Parts(scopes)
            self._made = scopes, parts, Origins(scopes, parts.forward_of)
        return self._made

    def round(self, event: Event) -> list[Scope]:
        """The function of an event, and those from which it was called, from the inside out."""
        return [self.scopes.of(site.node) for site in reversed(event.places)]

    def in_test(self, event: Event) -> bool:
        """A unit test takes a step or two; nothing is trained there."""
        if any(dotted.partition(".")[0] in ("pytest", "unittest") for dotted in self._program.imports.values()):
            return True
        for scope in self.round(event):
            names = [h.definition.name for h in scope.chain() if h.definition is not None]
            if any(n.lower().startswith(("test", "check_", "assert_")) for n in names):
                return True
            if scope.cls is not None and re.match(r"Test|\w+Tests?$|\w+TestCase$", scope.cls.name):
                return True
        return False

    def value_used(self, site: Site) -> bool:
        """What a call gives back is kept, handed on or asked for."""
        stmt = self.scopes.stmt_of(site.node)
        return not (isinstance(stmt, s.ExprStmt) and stmt.value.node == site.node)

    def turns(self, event: Event) -> int | None:
        """How often the loops round an event run in all, where the file says it in numbers."""
        product = 1
        for frame in event.frames:
            count = self._count(self.scopes.stmt(frame.loop))
            if count is None:
                return None
            product *= count
        return product

    def _count(self, loop: s.Stmt | None) -> int | None:
        """`for i in range(10)`, also through a constant that has a name, and a progress bar."""
        iterable = loop.iterable if isinstance(loop, s.For) else None
        while isinstance(iterable, s.Call) and called(iterable) in ("tqdm", "enumerate"):
            iterable = iterable.args[0] if iterable.args else None
        if isinstance(iterable, s.Call) and s.render(iterable.func) in ("range", "trange") and iterable.args:
            bounds = [self._program.resolve(a) for a in iterable.args[:2]]
            numbers = [b.value for b in bounds if isinstance(b, s.Const) and isinstance(b.value, int)]
            return numbers[-1] - (numbers[0] if len(numbers) == 2 else 0) if len(numbers) == len(bounds) else None
        if isinstance(iterable, s.Sequence):
            return len(iterable.items)
        return None

    def may_share(self, one: Params, other: Params) -> bool:
        """Two models have parameters in common: one was given to the other, or both have a part of one name."""
        if not one.known or not other.known:
            return True
        return any(self._are_related(a, b) for a in one.owners for b in other.owners)

    def _are_related(self, one: str, other: str) -> bool:
        mine, theirs = _components(one), _components(other)
        if mine & theirs:
            return True
        return self.scopes.mixes(mine, theirs) or self.scopes.mixes(theirs, mine)

    # -- delicate models

    def delicate(self, params: Params, at: Event, losses: Sequence[Backward]) -> Evidence | None:
        """A model that is known for sudden large gradients, if these parameters are those of one."""
        builds = self._builds(params, at, losses)
        builds = [(self._called(owner, at), build) for owner, build in builds]
        for owner, build in builds:
            part = build.of(known.RISKY)
            if part is not None:
                return _evidence(owner, part)
        for loss in losses:
            policy = self.policy(loss, [owner for owner, _ in builds])
            if policy is not None:
                return policy
        if builds and any(build for _, build in builds):
            return None
        if not builds or all(build.outside for _, build in builds):
            return self._of_file()
        return None

    def _called(self, owner: str, at: Event) -> str:
        """A module that trains itself goes by the name of its class."""
        cls = next((h.cls for h in self.round(at) if h.cls is not None), None)
        return cls.name if owner == "self" and cls is not None else owner

    def _of_file(self) -> Evidence | None:
        """The trained model comes from elsewhere: one of those that the file defines, if all of them are of a kind."""
        roots = self._parts()[1].roots()
        parts = [build.of(known.RISKY) for _, build in roots]
        if not roots or not all(parts):
            return None
        part = parts[0]
        assert part is not None
        return Evidence(f"`{roots[0][0].name}` (it holds `{part.name}`)", part.site, f"`{part.name}` is built here")

    def policy(self, loss: Backward, owners: Sequence[str] = ()) -> Evidence | None:
        """The loss weighs log-probabilities with returns, advantages or values."""
        key = loss.site.node, tuple(owners)
        if key not in self._policies:
            self._policies[key] = self._policy(loss, owners)
        return self._policies[key]

    def _policy(self, loss: Backward, owners: Sequence[str]) -> Evidence | None:
        log_prob: s.Expr | None = None
        weighted = False
        for part, _ in self.made_of(loss):
            name = last(part)
            if log_prob is None and known.LOG_PROB.search(name):
                log_prob = part
            weighted = weighted or bool(known.RETURNS.search(name))
        if log_prob is None or not weighted:
            return None
        seen = f"`{last(log_prob)}` in its loss"
        text = f"`{owners[0]}` (a policy: {seen})" if len(owners) == 1 else f"a policy ({seen})"
        return Evidence(text, self._program.site(log_prob), "its loss is made of this")

    def made_of(self, loss: Backward) -> Iterator[tuple[s.Expr, Scope]]:
        """Everything that flows into a loss that goes backward."""
        call = self.scopes.expr(loss.site.node)
        if call is not None:
            yield from self.origins.of(call, self.scopes.of(loss.site.node))

    def pretrained(self, model: s.Expr, scope: Scope) -> Part | None:
        """The model of Hugging Face that an expression stands for."""
        build = self._parts()[1].of(model, scope)
        return next((p for p in build.parts if not p.holder and p.kind is Kind.ATTENTION), None)

    # -- plain ones

    def plain_cnn(self, params: Params, at: Event) -> Evidence | None:
        """A convolutional network with batch normalisation, or one of the well-known ones, of which all is known."""
        builds = self._builds(params, at, ())
        if len(builds) != 1:
            return None
        owner, build = builds[0]
        for value, scope in self.scopes.put_into(owner):
            build = build.join(self._parts()[1].of(value, scope))
        if not build.whole or build.of(known.RISKY) is not None:
            return None
        part = build.of({Kind.CONVOLUTION})
        zoo = part is not None and known.TELLING_CONVOLUTION.search(part.name.rpartition(".")[2])
        if part is None or not (zoo or build.of({Kind.BATCH_NORM})):
            return None
        return _evidence(owner, part)

    def _builds(self, params: Params, at: Event, losses: Sequence[Backward]) -> list[tuple[str, Build]]:
        """The models whose parameters these are; if nobody knows, those that the losses depend on."""
        owners = params.owners
        if not owners and len({loss.params.owners for loss in losses}) == 1:
            owners = losses[0].params.owners
        scopes = self.round(at)
        return [(owner, self._parts()[1].of_owner(owner, scopes)) for owner in sorted(owners)]


def _components(owner: str) -> frozenset[str]:
    """`self.agent.critic` -> {agent, critic}."""
    return frozenset(re.findall(r"[A-Za-z_]\w*", re.sub(r"#\d+", "", owner))) - {"self", "module"}


def _evidence(owner: str, part: Part) -> Evidence:
    said = f"`{part.name}` is built here"
    if part.holder:
        return Evidence(f"`{part.holder}` (it holds `{part.name}`)", part.site, said)
    return Evidence(f"`{owner}` (`{part.name}`)", part.site, said)


# -- monitoring


class Monitoring:
    """The questions of one file."""

    def __init__(self, program: Module) -> None:
        self._program = program
        self._models = program.once(Models)
        self._looked: bool | None = None

    @property
    def looks(self) -> bool:
        """Somewhere a gradient or its norm is read, watched, hooked or logged; or a framework does it."""
        if self._looked is None:
            words = self._program.all_words.seen | self._program.all_words.called
            named = any(monitors.LOOKS.search(w) for w in words)
            used = frameworks.in_use(self._program.imports.values(), words)
            self._looked = (
                named or any(x.logs_norms for x in used) or self._uses_norm() or any(True for _ in self._reads())
            )
        return self._looked

    def _uses_norm(self) -> bool:
        """The norm that a clip gives back is kept."""
        clips = [c for name, calls in self._models.scopes.calls.items() if _is_clip(name) for c, _ in calls]
        return any(self._models.value_used(self._program.site(call)) for call in clips)

    def _reads(self) -> Iterator[s.Attr]:
        """`.grad`, but neither cleared nor only asked whether it is there."""
        for stmt in self._program.statements():
            written = stmt.targets if isinstance(stmt, s.Assign | s.Delete) else []
            for expr in s.expressions(stmt):
                if expr not in written:
                    yield from (part for part in _looking(expr) if "autograd" not in self._program.dotted(part))

    # -- loops

    def long_loop(self, event: Event) -> int | None:
        """The outermost loop round an event, if it is a long training: epochs over a loader, or many steps."""
        loops = [stmt for frame in event.frames if not frame.window for stmt in self._loop(frame.loop)]
        if not loops:
            return None
        turns = self._models.turns(event)
        if turns is not None:
            return loops[0].node if turns >= LONG else None
        if len(loops) > 1 or self._counts_epochs(event) or _goes_on(loops[0]):
            return loops[0].node
        return None

    def _loop(self, node: int) -> Iterator[s.For | s.While]:
        """Not the made-up loop round a function, nor one over optimizers or models."""
        stmt = self._models.scopes.stmt(node)
        if isinstance(stmt, s.While):
            yield stmt
        elif isinstance(stmt, s.For):
            text = naming.last(s.render(stmt.iterable).replace(".values()", "").replace(".items()", ""))
            if not naming.OPTIMIZER.search(text) and not isinstance(stmt.iterable, s.Sequence):
                yield stmt

    def _counts_epochs(self, event: Event) -> bool:
        """`def train(epoch)`, `def train_one_epoch(…)`: the loop over epochs is elsewhere."""
        for scope in self._models.round(event):
            names = [p.name for p in scope.params]
            if scope.definition is not None:
                names.append(scope.definition.name)
            if any(monitors.EPOCH.search(name) for name in names):
                return True
        return False


def _is_clip(name: str) -> bool:
    return "clip" in name and "grad" in name


def _goes_on(loop: s.For | s.While) -> bool:
    """`while True`, `while step < max_steps`, `for step in range(num_steps)`."""
    if isinstance(loop, s.While):
        test = s.render(loop.test)
        return test in ("True", "1") or any(monitors.MANY.search(name) for name in identifiers(loop.test))
    counts = called(loop.iterable) if isinstance(loop.iterable, s.Call) else ""
    if counts not in ("range", "trange", "tqdm", "count"):
        return False
    return counts == "count" or any(monitors.MANY.search(name) for name in identifiers(loop.iterable))


def _looking(expr: s.Expr) -> Iterator[s.Attr]:
    """The `.grad`s in an expression that are looked at."""
    stack = [expr]
    while stack:
        part = stack.pop()
        if isinstance(part, s.Compare) and s.render(part.right) == "None":
            continue
        if isinstance(part, s.Call) and isinstance(part.func, s.Attr) and part.func.name in monitors.PUTS_AWAY:
            continue
        if isinstance(part, s.Attr) and part.name == "grad":
            yield part
        stack.extend(s.parts(part))
