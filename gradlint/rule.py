"""What a rule is: metadata, a message, hooks on gradient events, and the findings they draft."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from gradlint.events import Backward, Clip, Edit, Event, Mark, Read, Schedule, Site, Step, Unscale, Update, Zero
from gradlint.model import FAMILIES, Category, FixSafety, Grade, Severity
from gradlint.records import dataclass
from gradlint.states import GradientState, Life, Phase, Trace, Window
from gradlint.subjects import (
    Argument,
    Call,
    ClipSetting,
    DivisionSetting,
    Evidence,
    File,
    Kind,
    Layer,
    Low,
    Operation,
    Prob,
    Setting,
    Stack,
    Words,
    cut,
)

if TYPE_CHECKING:
    from gradlint.events import Guess
    from gradlint.knowledge.rows import About
    from gradlint.repair.bench import Bench

#: what rules import, beside events and what is known of PyTorch
__all__ = [
    "EVENT_HOOKS", "HOOKS", "Argument", "Aspect", "Call", "ClipSetting", "DivisionSetting", "Draft", "Evidence",
    "File", "FixSafety", "GradientState", "Kind", "Layer", "Life", "Low", "Operation", "OptionValue", "Phase",
    "Prob", "Repair", "Rule", "RuleMeta", "Setting", "Severity", "Stack", "Trace", "Window", "Words", "cut",
    "in_user_words", "outward", "short",
]  # fmt: skip

T = TypeVar("T")
OptionValue = bool | int | float | str


class Aspect(enum.Enum):
    """What of an update a fix may change; everything else has to stay as it was (see `machine.effects`)."""

    BACKWARDS = "backwards"
    STEPS = "steps"
    CLEARS = "clearings"
    CLIPS = "clips"
    UNSCALES = "unscalings"
    UPDATES = "updates of the scaler"
    SCHEDULES = "steps of the scheduler"
    EDITS = "changes of gradients"
    READS = "looks at gradients"
    #: which backwards a step uses
    USED = "gradients that a step uses"
    #: whether a backward, or a step, goes through the scaler
    SCALE = "scaling"
    DIVISION = "division of the loss"
    SYNC = "synchronisation"
    #: where a window ends: whatever stands there, of every optimizer, moves with it
    BOUNDARY = "boundary"


@dataclass(frozen=True, slots=True)
class RuleMeta:
    """What the registry, the documentation and the reports need to know of a rule."""

    code: str
    severity: Severity
    fix: FixSafety = FixSafety.NONE
    default: bool = True
    #: the machine judges it in a run as it does in source: its mistake is an order of events
    runs: bool = False
    #: why no run can show it; "" where one can
    unshowable: str = ""
    #: it is the cause of what else is found near it, and mended first
    cause: bool = False

    @property
    def category(self) -> Category:
        """The family, as the first digit of the code has it."""
        return FAMILIES[self.code[2]]


@dataclass(frozen=True, slots=True)
class Repair:
    """One way to put a finding right: what is offered, in a sentence, and how it is done, with the bench's verbs.

    `act` works on a copy of the file, and fails with a reason where it cannot be done.
    """

    message: str
    act: Callable[[Bench], object]
    #: less than what the rule promises, if this way is not as safe
    safety: FixSafety | None = None


def outward(message: str, event: Event, act: Callable[[Bench, int], object]) -> list[Repair]:
    """The same at the place of an event, then at the call that led there, and so on, so many functions out."""
    return [Repair(message, _at(act, outer)) for outer in range(len(event.via) + 1)]


def _at(act: Callable[[Bench, int], object], outer: int) -> Callable[[Bench], object]:
    return lambda bench: act(bench, outer)


@dataclass(frozen=True, slots=True)
class Draft:
    """A finding before its sites are turned into positions and its severity is configured."""

    rule: type[Rule]
    site: Site
    message: str
    related: tuple[tuple[Site, str], ...] = ()
    severity: Severity | None = None
    #: ways to put it right, the best first; each is tried, and offered only if it works
    repairs: tuple[Repair, ...] = ()
    #: the optimizer whose gradients it speaks of; None where no path was followed
    optimizer: str | None = None
    #: the events that it speaks of; the judge looks at what they are made of, and at what lies between them
    story: tuple[Event, ...] = ()
    #: what it takes for granted; None if all of it was seen
    guess: Guess | None = None

    @property
    def level(self) -> Severity:
        return self.severity if self.severity is not None else self.rule.meta.severity

    @property
    def grade(self) -> Grade:
        return Grade.SEEN if self.guess is None else Grade.GUESSED


class Rule:
    """Base of all rules. A rule overrides the hooks it needs; each yields drafts.

    `on_<event>` hooks are called for every event of every path, once for each optimizer whose
    gradients the event touches, with that optimizer's state *before* the event; `on_trace` sees one whole path.
    The others see the text, once and without paths: `on_call` the calls that `calls` names, `on_operation` what is
    done to numbers on their way to a loss, `on_setting` what frameworks are given, `on_stack` layers in a row,
    `on_file` whatever else `self.file` can tell.
    """

    meta: ClassVar[RuleMeta]
    message: ClassVar[str]
    #: what of an update its fix may change: a fix that changes anything else is not offered
    mends: ClassVar[tuple[Aspect, ...]] = ()
    options: ClassVar[Mapping[str, OptionValue]] = {}
    #: what `on_call` is called for: full names ("torch.autograd.set_detect_anomaly"), or last parts ("GradScaler")
    calls: ClassVar[tuple[str, ...]] = ()
    #: what `on_operation` is called for
    operations: ClassVar[frozenset[Kind]] = frozenset()
    #: what must be in a file, all of it, for the rule to have anything to say; the event of a hook goes without saying,
    #: and what is configured needs no event
    needs: ClassVar[tuple[About | Kind, ...]] = ()
    #: what `on_setting` is called for
    configured: ClassVar[tuple[type[Setting], ...]] = ()
    #: for a rule that has no hook but `on_file`: words of which a file must have one, and what a line must look like
    words: ClassVar[tuple[str, ...]] = ()
    looks: ClassVar[str] = ""
    #: the hooks that it overrides
    hooks: ClassVar[frozenset[str]] = frozenset()
    #: set before any hook is called
    file: File

    def __init_subclass__(cls) -> None:
        cls.hooks = frozenset(name for name in HOOKS if getattr(cls, name) is not getattr(Rule, name))

    def __init__(self, options: Mapping[str, OptionValue] | None = None) -> None:
        self.settings: dict[str, OptionValue] = {**self.options, **(options or {})}

    @classmethod
    def rule_name(cls) -> str:
        """`ClipAfterStep` -> `clip-after-step`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()

    @classmethod
    def documentation(cls) -> str:
        return inspect.cleandoc(cls.__doc__ or "")

    @classmethod
    def summary(cls) -> str:
        return cls.documentation().partition("\n")[0]

    def finding(
        self,
        at: Event | Call | Site,
        *,
        related: Iterable[tuple[Event | Call | Site | None, str]] = (),
        message: str | None = None,
        severity: Severity | None = None,
        repairs: Iterable[Repair] = (),
        place: Site | None = None,
        **names: object,
    ) -> Draft:
        """Draft a finding at an event, filling the message's blanks; `related` tells the story, as far as its places
        are known, `repairs` mend it.

        `place`: where it is told, if that is not where the event happens. What a helper in another file does wrong only
        because of what happens round its call is told at that call.
        """
        text = in_user_words((message or self.message).format(**names))
        told = [(place, said) for place, said in related if place is not None]
        lines = tuple((_site(e), in_user_words(said)) for e, said in told)
        story = tuple(e for e in (at, *(e for e, _ in told)) if isinstance(e, Event))
        place = place or (_seen_from(story) if isinstance(at, Event) else _site(at))
        if place.path != _site(at).path:
            lines += ((_site(at), "this is what it does"),)
        return Draft(type(self), place, text, lines, severity, tuple(repairs), story=story)

    def once(self, key: Hashable, question: Callable[[], T]) -> T:
        """What is found out of a thing in the file, whatever paths lead there: it is asked once for each key."""
        known = self.file.once(self._answers)
        if key not in known:
            known[key] = question()
        return cast("T", known[key])

    def _answers(self, file: File) -> dict[Hashable, object]:
        """A rule keeps nothing in itself: its memory goes with the file."""
        return {}

    def on_zero(self, zero: Zero, state: GradientState) -> Iterator[Draft]:
        yield from ()

    def on_backward(self, backward: Backward, state: GradientState) -> Iterator[Draft]:
        yield from ()

    def on_unscale(self, unscale: Unscale, state: GradientState) -> Iterator[Draft]:
        yield from ()

    def on_edit(self, edit: Edit, state: GradientState) -> Iterator[Draft]:
        yield from ()

    def on_read(self, read: Read, state: GradientState) -> Iterator[Draft]:
        yield from ()

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        yield from ()

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        yield from ()

    def on_update(self, update: Update, state: GradientState) -> Iterator[Draft]:
        yield from ()

    def on_schedule(self, schedule: Schedule, state: GradientState) -> Iterator[Draft]:
        yield from ()

    def on_mark(self, mark: Mark, state: GradientState) -> Iterator[Draft]:
        """A loop begins a turn or is over."""
        yield from ()

    def on_trace(self, trace: Trace) -> Iterator[Draft]:
        yield from ()

    def on_call(self, call: Call) -> Iterator[Draft]:
        """A call of something that `calls` names, wherever it stands."""
        yield from ()

    def on_operation(self, operation: Operation) -> Iterator[Draft]:
        """A delicate operation (log, sqrt, exp, a division, a criterion) whose result becomes a part of a loss."""
        yield from ()

    def on_setting(self, setting: Setting) -> Iterator[Draft]:
        """A limit, or the size of a window, that a framework is given."""
        yield from ()

    def on_stack(self, stack: Stack) -> Iterator[Draft]:
        """Saturating activations in a row."""
        yield from ()

    def on_file(self) -> Iterator[Draft]:
        """The file, once."""
        yield from ()


#: the hook of each event; nobody is asked about what is not known
EVENT_HOOKS: dict[type[Event], str] = {
    Zero: "on_zero", Backward: "on_backward", Unscale: "on_unscale", Edit: "on_edit", Read: "on_read",
    Clip: "on_clip", Step: "on_step", Update: "on_update", Schedule: "on_schedule", Mark: "on_mark",
}  # fmt: skip
#: all hooks, in the order in which they stand above
HOOKS = tuple(name for name in vars(Rule) if name.startswith("on_"))


def _seen_from(story: tuple[Event, ...]) -> Site:
    """Where a story is told: at its first event, or at the call that leads there from the file of all others."""
    first, *others = story
    apart = bool(others) and all(event.site.path != first.site.path for event in others)
    return first.beside(others[0].site.path) if apart else first.site


def _site(at: Event | Call | Site) -> Site:
    return at if isinstance(at, Site) else at.site


def in_user_words(text: str) -> str:
    """Objects of the file's classes are numbered inside: `Trainer#2.scaler` is `self.scaler` where it was written."""
    return _NUMBERED.sub("", _NUMBERED_OBJECT.sub("self.", text)) if "#" in text else text


_NUMBERED_OBJECT = re.compile(r"\w+#\d+\.")
_NUMBERED = re.compile(r"(?<=\w)#\d+")


def short(event: Event) -> str:
    """The user's own text of an event, cut to a length that fits a message: `clip_grad_norm_(…)`."""
    return cut(event.site.text)
