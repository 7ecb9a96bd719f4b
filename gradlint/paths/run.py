"""The state of one abstract run: names, attributes, active contexts and loops, and the events so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gradlint.events import (
    ANY,
    PLAIN,
    Doubt,
    Event,
    Framework,
    Guess,
    Mark,
    OptimizerRef,
    Params,
    Role,
    ScalerRef,
    Site,
    Sync,
    Turn,
    Wrap,
    Zero,
)
from gradlint.knowledge import frameworks, naming
from gradlint.knowledge.rows import Switch, Thing
from gradlint.knowledge.torch_api import INNER_OPTIMIZER
from gradlint.paths import roles
from gradlint.paths import values as v
from gradlint.python import syntax as s
from gradlint.python.contexts import without_gradients
from gradlint.python.scope import Scope
from gradlint.python.usage import Use
from gradlint.records import dataclass, field, replace

if TYPE_CHECKING:
    from gradlint.paths.oracle import Oracle
    from gradlint.python.evaluate import Evaluator
    from gradlint.python.module import Module

E = TypeVar("E", bound=Event)

#: the turns of a loop: two whole windows and a rest
TURNS = 8
OUTER_TURNS = 2
MAX_DEPTH = 9


@dataclass(slots=True)
class LoopState:
    """A loop that is running."""

    id: int
    body: list[s.Stmt]
    turn: int = 0
    turns: int = TURNS
    #: text of N if the loop is itself a window: an inner loop over micro-batches
    window: str = ""
    #: it goes over a loader to its end
    loader: bool = False
    #: it goes over data, though it may be broken off
    data: bool = False
    #: how often it goes round: see Turn
    count: str = ""
    size: int | None = None
    #: something hangs on the number of the turn
    asked: bool = False

    def number(self) -> int:
        """The turn, for what hangs on it."""
        self.asked = True
        return self.turn


@dataclass(slots=True)
class Guard:
    """A condition that holds here, if it says that a window is full, or may say so."""

    #: "" where it asks something of every turn that was not understood
    window: str
    exact: bool
    modulo: bool
    text: str
    site: Site
    #: only the name of a flag says so
    guess: Guess | None = None


@dataclass(slots=True)
class Run:
    """Everything that changes while a path is followed."""

    program: Module
    oracle: Oracle
    #: of what is only known by its name
    attributes: dict[tuple[str, str], v.Value] = field(default_factory=dict)
    inferred: dict[tuple[str, Thing], v.Value] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    optimizers: dict[str, OptimizerRef] = field(default_factory=dict)
    contexts: list[v.Context] = field(default_factory=list)
    loops: list[LoopState] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    #: the nodes of the calls that led here
    via: tuple[Site, ...] = ()
    reached: set[int] = field(default_factory=set)
    reached_elsewhere: set[tuple[str, int]] = field(default_factory=set)
    #: loops in which updates are made though nothing in them says so
    updating: set[int] = field(default_factory=set)
    #: the size of gradients was asked for
    measures: bool = False
    #: whether this micro-batch is the last of a framework's window (None outside of one), and how many it has had
    window_full: bool | None = None
    window_count: int = 0
    #: > 0 while the code runs that an undecidable condition chose, next to code with no_sync
    unsure_sync: int = 0
    #: > 0 inside a condition that picks some of the parameters that a loop goes over
    partial: int = 0
    over_parameters: int = 0
    #: > 0 where a batch that went wrong is given up
    aborting: int = 0
    #: the scopes that parameters and locals were first met in, by their names
    met: dict[str, Scope] = field(default_factory=dict)
    #: flags that choose between a scaler and doing without, in the files that were come by
    switches: set[str] = field(default_factory=set)
    #: flags that the file sets to a constant once, as a setting: what they usually are
    flags: dict[str, bool] = field(default_factory=dict)
    serial: int = 0
    #: who runs the backward of what the function returns that the path starts with
    behind: Framework = PLAIN
    #: it was broken off: its budget is spent
    exhausted: bool = False
    #: set by a yield in a function that is used as a context manager
    yielded: list[v.Context] | None = None
    #: the numbers that windows have, by the text of their N
    sizes: dict[str, int] = field(default_factory=dict)
    #: the loops in which what has this name now was made
    made: dict[str, frozenset[int]] = field(default_factory=dict)
    #: what a module was made of: the ids of other modules' parameters, by its own
    parts: dict[str, frozenset[str]] = field(default_factory=dict)
    #: the files in which they are counted
    counted_in: dict[str, str] = field(default_factory=dict)
    #: what was stored under an index, by the key of the thing it was stored in
    entries: dict[str, dict[str, v.Value]] = field(default_factory=dict)
    #: parameters whose gradients a hook divides or multiplies in each backward
    hooked: list[Params] = field(default_factory=list)
    #: the files that were come by, the analysed one first
    programs: list[Module] = field(init=False)
    #: what follows the code
    core: Evaluator = field(init=False)
    #: how modules of this file normalise what they return: (norm, divisor, numbers), by object and method
    own_norms: dict[tuple[str, int], v.Tensor | None] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Module, oracle: Oracle) -> Run:
        run = cls(program, oracle)
        run.programs = [program]
        return run

    def does(self, use: Use, value: v.Value) -> bool:
        """Whether the code does this with a value, by its name where it has it."""
        scope = value.scope if isinstance(value, v.Unknown) else None
        return self.does_with(use, value.key, scope or self.core.frame.scope)

    def does_with(self, use: Use, key: str, scope: Scope) -> bool:
        """A name that its scope does not bind may be anybody's: it is what all files say of it."""
        known = scope.program.usage.of(use, key, scope)
        return known if known is not None else any(program.usage.anywhere(use, key) for program in self.programs)

    def texts(self, use: Use) -> set[str]:
        return set().union(*(program.usage.texts(use) for program in self.programs))

    @property
    def started(self) -> bool:
        """Some gradient event has happened."""
        return any(type(event) is not Mark for event in reversed(self.events[-40:]))

    def site(self, node: s.Node, text: str | None = None) -> Site:
        return self.program.owner(node.node).site(node, text)

    def emit(
        self, event_type: type[E], node: s.Node, text: str | None = None, /, guess: Guess | None = None, **facts: object
    ) -> E:
        if self.aborting and event_type is Zero:
            facts["aborts"] = True
        params = facts.get("params")
        if self.parts and isinstance(params, Params):
            facts["params"] = self.whole(params)
        asked = next((guard.site for guard in reversed(self.guards) if not guard.window), None)
        frames = tuple(Turn(loop.id, loop.turn, loop.window, loop.count, loop.size) for loop in self.loops)
        event = event_type(
            site=self.site(node, text), frames=frames, index=len(self.events), via=self.via, guess=guess, asked=asked,
            **facts,
        )  # fmt: skip
        self.events.append(event)
        return event

    def whole(self, params: Params) -> Params:
        """Those of the modules that a module was made of are its own."""
        owners = {*params.owners}
        waiting = [*owners]
        while waiting:
            new = self.parts.get(waiting.pop(), frozenset()) - owners
            owners |= new
            waiting += new
        return Params(frozenset(owners), params.known) if len(owners) > len(params.owners) else params

    def doubt(self, node: s.Node, params: Params, *, clears: bool) -> None:
        self.doubts.append(Doubt(len(self.events), self.site(node).text, params, clears))

    def size_of(self, window: str) -> int | None:
        """The number of micro-batches of a window, by the text of its N."""
        return int(window) if window.isdecimal() else self.sizes.get(window)

    def fresh(self, key: str) -> str:
        self.serial += 1
        return f"{key}#{self.serial}"

    # -- roles that only a name or a use suggests

    def optimizer_for(self, value: v.Value, text: str = "") -> v.Optimizer | None:
        """The optimizer that this value is, or that its name says it is."""
        match value:
            case v.Optimizer():
                return value
            case v.Unknown() | v.External() | v.Bound():
                key = value.key
                cleared = self.does(Use.ZEROED, value) and key not in self.parts  # these are modules
                if not key or not (naming.OPTIMIZER.search(naming.last(key)) or cleared):
                    return None
                return self._infer_optimizer(_outermost(key), text or key)
            case v.Instance():
                for name in INNER_OPTIMIZER:
                    inner = value.attributes.get(name)
                    if isinstance(inner, v.Optimizer):
                        return inner
                if naming.OPTIMIZER.search(value.cls.key):
                    return self._infer_optimizer(value.key, text or value.key)
                return None
            case v.Collection():
                for item in value.each:
                    found = self.optimizer_for(item)
                    if found is not None:
                        return found
                return None
            case _:
                return None

    def _infer_optimizer(self, key: str, text: str) -> v.Optimizer:
        found = self.inferred.get((key, Thing.OPTIMIZER)) or self.inferred.get((_hidden(key), Thing.OPTIMIZER))
        if not isinstance(found, v.Optimizer):
            framework = self.preparing()
            guess = roles.suspect(self.programs, Role.OPTIMIZER, key)
            found = v.Optimizer(key, OptimizerRef(key, text or key, ANY, "", framework, guess=guess))
            self.inferred[(key, Thing.OPTIMIZER)] = found
            self.optimizers[key] = found.ref
        return found

    def preparing(self) -> Framework:
        """Who takes part in the steps of an optimizer that comes from elsewhere."""
        seen = (frameworks.preparing(program.all_words.seen) for program in self.programs)
        return next((framework for framework in seen if framework is not PLAIN), PLAIN)

    def scaler_for(self, value: v.Value) -> v.Scaler | None:
        if isinstance(value, v.Scaler):
            return value
        if isinstance(value, v.Unknown | v.Instance) and naming.SCALER.search(naming.last(value.key)):
            found = self.inferred.get((value.key, Thing.SCALER))
            if not isinstance(found, v.Scaler):
                guess = roles.suspect(self.programs, Role.SCALER, value.key)
                found = v.Scaler(value.key, ScalerRef(value.key, value.key, guess=guess))
                self.inferred[(value.key, Thing.SCALER)] = found
            return found
        return None

    def register(self, ref: OptimizerRef) -> None:
        self.optimizers[ref.id] = ref

    def birth(self, ref: OptimizerRef) -> OptimizerRef:
        """A new optimizer under this name: the one that had it before is gone."""
        now = len(self.events)
        for other in list(self.optimizers.values()):
            if other.text == ref.text and other.until > now:
                self.optimizers[other.id] = replace(other, until=now)
        ref = replace(ref, since=now, params=self.whole(ref.params))
        self.register(ref)
        return ref

    def manage(self, optimizer: v.Optimizer, framework: Framework) -> None:
        optimizer.ref = replace(optimizer.ref, framework=framework)
        self.register(optimizer.ref)

    # -- what is active

    def open(self, context: v.Context) -> None:
        self.contexts.append(context)
        self.core.frame.no_grad = without_gradients(context.kind, outside=self.core.frame.no_grad)

    def autocast(self) -> v.Context | None:
        for context in reversed(self.contexts):
            if context.kind is Switch.AUTOCAST:
                return context if context.enabled is not False else None
        return None

    def no_sync(self) -> v.Context | None:
        for context in reversed(self.contexts):
            if context.kind is Switch.NO_SYNC and context.sync is not Sync.ON:
                return context
        return None

    def window(self, key: str) -> v.Context | None:
        """The framework's window of this model."""
        contexts = (x for x in reversed(self.contexts) if x.kind is Switch.WINDOW)
        return next((x for x in contexts if key and x.model == key), None)

    def sync_of(self, key: str) -> Sync:
        """Whether gradients of this model are synchronised by what runs now."""
        if self.unsure_sync:
            return Sync.MANAGED
        if self.window(key) is not None and self.window_full is False:
            return Sync.OFF
        context = self.no_sync()
        if context is not None:
            return context.sync
        flag = self.attributes.get((key, "require_backward_grad_sync"))
        if flag is not None:
            if isinstance(flag, v.Constant) and (v.known(flag).exact or v.known(flag).window):
                return Sync.ON if flag.value else Sync.OFF
            return Sync.MANAGED
        return Sync.ON

    def wrap_of(self, value: v.Value) -> Wrap:
        match value:
            case v.Model() | v.Instance() | v.ParamsValue() | v.Parameter() | v.Grad() | v.Tensor():
                return value.wrap
            case v.Collection():
                for item in value.each:
                    if self.wrap_of(item) is not Wrap.NONE:
                        return self.wrap_of(item)
                return Wrap.NONE
            case _:
                return Wrap.NONE


def _outermost(key: str) -> str:
    """`self.optim.optimizer` -> `self.optim`: a wrapper and the optimizer in it are one."""
    stem, _, last = key.rpartition(".")
    while last in INNER_OPTIMIZER and naming.OPTIMIZER.search(naming.last(stem)) and not stem.endswith(")"):
        key = stem
        stem, _, last = key.rpartition(".")
    return key


def _hidden(key: str) -> str:
    """`self._optimizer` beside `self.optimizer`: of a base that is not seen, the one is a property for the other."""
    stem, dot, last = key.rpartition(".")
    return f"{stem}.{last.removeprefix('_') if last.startswith('_') else f'_{last}'}" if dot else key


def owner(value: v.Value) -> str:
    """The id of the parameters that belong to a model-like value."""
    match value:
        case v.Model():
            return value.owner or value.key
        case v.Managing() if value.model is not None:
            return owner(value.model)
        case _:
            return value.key


def params_in(value: v.Value) -> Params:
    """The parameters that a value is made of, as far as it says so itself."""
    match value:
        case v.Unknown() | v.Tensor():
            return value.params
        case v.Model() | v.Instance():
            return Params(frozenset({owner(value)}), True)
        case v.ParamsValue() | v.Parameter():
            return value.params
        case _:
            return Params(known=True)
