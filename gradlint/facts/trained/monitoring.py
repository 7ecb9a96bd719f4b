"""Whether a file looks at its gradients, and which of its loops run for long."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Event
from gradlint.facts.trained.portrait import Portraits
from gradlint.knowledge import frameworks, monitors, naming
from gradlint.python import syntax as s
from gradlint.python.module import Program
from gradlint.python.written import called, identifiers

#: a loop of fewer turns, all of them known, is no training
LONG = 1000


class Monitoring:
    """The questions of one file."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._portraits = program.once(Portraits)
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
        clips = [c for name, calls in self._portraits.homes.calls.items() if _is_clip(name) for c, _ in calls]
        return any(self._portraits.value_used(self._program.site(call)) for call in clips)

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
        turns = self._portraits.turns(event)
        if turns is not None:
            return loops[0].node if turns >= LONG else None
        if len(loops) > 1 or self._counts_epochs(event) or _goes_on(loops[0]):
            return loops[0].node
        return None

    def _loop(self, node: int) -> Iterator[s.For | s.While]:
        """Not the made-up loop round a function, nor one over optimizers or models."""
        stmt = self._portraits.homes.stmt(node)
        if isinstance(stmt, s.While):
            yield stmt
        elif isinstance(stmt, s.For):
            text = naming.last(s.render(stmt.iterable).replace(".values()", "").replace(".items()", ""))
            if not naming.OPTIMIZER.search(text) and not isinstance(stmt.iterable, s.Sequence):
                yield stmt

    def _counts_epochs(self, event: Event) -> bool:
        """`def train(epoch)`, `def train_one_epoch(…)`: the loop over epochs is elsewhere."""
        for home in self._portraits.round(event):
            names = [p.name for p in home.params]
            if home.definition is not None:
                names.append(home.definition.name)
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
