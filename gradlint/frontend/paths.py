"""Explores a program: where to start, which unusual decisions to try, when enough was seen."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gradlint.events import PLAIN, Frame, Mark, Path, Recipe
from gradlint.frontend import syntax as s
from gradlint.frontend import values as v
from gradlint.frontend.interp import Interpreter
from gradlint.frontend.interp.invoke import Unwound, is_module
from gradlint.frontend.interp.run import TURNS, LoopState, OutOfBudget, Run
from gradlint.frontend.oracle import AMP, Oracle, alternatives
from gradlint.frontend.program import Program
from gradlint.frontend.roles import settle
from gradlint.knowledge import frameworks, naming

MAX_PATHS = 24
PATH_BUDGET = 6_000
FILE_BUDGET = 20_000


class Explorer:
    """All paths of one file, within a budget."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.left = FILE_BUDGET
        self.reached: set[int] = set()
        self._module_run: Run | None = None
        self._depths: dict[str, int] = {}

    def paths(self) -> Iterator[Path]:
        """The module first, then every function that it did not come by."""
        yield from self._explore(-1, None, None)
        for number, (function, cls) in enumerate(self._entry_points()):
            if id(function) not in self.reached and self.left > 0:
                yield from self._explore(number, function, cls)

    def again(self, recipes: Collection[Recipe]) -> Iterator[Path]:
        """Only these paths, known from an earlier look at the same program."""
        starts: list[tuple[s.Def | None, s.Class | None]] = [(None, None), *self._entry_points()]
        for number, (function, cls) in enumerate(starts, start=-1):
            wanted = {forced for start, forced in recipes if start == number}
            if number == -1:
                wanted.add(frozenset())  # the usual run of the module gives the others their names
            for forced in sorted(wanted, key=sorted):
                oracle = Oracle(dict(forced))
                run = self._run(oracle, function, cls)
                if (number, forced) in recipes:
                    yield self._path(run, oracle, function, number)

    def _entry_points(self) -> Iterator[tuple[s.Def, s.Class | None]]:
        """Functions that hold events; callers before callees, so that helpers are seen in their callers."""
        found: list[tuple[int, s.Def, s.Class | None]] = []

        def visit(body: list[s.Stmt], cls: s.Class | None) -> None:
            for stmt in body:
                match stmt:
                    case s.Def():
                        words = self.program.words(stmt.body)
                        if words.events:
                            rank = 0 if words.steps and words.backward else 1
                            found.append((rank - 2 * self._calls_others(stmt), stmt, cls))
                    case s.Class():
                        visit(stmt.body, stmt)
                    case s.If() | s.Try() | s.With():
                        for block in s.blocks(stmt):
                            visit(block, cls)
                    case _:
                        pass

        visit(self.program.core, None)
        for _, function, cls in sorted(found, key=lambda item: item[0]):
            yield function, cls

    def _calls_others(self, function: s.Def) -> int:
        """How deep the chain of event-holding functions below this one is."""
        return self._depth(function.name)

    def _depth(self, name: str) -> int:
        """Each function is asked once; one that is being asked about (a recursion) counts as the end of the chain."""
        known = self._depths.get(name)
        if known is not None:
            return known
        self._depths[name] = deepest = 0
        for definition in self.program.functions.get(name, []):
            words = self.program.own_words(definition.body)
            for maker in words.called & self.program.classes.keys():
                made = self.program.function_words(maker)
                if made is not None and made.events:
                    deepest = max(deepest, 1)
            for callee in (words.called | words.seen) & self.program.functions.keys():
                inner = self.program.function_words(callee)
                if inner is not None and inner.events and callee != name:
                    deepest = max(deepest, 1 + self._depth(callee))
        self._depths[name] = deepest
        return deepest

    # -- one starting point

    def _explore(self, number: int, function: s.Def | None, cls: s.Class | None) -> Iterator[Path]:
        queue: list[dict[str, bool]] = [{}]
        tried: set[frozenset[tuple[str, bool]]] = set()
        count = 0
        while queue and count < MAX_PATHS and self.left > 0:
            forced = queue.pop(0)
            mark = frozenset(forced.items())
            if mark in tried:
                continue
            tried.add(mark)
            count += 1
            oracle = Oracle(forced)
            run = self._run(oracle, function, cls)
            if not any(not isinstance(e, Mark) for e in run.events) and not forced and not oracle.asked:
                return
            yield self._path(run, oracle, function, number)
            if len([k for k in forced if k != AMP]) < 1:
                queue.extend(alternatives(oracle))

    def _path(self, run: Run, oracle: Oracle, function: s.Def | None, number: int) -> Path:
        seen = self.program.all_words
        events, optimizers = settle(run)
        return Path(
            events, optimizers, len(oracle.forced), {**oracle.asked, **oracle.forced},
            function.name if function is not None else "", function.node if function is not None else -1,
            frozenset(self.program.zeroed), "unscale_" in seen.called, (number, frozenset(oracle.forced.items())),
            run.exhausted, self._single(oracle), tuple(run.doubts),
        )  # fmt: skip

    def _single(self, oracle: Oracle) -> bool:
        """`if accum_steps == 1:`, or its like, was answered so that there is one micro-batch."""
        sizes = self.program.modulus_names
        if any(oracle.forced.get(f"{name} > 1") is False for name in sizes):
            return True
        return any(naming.MICRO.search(text) and oracle.implied(text, ">", 1) is False for text in oracle.numbers)

    def _run(self, oracle: Oracle, function: s.Def | None, cls: s.Class | None) -> Run:
        run = Run(self.program, oracle, min(PATH_BUDGET, max(self.left, 500)))
        before = run.budget
        interpreter = Interpreter(run)
        try:
            if function is None:
                interpreter.run_program()
            else:
                self._start(interpreter, run, function, cls)
        except OutOfBudget:
            run.exhausted = True
        self.left -= before - max(run.budget, 0)
        self.reached |= run.reached
        if function is None and self._module_run is None:
            self._module_run = run
        return run

    def _start(self, interpreter: Interpreter, run: Run, function: s.Def, cls: s.Class | None) -> None:
        """Calls a function from nowhere: its parameters are unknown, its object is made as far as possible."""
        self._module_names(interpreter, run)
        me = self._make_self(interpreter, run, cls, function.name) if cls is not None else None
        value = v.Function(function.name, function, run.module, me)
        if _has_step_loop(self.program, function) or function.name.startswith("test"):
            self._call(interpreter, run, value, None)
            return
        # called once for each batch, as its own loop would do
        loop = LoopState(function.node, 0, TURNS)
        run.loops.append(loop)
        for turn in range(TURNS):
            loop.turn = turn
            frames = (Frame(loop.id, turn),)
            run.events.append(Mark(run.site(function, ""), frames, len(run.events), loop=loop.id))
            self._call(interpreter, run, value, turn)
        run.loops.pop()

    def _call(self, interpreter: Interpreter, run: Run, value: v.Function, turn: int | None) -> None:
        assert isinstance(value.node, s.Def)
        kwargs: dict[str, v.Value] = {}
        for param in value.node.params:
            if turn is not None and naming.COUNTER.search(param.name) and param.default is None:
                exact = bool(naming.ZERO_BASED.search(param.name))
                kwargs[param.name] = v.Known(param.name, turn, exact=exact, counter=True)
            elif param.name not in ("self", "cls") and not param.star:
                kwargs[param.name] = v.Unknown(param.name)
        try:
            interpreter.invoke(value, [], kwargs, value.node)
        except Unwound:
            pass

    def _module_names(self, interpreter: Interpreter, run: Run) -> None:
        """Definitions, imports and constants of the module, without running its code again."""
        if self._module_run is not None:
            run.module.names.update(self._module_run.module.names)
        for stmt in self.program.core:
            if isinstance(stmt, s.Def):
                run.module.names.setdefault(stmt.name, v.Function(stmt.name, stmt, run.module))
            elif isinstance(stmt, s.Class):
                run.module.names.setdefault(stmt.name, v.ClassValue(stmt.name, stmt, run.module))
        for value in run.module.names.values():
            if isinstance(value, v.Function | v.ClassValue) and value.env is not None and value.env.outer is None:
                value.env = run.module
            if isinstance(value, v.Optimizer):
                run.register(value.ref)
        interpreter.env = run.module

    def _make_self(self, interpreter: Interpreter, run: Run, cls: s.Class, entry: str) -> v.Instance:
        value = run.module.find(cls.name)
        if not isinstance(value, v.ClassValue):
            value = v.ClassValue(cls.name, cls, run.module)
        bases = interpreter.base_names(value)
        me = v.Instance("self", value, is_module(bases))
        run.behind = PLAIN
        init = interpreter.find_in_class(value, "__init__")
        if isinstance(init, v.Function) and isinstance(init.node, s.Def):
            bound = v.Function(init.key, init.node, init.env, me, init.cls)
            reached = set(run.reached)
            self._call(interpreter, run, bound, None)
            run.reached = reached  # its helpers may still be entry points
            run.events.clear()
            run.doubts.clear()
        called_by = frameworks.calling(bases)
        if called_by is not None and called_by[1].method == entry:
            by_hand = called_by[1].by_hand in self.program.all_words.seen
            run.behind = PLAIN if by_hand else called_by[0]
        return me


def _has_step_loop(program: Program, function: s.Def) -> bool:
    """Whether the function, or one that it calls, loops over batches."""
    waiting, seen = [function], {function.name}
    while waiting:
        current = waiting.pop()
        if _loops_over_batches(program, current):
            return True
        called = (program.own_words(current.body).called & program.functions.keys()) - seen
        seen |= called
        waiting.extend(definition for name in called for definition in program.functions[name])
    return False


def _loops_over_batches(program: Program, function: s.Def) -> bool:
    for stmt in s.walk_stmts(function.body):
        if isinstance(stmt, s.For | s.While):
            words = program.words(stmt.body)
            if words.steps or words.backward:
                return True
    return False
