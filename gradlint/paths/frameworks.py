"""Applies the rows of the frameworks: who divides the loss, who syncs, who steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.events import (
    WINDOW,
    Backward,
    Clip,
    ClipApi,
    ClipKind,
    Framework,
    Guess,
    Norm,
    Opaque,
    OptimizerRef,
    Role,
    Step,
    Zero,
)
from gradlint.knowledge import frameworks as known
from gradlint.knowledge import naming
from gradlint.knowledge.rows import Argument, Does, Given, Makes, Opens, Passes, Switch, Thing
from gradlint.paths import roles
from gradlint.paths import values as v
from gradlint.paths.run import owner
from gradlint.python import syntax as s
from gradlint.python.calls import Arguments

if TYPE_CHECKING:
    from gradlint.paths.interpreter import Interpreter


class Frameworks:
    """The managed ways of training."""

    def __init__(self, it: Interpreter) -> None:
        self.it = it
        self.run = it.run

    # -- functions and classes

    def framework_function(self, dotted: str, a: v.Arguments, node: s.Call) -> v.Value | None:
        """What a function or class of a framework does; None if there is no row for it."""
        found = known.of_call(dotted)
        if found is None:
            return None
        framework, row = found
        match row:
            case Makes(thing=Thing.OBJECT):
                return self._object(framework, row, a)
            case Makes(thing=Thing.ENGINE):
                return self._engine(framework, row, a, node)
            case Makes(thing=Thing.PLUGIN):
                return _plugin(dotted, row, a)
            case Does(event=type() as event) if event is Backward:
                self.it.gradients.backward(a.at(row.loss) or v.Unknown("loss"), node, framework=framework)
                return v.NONE
            case Opens(context=Switch.LOSS):
                loss = self.it.gradients.as_loss(a.at(row.loss) or v.Unknown("loss"))
                return v.Context(s.render(node), Switch.LOSS, self.run.site(node), value=loss.but(framework=framework))
            case Passes():
                return self._passed(framework, row, a)
            case _:
                return None

    def _object(self, framework: Framework, row: Makes, a: v.Arguments, model: v.Value | None = None) -> v.Managing:
        """The framework's own object, and what it was told about windows."""
        within = [value for where in row.within if (value := a.at(where)) is not None]
        steps = a.kwargs.get(row.window)
        for settings in within:
            steps = steps or _entry(settings, row.window)
        divides = row.divides is not None and row.divides(_given(a))
        return v.Managing(
            "", framework, steps.key if steps is not None else "", divides,
            accumulates=row.accumulates or divides or bool(within), model=model, size=v.whole_number(steps),
            precision=_precision(a.kwargs.get(row.precision)),
        )  # fmt: skip

    def _engine(self, framework: Framework, row: Makes, a: v.Arguments, node: s.Call) -> v.Value:
        model = (a.at(row.model) if row.model is not None else None) or v.Unknown("model")
        ref = OptimizerRef("", "", self.it.domain.params_of(model), "", framework, True)
        engine, scheduler = self._object(framework, row, a, model), v.Scheduler("", None, True, framework)
        return v.Collection([engine, v.Optimizer("", ref), v.Unknown("loader"), scheduler], {}, v.Kind.TUPLE, node)

    def _passed(self, framework: Framework, row: Passes, a: v.Arguments) -> v.Value | None:
        if row.argument is not None:
            return a.at(row.argument)
        values = a.every if row.first is None else a.args[: row.first]
        if row.prepares:
            for value in values:
                self._prepare(framework, value)
        return (
            values[0]
            if len(values) == 1
            else v.Collection(list(values), {}, v.Kind.TUPLE)
            if values or row.prepares
            else None
        )

    def _prepare(self, framework: Framework, value: v.Value) -> None:
        """From here on it is the framework's."""
        optimizer = self.run.optimizer_for(value)
        if optimizer is not None:
            self.run.manage(optimizer, framework)
        if isinstance(value, v.Scheduler):
            value.framework = framework
        elif isinstance(value, v.Unknown) and naming.SCHEDULER.search(naming.last(value.key)):
            self.run.inferred[(value.key, Thing.SCHEDULER)] = v.Scheduler(value.key, None, True, framework)

    # -- methods

    def managing_for(self, base: v.Value, framework: Framework) -> v.Managing:
        """An object that comes from elsewhere, and whose name says what it is."""
        found = self.run.inferred.get((base.key, Thing.OBJECT))
        if not isinstance(found, v.Managing):
            found = v.Managing(base.key, framework, "", False)
            found.guess = roles.suspect(self.run.programs, Role.FRAMEWORK, base.key, f"is {framework.name}'s")
            self.run.inferred[(base.key, Thing.OBJECT)] = found
        return found

    def managing_method(self, base: v.Managing, name: str, a: v.Arguments, node: s.Call) -> v.Value:
        if base.model is not None:
            return self.engine_method(base, name, a, node)
        row = known.method(base.framework, name)
        result: v.Value | None = None
        match row:
            case Does():
                result = self._does(base.framework, row, a, node, by=base, guess=base.guess)
            case Opens():
                result = self._opened(base, row, a, node)
            case Passes():
                result = self._passed(base.framework, row, a)
            case _:
                pass
        return result or v.Unknown(s.render(node), called=name)

    def _does(
        self, framework: Framework, row: Does, a: v.Arguments, node: s.Call, *, by: v.Managing | None = None,
        optimizer: v.Optimizer | None = None, guess: Guess | None = None,
    ) -> v.Value | None:  # fmt: skip
        """The event of a method; `optimizer`: the one inside the engine that has it."""
        ref = optimizer.ref if optimizer is not None else None
        if row.event is Backward:
            self._managed_backward(framework, row, a, node, by, guess)
        elif row.event is Clip:
            return self._managed_clip(framework, row, a, node, guess)
        elif row.event is Step and ref is not None:
            self.run.emit(Step, node, optimizer=ref.id, framework=framework)
        elif row.event is Zero and ref is not None:
            self.run.emit(Zero, node, params=ref.params)
        elif row.event is Opaque and ref is not None:
            self.it.gradients.opaque(frozenset({ref.id}), node)
        elif row.event is not None or row.on is not Thing.SUBCLASS:
            return None
        return v.NONE

    def _managed_backward(
        self, framework: Framework, row: Does, a: v.Arguments, node: s.Call, by: v.Managing | None, guess: Guess | None
    ) -> None:
        loss = a.at(row.loss) or v.Unknown("loss")
        if self.run.window_full is not None and isinstance(loss, v.Tensor) and loss.norm is Norm.RAW:
            loss = loss.but(norm=Norm.UNKNOWN)  # inside its window the framework divides
        own = isinstance(loss, v.Tensor) and by is not None and bool(by.key) and loss.divisor in _numbers(by)
        divides = by is not None and (by.divides or own) and not _keeps_scale(row, a)
        gradient = a.kwargs.get("gradient")
        self.it.gradients.backward(
            loss, node, framework=framework, divides=divides, by=by, gradient=gradient, guess=guess
        )

    def _managed_clip(
        self, framework: Framework, row: Does, a: v.Arguments, node: s.Call, guess: Guess | None = None
    ) -> v.Value:
        kind = row.kind
        if row.value is not None and row.limit is not None:
            value, norm = a.at(row.value), a.at(row.limit)
            by_value = not _is_none(value) and _is_none(norm)
            kind = ClipKind.VALUE if by_value else ClipKind.NORM
            limit = value if by_value else norm if _is_none(value) else None
            a = Arguments(a.args[:1], {"max_norm": limit or v.Unknown("limit")})
        elif row.algorithm is not None and row.limit is not None:
            algorithm = a.at(row.algorithm)
            kind = ClipKind.VALUE if _says_value(algorithm) else ClipKind.NORM
            named = {row.limit.names[0]: a.at(row.limit), row.algorithm.names[0]: algorithm}
            a = Arguments(a.args[:1], {k: x for k, x in named.items() if x is not None and not _is_none(x)})
        return self.it.gradients.clip(node, a, kind=kind, api=ClipApi.MANAGED, framework=framework, guess=guess)

    # -- contexts

    def _opened(self, base: v.Managing, row: Opens, a: v.Arguments, node: s.Call) -> v.Value:
        if row.context is Switch.NO_SYNC:
            model = a.at(row.model) or v.Unknown("model")
            return self.it.gradients.no_sync_context(
                model, node, a.at(row.enabled) if row.enabled is not None else None
            )
        if row.context is Switch.WINDOW:
            window_of = a.at(row.model)
            over = owner(window_of) if window_of is not None else None
            return v.Context(s.render(node), Switch.WINDOW, self.run.site(node), over, value=base)
        # without a word about precision it decides itself whether it autocasts
        found = Switch.AUTOCAST if row.context is Switch.AUTOCAST and base.precision else Switch.OTHER
        return v.Context(s.render(node), found, self.run.site(node))

    def enter_window(self, managing: v.Managing) -> None:
        """Starts a micro-batch; the attribute that tells of the boundary keeps its value behind the block."""
        self.run.window_count += 1
        loop = self.run.loops[-1] if self.run.loops else None
        last = loop is not None and loop.data and loop.number() == loop.turns - 1  # a loader's end closes the window
        size = self.it.conditions.window_size(naming.last(managing.window)) if managing.window else WINDOW
        full = self.run.window_count % size == 0
        self.run.window_full = not managing.accumulates or full or last
        if last:
            self.run.window_count = 0

    # -- engines: a model with its optimizer inside

    def engine_method(self, base: v.Value, name: str, a: v.Arguments, node: s.Call) -> v.Value:
        by = base if isinstance(base, v.Managing) else None
        model = by.model if by is not None and by.model is not None else base
        framework = by.framework if by is not None else known.engine(naming.last(base.key))
        optimizer = self._engine_optimizer(base, model, framework)
        row = known.method(framework, name, Thing.ENGINE)
        if isinstance(row, Does):
            guess = optimizer.ref.guess if row.event is Backward else None
            return self._does(framework, row, a, node, by=by, optimizer=optimizer, guess=guess) or v.NONE
        if name in ("parameters", "named_parameters"):
            return v.ParamsValue("", self.it.domain.params_of(model), True, None, name == "named_parameters")
        if name in ("train", "eval"):
            return base
        return v.Unknown(s.render(node), called=name)

    def _engine_optimizer(self, base: v.Value, model: v.Value, framework: Framework) -> v.Optimizer:
        found = self.run.inferred.get((base.key, Thing.ENGINE))
        if not isinstance(found, v.Optimizer):
            seen = isinstance(base, v.Managing)
            what = f"is a {framework.name} engine"
            guess = None if seen else roles.suspect(self.run.programs, Role.FRAMEWORK, base.key, what)
            params = self.it.domain.params_of(model)
            ref = OptimizerRef(f"{base.key} engine", base.key, params, "", framework, False, guess=guess)
            found = v.Optimizer(base.key, ref)
            self.run.inferred[(base.key, Thing.ENGINE)] = found
            self.run.register(ref)
        return found

    # -- objects of the file's own classes, derived from a framework's

    def derived_method(
        self, base: v.Instance, framework: Framework, name: str, a: v.Arguments, node: s.Call
    ) -> v.Value | None:
        row = known.method(framework, name, Thing.SUBCLASS)
        match row:
            case Does():
                return self._does(framework, row, a, node)
            case Makes():
                return v.Unknown(f"{base.key}.{name}()")
            case _:
                return None


def _plugin(dotted: str, row: Makes, a: v.Arguments) -> v.Value:
    """What a plugin knows of the framework's settings; nothing where it is "auto", or stands in a file."""
    entries: dict[str, v.Value] = {}
    for key, where in row.settings.items():
        value = a.at(where)
        for config in row.within:
            value = value or _entry(a.at(config), key)
        if value is not None and not (isinstance(value, v.Constant) and isinstance(value.value, str)):
            entries[key] = value
    return v.Collection([], entries, v.Kind.DICT, s.Name(-1, naming.last(dotted)))


def _precision(value: v.Value | None) -> str:
    if isinstance(value, v.Constant):
        return "" if naming.FULL_PRECISION.match(str(value.value)) else str(value.value)
    return value.key if value is not None else ""


def _entry(config: v.Value | None, key: str) -> v.Value | None:
    return config.entries.get(key) if isinstance(config, v.Collection) else None


def _given(a: v.Arguments) -> Given:
    return Given(tuple(map(_argument, a.args)), {name: _argument(value) for name, value in a.kwargs.items()})


def _argument(value: v.Value) -> Argument:
    if isinstance(value, v.Constant):
        return Argument(value.key, True, value.value)
    if isinstance(value, v.Collection) and value.kind is v.Kind.DICT:
        return Argument(value.key, entries={k: _argument(x) for k, x in value.entries.items()})
    return Argument(value.key)


def _numbers(managing: v.Managing) -> set[str]:
    """How the file may speak of the number of micro-batches of this very object: `accelerator.n`."""
    rows = [row for row in managing.framework.rows if isinstance(row, Makes) and row.window]
    return {f"{managing.key}.{row.window}" for row in rows}


def _keeps_scale(row: Does, a: v.Arguments) -> bool:
    """The framework is told not to divide."""
    wanted = a.kwargs.get(row.undivided) if row.undivided else None
    return wanted is not None and not (isinstance(wanted, v.Constant) and wanted.value is True)


def _is_none(value: v.Value | None) -> bool:
    return value is None or (isinstance(value, v.Constant) and value.value is None)


def _says_value(algorithm: v.Value | None) -> bool:
    """By the string, or by a constant of an enumeration."""
    if isinstance(algorithm, v.External):
        return algorithm.key.endswith(".VALUE")
    return isinstance(algorithm, v.Constant) and str(algorithm.value).lower() == "value"
