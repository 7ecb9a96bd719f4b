"""The table of what a rule can override, see and do, for CONTRIBUTING.md: read from the classes themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from types import FunctionType

from gradlint import events, rule, states, subjects
from gradlint.events import Event
from gradlint.repair.bench import Bench

#: what hooks are called with, beside events
SEEN = (
    states.GradientState, states.Window, states.Life, states.Trace, states.Path, events.Params, events.Framework,
    subjects.Call, subjects.Argument, subjects.ClipSetting, subjects.DivisionSetting, subjects.Stack, subjects.Layer,
    subjects.Operation, subjects.File, subjects.Words,
)  # fmt: skip
#: what rules use of the bench itself, beside the functions of its families
PLAIN_VERBS = ("insert", "replace", "replace_all")


def tables() -> str:
    """All of it."""
    parts = [
        ("**Hooks**", ("hook", "what it is told"), _hooks()),
        ("**Fields of a rule**, all but `meta` and `message` optional", ("field", "what it says"), _fields()),
        ("**Events**", ("event", "what happened", "fields"), _events()),
        ("**What else a rule is shown**", ("type", "what it is", "fields and questions"), _seen()),
        ("**The bench's verbs**", ("verb", "what it does"), _verbs()),
    ]
    return "\n\n".join(_table(title, head, rows) for title, head, rows in parts)


def _table(title: str, head: Iterable[str], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [tuple(head), *rows]
    marks = tuple("---" for _ in lines[0])
    return "\n".join((f"{title}:", "", *(f"| {' | '.join(row)} |" for row in (lines[0], marks, *lines[1:]))))


def _hooks() -> Iterator[tuple[str, ...]]:
    kinds = {kind.__name__: kind for kind in _all_events()}
    for name in rule.HOOKS:
        hook = vars(rule.Rule)[name]
        given = [p for p in inspect.signature(hook).parameters.values() if p.name != "self"]
        subject = kinds.get(str(given[0].annotation)) if given else None
        told = _first(hook.__doc__ or (subject.__doc__ if subject else "") or "One whole path.")
        yield f"`{name}({', '.join(f'{p.name}: {p.annotation}' for p in given)})`", told


def _fields() -> Iterator[tuple[str, ...]]:
    for owner, prefix in ((rule.Rule, ""), (rule.RuleMeta, "meta.")):
        remarks = _remarks(owner)
        for name in inspect.get_annotations(owner):
            if name not in ("hooks", "meta", "message"):
                yield f"`{prefix}{name}`", remarks.get(name, _PLAIN.get(name, ""))


#: fields whose name says it all, in a few words more
_PLAIN = {
    "code": "permanent, such as GL101; the first digit is the family",
    "severity": "error, warning or advice", "fix": "what its repairs promise: safe, unsafe, or none",
    "default": "on without being asked for", "options": "names and defaults of what users can set",
}  # fmt: skip


def _events() -> Iterator[tuple[str, ...]]:
    common = ", ".join(f"`{name}`" for name in _members(Event))
    yield "`Event`", "All of them", common
    for kind in _all_events():
        yield f"`{kind.__name__}`", _first(kind.__doc__), ", ".join(f"`{name}`" for name in _members(kind)) or "–"


def _all_events() -> list[type[Event]]:
    return [x for x in vars(events).values() if isinstance(x, type) and issubclass(x, Event) and x is not Event]


def _seen() -> Iterator[tuple[str, ...]]:
    for kind in SEEN:
        yield f"`{kind.__name__}`", _first(kind.__doc__), ", ".join(f"`{name}`" for name in _members(kind))


def _verbs() -> Iterator[tuple[str, ...]]:
    for name, value in vars(Bench).items():
        if isinstance(value, FunctionType) and (value.__module__ != Bench.__module__ or name in PLAIN_VERBS):
            yield f"`bench.{name}`", _first(value.__doc__)


def _members(kind: type) -> list[str]:
    """What a class has of its own: fields, then properties and methods."""
    asked = (name for name, value in vars(kind).items() if isinstance(value, FunctionType | property))
    # the machine moves a state on, not a rule
    return [
        name for name in dict.fromkeys((*inspect.get_annotations(kind), *asked)) if name[0] != "_" and name != "advance"
    ]


def _remarks(kind: type) -> dict[str, str]:
    """The `#:` comments above fields."""
    found: dict[str, str] = {}
    said: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        remark, field = re.match(r"\s+#: (.*)", line), re.match(r"    (\w+):", line)
        if remark:
            said.append(remark[1])
        else:
            if field and said:
                found[field[1]] = " ".join(said)
            said = []
    return found


def _first(text: str | None) -> str:
    """The first sentence, on one line, fit for a table."""
    paragraph = " ".join(inspect.cleandoc(text or "").partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".").replace("|", "\\|")
