"""Explores a program: where to start, which unusual decisions to try, when enough was seen."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence

from gradlint.events import PLAIN, Event, Mark, Turn
from gradlint.knowledge import frameworks, naming
from gradlint.paths import values as v
from gradlint.paths.calls import Unwound, is_module
from gradlint.paths.interpreter import Interpreter
from gradlint.paths.oracle import AMP, Oracle, alternatives
from gradlint.paths.roles import settle
from gradlint.paths.run import TURNS, LoopState, Run
from gradlint.paths.steady import Steady
from gradlint.python import syntax as s
from gradlint.python.callees import components
from gradlint.python.calls import Arguments
from gradlint.python.frame import define
from gradlint.python.module import Module
from gradlint.python.usage import Use
from gradlint.python.values import Enough
from gradlint.records import dataclass, field, replace
from gradlint.states import Path

#: the most paths of one starting point
MAX_PATHS = 24
#: the most and the least steps of a usual path, and how many each statement that it may come by is worth
PATH_BUDGET = 6_000
LEAST_BUDGET = 2_000
STATEMENT_BUDGET = 240
#: so many turns of starting points have all of it; those behind them less and less, down to this
FULL_TURNS = 4
LAST_BUDGET = 500
#: the steps of all unusual paths of a file
FILE_BUDGET = 20_000


@dataclass(slots=True, eq=False)
class _Entry:
    """A starting point, and what is still to be tried from it."""

    number: int
    function: s.Def | None = None
    cls: s.Class | None = None
    #: the functions that it calls, those that make its object included
    calls: tuple[s.Def, ...] = ()
    budget: int = PATH_BUDGET
    #: what its usual path took
    steps: int = 0
    paths: int = 0
    waiting: deque[Mapping[str, bool]] = field(default_factory=deque)
    tried: set[frozenset[tuple[str, bool]]] = field(default_factory=set)
    #: what happens on the usual path, and the conditions that made no difference to it
    events: tuple[Event, ...] = ()
    idle: set[str] = field(default_factory=set)

    @property
    def node(self) -> int:
        return -1 if self.function is None else self.function.node

    @property
    def name(self) -> str:
        """As people know it."""
        if self.function is None:
            return "the module"
        return f"`{self.cls.name}.{self.function.name}`" if self.cls is not None else f"`{self.function.name}`"


class Explorer:
    """All paths of one file, within a budget."""

    def __init__(self, program: Module, starts: Container[str] | None = None) -> None:
        """`starts`: the functions, by name, that paths may start with ("": the module); None: all."""
        self.program = program
        self._starts = starts
        #: the steps that are left for unusual paths
        self.left = FILE_BUDGET
        #: the steps of all paths so far
        self.steps = 0
        self.reached: set[int] = set()
        #: functions of other files that were followed to their ends, by file and row
        self.reached_elsewhere: set[tuple[str, int]] = set()
        #: what was not followed for want of steps, in sentences
        self.exhausted: list[str] = []
        self._module_run: Run | None = None
        self._interpreters: list[Interpreter] = []
        self._depths: dict[int, int] = {}
        self._looping: dict[int, bool] = {}
        self._sizes: dict[int, int] = {}

    def paths(self) -> Iterator[Path]:
        """The usual path of every starting point first, then the unusual ones in turn.

        A function that others of the file call has to wait until all ways through these were followed: one that they
        come by, if only on an unusual path, is no starting point. Where that goes on and on, functions call each other
        in so many ways that few are come by: each turn then has less for each of them.
        """
        waiting = self._entries()
        for turn in itertools.count():
            if not waiting:
                return
            now = self._uncalled(waiting)
            started = []
            for entry in now:
                entry.budget = min(entry.budget, max(LAST_BUDGET, PATH_BUDGET // max(1, turn - FULL_TURNS + 1)))
                path = self._usual(entry) if not self._came_by(entry) else None
                if path is not None and self._may_start(entry):
                    started.append(entry)
                    yield path
            yield from self._unusual(started)
            waiting = [entry for entry in waiting if entry not in now and not self._came_by(entry)]

    def let_go(self) -> None:
        """No path is asked for any more; what ran one may share its values with those that run the others."""
        for interpreter in self._interpreters:
            interpreter.let_go()
        self._interpreters, self._module_run = [], None

    def _entry_points(self) -> Iterator[tuple[s.Def, s.Class | None]]:
        """Functions that hold events; callers before callees, so that helpers are seen in their callers."""
        found = self._holding_events(self.program.core, None)
        for _, function, cls in sorted(found, key=lambda item: item[0]):
            yield function, cls

    def _holding_events(self, body: list[s.Stmt], cls: s.Class | None) -> Iterator[tuple[int, s.Def, s.Class | None]]:
        for stmt in body:
            match stmt:
                case s.Def():
                    words = self.program.words(stmt.body)
                    if words.events:
                        rank = 0 if words.steps and words.backward else 1
                        yield rank - 2 * self._depth(stmt), stmt, cls
                case s.Class():
                    yield from self._holding_events(stmt.body, stmt)
                    for function in self.program.callees.inherited(stmt) if self.program.project else ():
                        if self.program.words_of(function).events:
                            yield -2 * self._depth(function), function, stmt
                case s.If() | s.Try() | s.With():
                    for block in s.blocks(stmt):
                        yield from self._holding_events(block, cls)
                case _:
                    pass

    def _depth(self, function: s.Def) -> int:
        """How deep the chain of event-holding functions below this one is.

        Each function is asked once; one that is being asked about (a recursion) counts as the end of the chain.
        """
        known = self._depths.get(function.node)
        if known is not None:
            return known
        self._depths[function.node] = deepest = 0
        for callee in self.program.called_by(function):
            if callee.node != function.node and self.program.words_of(callee).events:
                deepest = max(deepest, 1 + self._depth(callee))
        self._depths[function.node] = deepest
        return deepest

    # -- one starting point

    def _entries(self) -> list[_Entry]:
        """The module, and every function that holds events."""
        for definition in s.walk_stmts(self.program.core):
            if isinstance(definition, s.Def):
                self._sizes[definition.node] = sum(1 for _ in s.walk_stmts(definition.body))
        own: list[s.Stmt] = [stmt for stmt in self.program.core if not isinstance(stmt, s.Def | s.Class)]
        entries = [_Entry(-1)]
        entries += [_Entry(n, function, cls) for n, (function, cls) in enumerate(self._entry_points())]
        for entry in entries:
            body = own if entry.function is None else entry.function.body
            called = (
                self.program.callees.under(own) if entry.function is None else self.program.called_by(entry.function)
            )
            entry.calls = (*called, *(self.program.callees.of_class(entry.cls) if entry.cls is not None else ()))
            size = sum(1 for _ in s.walk_stmts(body))
            size += len(self.program.core) if entry.function is None else 0
            entry.budget = min(PATH_BUDGET, max(LEAST_BUDGET, STATEMENT_BUDGET * (size + self._size_below(entry))))
        # the module is run all the same: its names are those that functions see
        return [entry for entry in entries if entry.function is None or self._may_start(entry)]

    def _may_start(self, entry: _Entry) -> bool:
        return self._starts is None or (entry.function.name if entry.function is not None else "") in self._starts

    def _size_below(self, entry: _Entry) -> int:
        """How many statements it may come by in the functions that it leads to; more than its budget has room for are
        not counted."""
        size = 0
        met: set[int] = set()
        waiting = [*entry.calls]
        while waiting and STATEMENT_BUDGET * max(size, len(met)) < PATH_BUDGET:
            current = waiting.pop()
            if current.node not in met:
                met.add(current.node)
                size += self._size(current)
                waiting.extend(self.program.called_by(current))
        return size

    def _size(self, function: s.Def) -> int:
        """Of one of another file, too: what is entered is paid for wherever it stands."""
        if function.node not in self._sizes:
            self._sizes[function.node] = sum(1 for _ in s.walk_stmts(function.body))
        return self._sizes[function.node]

    def _uncalled(self, entries: Sequence[_Entry]) -> list[_Entry]:
        """Those that no other one leads to; where all call each other, the first."""
        #: of each function two entries that lead to it: one of them is not itself
        sources: dict[int, list[int]] = {}
        waiting = [(callee, entry.node) for entry in entries for callee in entry.calls]
        while waiting:
            current, source = waiting.pop()
            known = sources.setdefault(current.node, [])
            if source not in known and len(known) < 2:
                known.append(source)
                waiting.extend((callee, source) for callee in self.program.called_by(current))
        return [e for e in entries if not set(sources.get(e.node, ())) - {e.node}] or [*entries[:1]]

    def _came_by(self, entry: _Entry) -> bool:
        return entry.function is not None and id(entry.function) in self.reached

    def _usual(self, entry: _Entry) -> Path | None:
        """The first path, on a budget of its own; None if nothing happens, whatever is decided."""
        oracle = Oracle()
        run = self._run(oracle, entry.function, entry.cls, entry.budget)
        entry.steps = entry.budget - max(run.core.budget, 0)
        if run.exhausted:
            self.exhausted.append(f"{entry.name} is too long to be followed to its end")
        entry.waiting.extend(alternatives(oracle, _last(run)))
        if _last(run) < 0 and not entry.waiting:
            return None
        entry.paths = 1
        entry.tried.add(frozenset())
        path = self._path(run, oracle, entry.function, entry.number)
        entry.events = path.events
        return path

    def _unusual(self, entries: Sequence[_Entry]) -> Iterator[Path]:
        """One path of each in turn, the cheapest first, on the budget that all of them share.

        Where a function stands in the file makes no difference, even if the budget is spent before all had their turn.
        """
        turn = sorted(entries, key=lambda entry: (entry.steps, entry.name))
        on = True
        while on:
            on = False
            for entry in turn:
                forced = self._next(entry) if self.left > 0 else None
                if forced is None:
                    continue
                on = True
                entry.paths += 1
                oracle = Oracle(forced)
                budget = min(PATH_BUDGET, max(self.left, 500))
                run = self._run(oracle, entry.function, entry.cls, budget)
                self.left -= budget - max(run.core.budget, 0)
                path = self._path(run, oracle, entry.function, entry.number, entry.events)
                if path.events == entry.events:
                    entry.idle |= forced.keys() - {AMP}
                yield path
                if forced.keys() <= {AMP}:
                    entry.waiting.extend(alternatives(oracle, _last(run)))
        for entry in turn:
            untried = {frozenset(f.items()) for f in entry.waiting if entry.idle.isdisjoint(f)} - entry.tried
            if untried:
                self.exhausted.append(f"{len(untried)} unusual ways through {entry.name} were not followed")

    @staticmethod
    def _next(entry: _Entry) -> Mapping[str, bool] | None:
        """The next decisions to try; what makes no difference with mixed precision is not tried without."""
        while entry.waiting and entry.paths < MAX_PATHS:
            forced = entry.waiting.popleft()
            mark = frozenset(forced.items())
            if mark not in entry.tried and (len(forced) == 1 or entry.idle.isdisjoint(forced)):
                entry.tried.add(mark)
                return forced
        return None

    def _path(
        self, run: Run, oracle: Oracle, function: s.Def | None, number: int, usual: tuple[Event, ...] = ()
    ) -> Path:
        seen = self.program.all_words
        events, optimizers = settle(run)
        return Path(
            events, optimizers, len(oracle.forced), {**oracle.asked, **oracle.forced},
            function.name if function is not None else "", function.node if function is not None else -1,
            frozenset(run.texts(Use.ZEROED)), "unscale_" in seen.called, frozenset(run.texts(Use.UPDATED)),
            number, frozenset(oracle.forced.items()), run.exhausted, self._single(run, oracle), tuple(run.doubts),
            usual,
        )  # fmt: skip

    def _single(self, run: Run, oracle: Oracle) -> bool:
        """`if accum_steps == 1:`, or its like, was answered so that there is one micro-batch."""
        sizes = run.texts(Use.MODULUS)
        if any(oracle.forced.get(f"{name} > 1") is False for name in sizes):
            return True
        return any(naming.MICRO.search(text) and oracle.implied(text, ">", 1) is False for text in oracle.numbers)

    def _run(self, oracle: Oracle, function: s.Def | None, cls: s.Class | None, budget: int) -> Run:
        run = Run.of(self.program, oracle)
        interpreter = Interpreter(run, budget)
        self._interpreters.append(interpreter)
        try:
            if function is None:
                interpreter.run_program()
            else:
                self._start(interpreter, run, function, cls)
        except Enough:
            run.exhausted = True
        self.steps += budget - max(run.core.budget, 0)
        self.reached |= run.reached
        self.reached_elsewhere |= run.reached_elsewhere
        if function is None and self._module_run is None:
            self._module_run = run
        return run

    def _start(self, interpreter: Interpreter, run: Run, function: s.Def, cls: s.Class | None) -> None:
        """Calls a function from nowhere: its parameters are unknown, its object is made as far as possible."""
        self._module_names(interpreter, run)
        me = self._make_self(interpreter, run, cls, function.name) if cls is not None else None
        frame = run.core.names.frame_of(self.program.owner(function.node))
        value = v.Function(function, frame, me, function.name)
        if self._has_step_loop(function) or function.name.startswith("test"):
            self._call(interpreter, run, value, None)
            return
        # called once for each batch, as its own loop would do
        loop = LoopState(function.node, function.body, 0, TURNS)
        run.loops.append(loop)
        steady = Steady(run, loop, me=me) if not any(_counts(param) for param in function.params) else None
        for turn in range(TURNS):
            if steady is not None and turn < steady.over:
                continue
            loop.turn = turn
            if steady is not None:
                steady.begin()
            frames = (Turn(loop.id, turn),)
            run.events.append(Mark(run.site(function, ""), frames, len(run.events), loop=loop.id))
            self._call(interpreter, run, value, turn)
            if steady is not None and steady.reached(run.core.module):
                steady.repeat()
        run.loops.pop()

    def _has_step_loop(self, function: s.Def) -> bool:
        """Whether the function, or one that it calls, loops over batches."""
        if function.node not in self._looping:
            edges: dict[int, tuple[int, ...]] = {}
            loops: dict[int, bool] = {}
            waiting = [function]
            while waiting:
                current = waiting.pop()
                if current.node not in edges:
                    known = self._looping.get(current.node)
                    called = self.program.called_by(current) if known is None else ()
                    edges[current.node] = tuple(callee.node for callee in called)
                    owner = self.program.owner(current.node)
                    loops[current.node] = _loops_over_batches(owner, current) if known is None else known
                    waiting.extend(called)
            for ring in components(edges):
                found = any(loops[node] or any(loops[callee] for callee in edges[node]) for node in ring)
                loops.update(dict.fromkeys(ring, found))
            self._looping.update(loops)
        return self._looping[function.node]

    def _call(self, interpreter: Interpreter, run: Run, value: v.Function, turn: int | None) -> None:
        assert isinstance(value.node, s.Def)
        kwargs: dict[str, v.Value] = {}
        scope = value.outer.entered(value.node).scope
        for param in value.node.params:
            if turn is not None and _counts(param):
                exact = bool(naming.ZERO_BASED.search(param.name))
                kwargs[param.name] = v.Known(turn, param.name, exact=exact, counter=True)
            elif param.name not in ("self", "cls") and not param.star:
                kwargs[param.name] = v.Unknown(param.name, scope=scope)
        try:
            run.core.enter(value, value.node, Arguments([], kwargs))
        except Unwound:
            pass

    def _module_names(self, interpreter: Interpreter, run: Run) -> None:
        """Definitions, imports and constants of the module, without running its code again."""
        module = run.core.module
        if self._module_run is not None:
            names = self._module_run.core.module.names.items()
            # what an object has is another thing on each path
            module.names.update({k: replace(x, attributes={}) if isinstance(x, v.Instance) else x for k, x in names})
        define(self.program.core, module)
        for value in module.names.values():
            if isinstance(value, v.Function | v.Class) and value.outer.scope is module.scope:
                value.outer = module
            if isinstance(value, v.Optimizer):
                run.register(value.ref)

    def _make_self(self, interpreter: Interpreter, run: Run, cls: s.Class, entry: str) -> v.Instance:
        value = run.core.module.find(cls.name)
        if not isinstance(value, v.Class):
            value = v.Class(cls, run.core.module)
        bases = interpreter.names.base_names(value)
        me = v.Instance(value, key="self", module=is_module(bases))
        run.behind = PLAIN
        init = run.core.objects.function(value, "__init__")
        if init is not None:
            init.owner = me
            reached = set(run.reached)
            self._call(interpreter, run, init, None)
            classes = run.core.classes_of(cls)
            empty = [k for k, x in me.attributes.items() if isinstance(x, v.Constant) and x.value is None]
            for name in empty:
                if classes.is_filled(cls, name):
                    del me.attributes[name]  # it has its value by the time that somebody calls the other methods
            run.reached = reached  # its helpers may still be entry points
            run.events.clear()
            run.doubts.clear()
        called_by = frameworks.calling(bases)
        if called_by is not None and called_by[1].method == entry:
            line = run.core.classes_of(cls).lineage(cls)
            files = {self.program, *(self.program.owner(one.node) for one in line)}  # its base may be of another one
            by_hand = any(called_by[1].by_hand in file.all_words.seen for file in files)
            run.behind = PLAIN if by_hand else called_by[0]
        return me


def _last(run: Run) -> int:
    """The number of the last event; -1 if nothing happens."""
    return next((event.index for event in reversed(run.events) if not isinstance(event, Mark)), -1)


def _counts(param: s.Param) -> bool:
    """It is handed the number of the batch."""
    return bool(naming.COUNTER.search(param.name)) and param.default is None


def _loops_over_batches(program: Module, function: s.Def) -> bool:
    for stmt in s.walk_stmts(function.body):
        if isinstance(stmt, s.For | s.While):
            words = program.words(stmt.body)
            if words.steps or words.backward:
                return True
    return False
