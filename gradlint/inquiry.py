"""Asks the rules about a text: it is read once, and what they say of it stands at nodes of Python's own tree."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from gradlint.events import Step
from gradlint.facts.file import File
from gradlint.machine.judge import Hooked, Judge, OnCrash, follows_paths
from gradlint.model import Grade, Position, RuleCrash, Severity, Span
from gradlint.paths.explorer import Explorer
from gradlint.prefilter import prefilter
from gradlint.python.lower import Lowering
from gradlint.python.module import Module
from gradlint.registry import all_rules
from gradlint.states import Path
from gradlint.subjects import Kind

if TYPE_CHECKING:
    from gradlint.config import Settings
    from gradlint.events import Event, Site
    from gradlint.python.anchor import Anchors
    from gradlint.python.project import Foreign, Project
    from gradlint.python.source import Source
    from gradlint.rule import Draft, Rule

#: the codes of the rules that can have anything to say about the bytes of a text
Speaking: TypeAlias = Callable[[bytes], frozenset[str]]

_TOO_DEEP = "an expression is nested too deeply to be read to its end"


class Reading:
    """A text with what the rules say of it, and the events of the path that each spoke about."""

    def __init__(self, source: Source, lowering: Lowering, project: Project | None = None, location: str = "") -> None:
        self.source = source
        self.lowering = lowering
        self.project = project
        self.location = location
        #: all paths that were followed, and what was not for want of steps, in sentences
        self.paths: list[Path] = []
        self.exhausted: tuple[str, ...] = (_TOO_DEEP,) if lowering.too_deep else ()
        #: what it cost, counted: the nodes of the program, and the steps of its paths
        self.steps = lowering.size
        self._by_place: dict[tuple[str, Site], Draft] = {}
        self._events: dict[int, tuple[Event, ...]] = {}
        self._optimizers: dict[type[Rule], set[str | None]] = {}
        #: the functions that the paths start with on which something was said, by place; -1 stands for the module
        self._entries: dict[tuple[str, Site], set[int]] = {}
        #: the functions of other files that were followed to their ends, and the events there
        self.reached: set[tuple[str, int, bool]] = set()
        self._anchors: dict[str, Anchors] = {}

    @property
    def drafts(self) -> list[Draft]:
        return list(self._by_place.values())

    @cached_property
    def codes(self) -> Counter[str]:
        """How often each rule speaks."""
        return Counter(d.rule.meta.code for d in self.drafts)

    @cached_property
    def grave(self) -> Counter[str]:
        """The same without advice."""
        return Counter(d.rule.meta.code for d in self.drafts if d.level is not Severity.ADVICE)

    @cached_property
    def anchors(self) -> Anchors:
        """The way to libcst's nodes; asked for only where there are findings."""
        return _anchors(self.source)

    def add(self, draft: Draft, path: Path | None = None) -> None:
        """One for each rule and place; one that was seen takes the place of one that was only guessed."""
        self._optimizers.setdefault(draft.rule, set()).add(draft.optimizer)
        place = draft.rule.meta.code, draft.site
        self._entries.setdefault(place, set()).add(-1 if path is None else path.entry_loop)
        events = () if path is None else path.events
        known = self._by_place.get(place)
        if known is not None and (known.grade is draft.grade or known.grade is Grade.SEEN):
            return
        self._by_place[place] = draft
        self._events[id(draft)] = events
        if known is not None:
            del self._events[id(known)]

    def take_over(self, other: Reading) -> None:
        """All that was said of another text with the same program."""
        self.paths, self.exhausted, self._by_place = other.paths, other.exhausted, other._by_place
        self._events, self._optimizers, self.steps = other._events, other._optimizers, other.steps
        self._entries, self.reached, self.project = other._entries, other.reached, other.project

    def path_of(self, draft: Draft) -> tuple[Event, ...]:
        return self._events.get(id(draft), ())

    def optimizers_of(self, rule: type[Rule]) -> frozenset[str] | None:
        """The optimizers that a rule complains about; None if it followed no path."""
        found = self._optimizers.get(rule, {None})
        return None if None in found else frozenset(x for x in found if x is not None)

    def origin(self, site: Site) -> ast.expr | ast.stmt | ast.pattern:
        """The node of Python's tree that a site was made of."""
        other = self._other(site.path)
        return self.lowering.origins[site.node] if other is None else other.lowering.origin(site.node)

    def span(self, site: Site) -> Span:
        anchors = self.anchors if not site.path else self._anchors_of(site.path)
        start, end = map(anchors.position, anchors.span(self.origin(site)))
        return Span(Position(start[0], start[1] + 1), Position(end[0], end[1] + 1))

    def entries_of(self, draft: Draft) -> tuple[int, ...]:
        """The rows of the functions that all paths start with on which this was said; none if one is the module."""
        nodes = self._entries.get((draft.rule.meta.code, draft.site), {-1})
        origins = self.lowering.origins
        if any(n not in range(len(origins)) for n in nodes):
            return ()  # a method that is inherited from another file is no start of this one
        return tuple(sorted(origins[n].lineno for n in nodes))

    def _other(self, path: str) -> Foreign | None:
        return self.project.file(path) if path and self.project is not None else None

    def _anchors_of(self, path: str) -> Anchors:
        found = self._anchors.get(path)
        if found is None:
            other = self._other(path)
            assert other is not None
            found = self._anchors[path] = _anchors(other.source)
        return found

    def function_of(self, draft: Draft) -> str:
        """The name of the innermost function that a finding is in; "" outside of any."""
        row = self.origin(draft.site).lineno
        name, begun = "", 0
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if begun <= node.lineno <= row <= (node.end_lineno or row):
                    name, begun = node.name, node.lineno
        return name


def _anchors(source: Source) -> Anchors:
    from gradlint.python.anchor import Anchors  # with libcst

    return Anchors(source.text, source.tree, source.lines())


class Inquiry:
    """A set of rules, ready to be asked about one text after the other."""

    def __init__(
        self, rules: Sequence[Rule], target_torch: tuple[int, int] | None, crashes: dict[str, RuleCrash],
        project: Project | None = None, location: str = "", speaking: Speaking | None = None,
    ) -> None:  # fmt: skip
        """`speaking`: which of the rules can have anything to say about a text; the others are not asked."""
        self._rules = rules
        self._project = project
        self._location = location
        self._target = target_torch
        self._can_speak = speaking
        self.crashes = crashes
        self._programs: list[Module] = []

    @classmethod
    def of(
        cls, codes: frozenset[str], settings: Settings, crashes: dict[str, RuleCrash], project: Project | None,
        location: str,
    ) -> Inquiry:  # fmt: skip
        """The rules of these codes, with the options that were configured for them."""
        rules = [rule(settings.options_for(rule.meta.code)) for rule in all_rules() if rule.meta.code in codes]
        # what a text lacks may be in the files that it imports
        others = b"" if project is None else b"\n".join((b"", *project.texts()))
        speaking = (lambda text: prefilter(codes).speaking(text, others)) if settings.prefilter else None
        return cls(rules, settings.target_torch, crashes, project, location, speaking)

    def read(
        self, source: Source, part: ast.Module | None = None, starts: Container[str] | None = None,
        like: Reading | None = None,
    ) -> Reading:  # fmt: skip
        """What the rules say, once for each place; `part`: of this part of the file only, on paths that start with
        these functions. `like`: a reading of some of the same statements, which are not lowered again."""
        return self.asked(self.lowered(source, part, like), starts)

    def lowered(self, source: Source, part: ast.Module | None = None, like: Reading | None = None) -> Reading:
        """The text, of which nothing was said yet."""
        known = like.lowering if like is not None else None
        return Reading(source, Lowering(part or source.tree, known), self._project, self._location)

    def asked(self, reading: Reading, starts: Container[str] | None = None) -> Reading:
        """The same with what the rules say."""
        # most files have nothing that matters from others, and are read as if there were none
        project = self._project if self._project is not None and not self._project.is_empty else None
        program = Module(reading.lowering.body, self._target, "", project, self._location)
        self._programs.append(program)
        if project is not None:
            project.main = program
        if program.foreign:
            return reading
        # to look for words in all of a text costs more than to ask all rules about a part of it
        file, rules = File(program), self._speaking(reading.source) if starts is None else self._rules
        for draft in _about_file(rules, file, self._on_crash):
            reading.add(draft)
        if not program.trains or not any(map(follows_paths, rules)):
            return reading
        judge = Judge(rules, self._on_crash)
        explorer = Explorer(program, starts)
        for path in explorer.paths():
            reading.paths.append(path)
            for draft in judge.judge(path):
                reading.add(draft, path)
        explorer.let_go()
        reading.exhausted += tuple(explorer.exhausted)
        reading.steps += explorer.steps
        # where not all ways were followed, what was not found may still be there; tests leave much at its default
        followed = not explorer.exhausted and not (self._project is not None and self._project.exhausted)
        whole = followed and not file.is_test
        judged = [path for path in reading.paths if any(isinstance(event, Step) for event in path.events)]
        passed = {(e.site.path, e.site.node) for path in judged for e in path.events if e.site.path}
        for place, node in explorer.reached_elsewhere | passed:
            other = reading._other(place)
            if other is not None:
                reading.reached.add((place, other.lowering.origin(node).lineno, whole))
        return reading

    def let_go(self) -> None:
        """Nobody asks about what was read any more: programs, in which all know each other, are gone at once, and not
        when somebody looks for cycles."""
        for program in self._programs:
            vars(program).clear()
        if self._project is not None:
            self._project.let_go()

    def _speaking(self, source: Source) -> Sequence[Rule]:
        """The rules that can have anything to say about the text."""
        if self._can_speak is None:
            return self._rules
        codes = self._can_speak(source.text.encode("utf-8", "surrogatepass"))
        return [rule for rule in self._rules if rule.meta.code in codes]

    def _on_crash(self, code: str, error: Exception) -> None:
        self.crashes.setdefault(code, RuleCrash.of(code, error))


def _about_file(rules: Sequence[Rule], file: File, on_crash: OnCrash) -> Iterator[Draft]:
    """Tells all rules of the file, and gives what those say that need no path."""
    for rule in rules:
        rule.file = file
    asked = Hooked(rules, on_crash)
    yield from asked("on_file")
    for rule in asked.rules("on_call"):
        for call in file.calls(*rule.calls):
            yield from asked.ask(rule, "on_call", call)
    if asked.rules("on_setting"):
        for setting in file.settings:
            for rule in asked.rules("on_setting"):
                if isinstance(setting, rule.configured):
                    yield from asked.ask(rule, "on_setting", setting)
    if asked.rules("on_stack"):
        for stack in file.stacks:
            yield from asked("on_stack", stack)
    yield from _about_operations(asked, file, on_crash)


def _about_operations(asked: Hooked, file: File, on_crash: OnCrash) -> Iterator[Draft]:
    rules = asked.rules("on_operation")
    if not rules:
        return
    from gradlint.facts.delicate import operations

    # divisions are everywhere: they are followed in a file with nothing else only for a rule that is about them
    divisions = any(Kind.DIVIDE in rule.operations and not rule.needs for rule in rules)
    try:
        found = operations(file.program, divisions=divisions)
    except Exception as error:  # what else there is to say is said
        on_crash("numerics", error)
        return
    for operation in found:
        for rule in rules:
            if operation.kind in rule.operations:
                yield from asked.ask(rule, "on_operation", operation)
