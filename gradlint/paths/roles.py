"""What leaves no doubt about a role that a name suggests: a closed table, `TABLE`, and what its lines are asked of.

A role that comes from a constructor is never guessed. All others are guessed by their names first (`Guess`); `suspect`
asks the table at once, of what stands in the file, and `settle` once more when a path is done, of what happened on it.
A loss has no line: a backward that is called on it is one, and all other backwards are calls that are not seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gradlint.events import Backward, Event, Guess, OptimizerRef, Role, Step, Unscale, Update, Zero
from gradlint.knowledge import frameworks, naming
from gradlint.knowledge import torch_api as api
from gradlint.paths import values as v
from gradlint.python import syntax as s
from gradlint.python.usage import Use
from gradlint.records import dataclass, field, replace

if TYPE_CHECKING:
    from gradlint.paths.run import Run
    from gradlint.python.module import Module

#: objects of the file's classes are numbered inside: `Trainer#2.scaler`
_NUMBERED = re.compile(r"^\w+#\d+(?=\.)")
_MODULES = re.compile(r"(Module|Model)$")
_OPTIMIZER_HOMES = {"", "optim", "torch.optim", "torch.optim.optimizer"}


@dataclass(slots=True)
class Uses:
    """What a file does with what it names, by text: `self.optimizer` in one method is that of another."""

    #: the methods that are called on a thing
    methods: dict[str, set[str]] = field(default_factory=dict)
    #: o of `scaler.step(o)` and `o.param_groups`, s of `s.scale(x).backward()`, m of `m(x)`
    stepped_by_scaler: set[str] = field(default_factory=set)
    grouped: set[str] = field(default_factory=set)
    scales: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    #: those whose parameters() are asked for
    owners: set[str] = field(default_factory=set)
    #: last names that get a new object of a class, or are annotated, somewhere in the file
    made: dict[str, set[Role]] = field(default_factory=dict)
    #: those that get an object of a class from elsewhere of which nothing is known
    foreign: set[str] = field(default_factory=set)
    frameworks: bool = False

    def calls(self, key: str, *methods: str) -> bool:
        return self.methods.get(key, set()).issuperset(methods)


def uses(program: Module) -> Uses:
    """The evidence of a file; ask `program.once(uses)`."""
    found = Uses(owners=program.usage.texts(Use.OWNER))
    found.frameworks = any(d.partition(".")[0] in frameworks.PACKAGES for d in program.imports.values())
    for call in program.calls():
        _note_call(found, call)
    for stmt in program.statements():
        _note_definitions(found, program, stmt)
        if "param_groups" in program.all_words.seen:
            for expr in s.expressions(stmt):
                if "param_groups" in program.said(expr).names:
                    parts = [p for p in s.walk_expr(expr) if isinstance(p, s.Attr) and p.name == "param_groups"]
                    found.grouped |= {s.render(p.base) for p in parts}
    return found


def _note_call(found: Uses, call: s.Call) -> None:
    func = call.func
    if not isinstance(func, s.Attr):
        found.called.add(s.render(func))
        return
    base = s.render(func.base)
    found.called.add(f"{base}.{func.name}")
    found.methods.setdefault(base, set()).add(func.name)
    if func.name == "step" and naming.SCALER.search(naming.last(base)):
        found.stepped_by_scaler |= {s.render(a) for a in (*call.args[:1], *call.kwargs.values())}
    inner = func.base
    if func.name == "backward" and isinstance(inner, s.Call) and isinstance(inner.func, s.Attr):
        if inner.func.name == "scale" and (inner.args or inner.kwargs):
            found.scales.add(s.render(inner.func.base))


def _note_definitions(found: Uses, program: Module, stmt: s.Stmt) -> None:
    if isinstance(stmt, s.Assign):
        roles = _roles_of_value(program, stmt.value) | _roles_of_annotation(program, stmt.annotation)
        for target in stmt.targets if roles else ():
            found.made.setdefault(naming.last(s.render(target)), set()).update(roles)
        if not roles and _is_foreign(program, stmt.value):
            found.foreign.update(naming.last(s.render(target)) for target in stmt.targets)
    elif isinstance(stmt, s.Def):
        for param in stmt.params:
            roles = _roles_of_annotation(program, param.annotation)
            if roles:
                found.made.setdefault(param.name, set()).update(roles)


def _roles_of_value(program: Module, value: s.Expr) -> set[Role]:
    """The role of what a constructor makes, or of what one of two does: `GradScaler() if amp else None`."""
    if isinstance(value, s.IfExp):
        return _roles_of_value(program, value.then) | _roles_of_value(program, value.other)
    if not isinstance(value, s.Call):
        return set()
    return _roles_of_class(program.dotted(value.func))


def _is_foreign(program: Module, value: s.Expr) -> bool:
    """`LossScaler()`, `LossScaler() if half else None` of another file: what it does to gradients is its own affair."""
    if isinstance(value, s.IfExp):
        return _is_foreign(program, value.then) or _is_foreign(program, value.other)
    home, _, tail = program.dotted(value.func).rpartition(".") if isinstance(value, s.Call) else ("", "", "")
    return bool(home) and tail[:1].isupper() and not naming.GRAD_SCALER.search(tail)


def _roles_of_class(dotted: str) -> set[Role]:
    home, _, tail = dotted.rpartition(".")
    if api.OPTIMIZER_CLASS.match(tail) or (tail == "Optimizer" and home in _OPTIMIZER_HOMES):
        return {Role.OPTIMIZER}
    if tail in api.SCALER_CLASSES:
        return {Role.SCALER}
    if tail in frameworks.CLASSES:
        return {Role.FRAMEWORK}
    return {Role.MODEL} if _MODULES.search(tail) else set()


def _roles_of_annotation(program: Module, annotation: s.Expr | None) -> set[Role]:
    """`torch.optim.Optimizer`, `Optional[GradScaler]`, `nn.Module | None`, and all of them as strings."""
    if annotation is None:
        return set()
    if isinstance(annotation, s.Const) and isinstance(annotation.value, str):
        return {role for name in re.findall(r"[\w.]+", annotation.value) for role in _roles_of_class(name)}
    parts = [p for p in s.walk_expr(annotation) if isinstance(p, s.Name | s.Attr)]
    return {role for part in parts for role in _roles_of_class(program.dotted(part))}


# -- the table


@dataclass(frozen=True, slots=True)
class _Asked:
    """One guess, and what is known about it."""

    key: str
    uses: Uses
    #: the events of the path, as far as it has come
    events: Sequence[Event] = ()
    #: the ids of what was guessed, on the path
    ids: frozenset[str] = frozenset()

    def of(self, *kinds: type[Event]) -> list[Event]:
        """The events of the path in which the thing takes part."""
        return [e for e in self.events if isinstance(e, kinds) and _who(e) in self.ids]


def _who(event: Event) -> str | None:
    match event:
        case Step() | Zero():
            return event.optimizer
        case Backward():
            return event.scaler.id if event.scaler is not None else None
        case _:
            return None


def _made(role: Role) -> Callable[[_Asked], bool]:
    return lambda asked: role in asked.uses.made.get(naming.last(asked.key), ())


def _clears_and_steps(asked: _Asked) -> bool:
    return asked.uses.calls(asked.key, "zero_grad", "step") or bool(asked.of(Zero) and asked.of(Step))


def _stepped_by_scaler(asked: _Asked) -> bool:
    through = any(isinstance(e, Step) and e.scaler is not None for e in asked.of(Step))
    return asked.key in asked.uses.stepped_by_scaler or through


def _has_groups(asked: _Asked) -> bool:
    return asked.key in asked.uses.grouped


def _steps_behind_backward(asked: _Asked) -> bool:
    """Both stand in one function, or in what that calls: a function of the file that runs either is seen."""
    if naming.SCHEDULER.search(naming.last(asked.key)):
        return False
    begun: list[Backward] = []
    for event in asked.events:
        if isinstance(event, Backward) and event.guess is None:
            begun.append(event)
        elif isinstance(event, Step) and event.optimizer in asked.ids and event.guess is None:
            if _PLAIN_STEP.search(event.text) and any(_in_one_function(b, event) for b in begun):
                return True
    return False


def _in_one_function(a: Event, b: Event) -> bool:
    return a.via[:1] == b.via[:1] or () in (a.via, b.via)


#: neither a metric nor an epoch is handed over
_PLAIN_STEP = re.compile(r"\bstep\((closure=)?(\w*closure\w*|lambda\b.*)?\)$")


def _scales_a_loss(asked: _Asked) -> bool:
    return asked.key in asked.uses.scales or bool(asked.of(Backward))


def _leads_to_the_loss(asked: _Asked) -> bool:
    owners = {owner for e in asked.events if isinstance(e, Backward) for owner in e.params.owners}
    return any(o == asked.key or o.startswith(f"{asked.key}.") for o in owners) or asked.key in asked.uses.called


def _parameters_are_used(asked: _Asked) -> bool:
    return asked.key in asked.uses.owners


def _is_used_as_framework(asked: _Asked) -> bool:
    return asked.uses.frameworks or not asked.uses.methods.get(asked.key, set()).isdisjoint(frameworks.TELLING)


#: for each role the uses that leave no doubt, one line each; nothing else does
TABLE: dict[Role, tuple[Callable[[_Asked], bool], ...]] = {
    Role.OPTIMIZER: (
        _made(Role.OPTIMIZER), _clears_and_steps, _stepped_by_scaler, _has_groups, _steps_behind_backward,
    ),
    Role.SCALER: (_made(Role.SCALER), _scales_a_loss),
    Role.MODEL: (_made(Role.MODEL), _leads_to_the_loss, _parameters_are_used),
    Role.FRAMEWORK: (_made(Role.FRAMEWORK), _is_used_as_framework),
    Role.WINDOW: (),
    Role.CALL: (),
}  # fmt: skip


def clips_plainly(given: Sequence[v.Value]) -> bool:
    """A clip by name, of parameters or a model: without a scaler or an optimizer it cannot do much else."""
    if any(isinstance(x, v.Scaler | v.Optimizer) or naming.SCALER.search(naming.last(x.key)) for x in given):
        return False
    return any(isinstance(x, v.ParamsValue | v.Model | v.Instance | v.Unknown) for x in given[:1])


def _holds(guess: Guess, asked: _Asked) -> bool:
    return any(line(asked) for line in TABLE[guess.role])


# -- the two times that it is asked


def suspect(programs: Sequence[Module], role: Role, key: str, what: str = "") -> Guess | None:
    """The guess that a thing of this name plays a role; None if one of the files leaves no doubt about it."""
    key = _NUMBERED.sub("self", key)
    guess = Guess(role, key, f"`{_short(key)}` {what or f'is {role.value}'}")
    return None if any(_holds(guess, _Asked(key, program.once(uses))) for program in programs) else guess


def is_foreign(programs: Sequence[Module], key: str) -> bool:
    """Whether a thing is of a class that nothing is known of, whatever it is called."""
    return any(naming.last(key) in program.once(uses).foreign for program in programs)


def unseen(call: str, what: str) -> Guess:
    """A call whose effect is what its name says."""
    return Guess(Role.CALL, call, f"`{_short(_NUMBERED.sub('self', call))}` {what}")


def settle(run: Run) -> tuple[tuple[Event, ...], dict[str, OptimizerRef]]:
    """The events and optimizers of a path, without the guesses that what happened on it has made certain."""
    known = [program.once(uses) for program in run.programs] if _any_guess(run) else []

    answers: dict[tuple[Guess, tuple[str, ...]], bool] = {}

    def still(guess: Guess, *ids: str) -> bool:
        if (guess, ids) not in answers:
            asked = (_Asked(guess.key, one, run.events, frozenset(ids)) for one in known)
            answers[guess, ids] = not any(_holds(guess, one) for one in asked)
        return answers[guess, ids]

    optimizers = {
        key: ref if ref.guess is None or still(ref.guess, ref.id) else replace(ref, guess=None)
        for key, ref in run.optimizers.items()
    }
    return tuple(_settled(event, still) for event in run.events), optimizers


def _any_guess(run: Run) -> bool:
    return any(ref.guess for ref in run.optimizers.values()) or any(_guesses(event) for event in run.events)


def _guesses(event: Event) -> bool:
    return event.guess is not None or (
        isinstance(event, Backward | Unscale | Step | Update) and event.scaler is not None and bool(event.scaler.guess)
    )


def _settled(event: Event, still: Callable[..., bool]) -> Event:
    if not _guesses(event):
        return event
    if event.guess is not None and not still(event.guess):
        event = replace(event, guess=None)
    if isinstance(event, Backward | Unscale | Step | Update) and event.scaler is not None:
        if event.scaler.guess is not None and not still(event.scaler.guess, event.scaler.id):
            event = replace(event, scaler=replace(event.scaler, guess=None))
    return event


def _short(text: str) -> str:
    if len(text) <= 40:
        return text
    head = text.partition("(")[0]
    return f"{head}(…)" if len(head) <= 36 else f"{text[:36]}…"
