"""Asks the rules about a text: quickly, for what they would say; or thoroughly, for where and how to mend it."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from gradlint.model import Grade, RuleCrash, Severity
from gradlint.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gradlint.events import Event, Path, Recipe
    from gradlint.frontend.lower import Lowering
    from gradlint.frontend.program import Program
    from gradlint.frontend.source import Source
    from gradlint.frontend.syntax import Stmt
    from gradlint.machine.judge import Judge
    from gradlint.rule import Draft, Rule

#: beyond this, libcst is given only what the scout has looked at
_LARGE = 20_000


@dataclass(slots=True)
class Reading:
    """A text as libcst reads it, with what the rules say of it, and the events of the path that each spoke about."""

    text: str
    lowered: Lowering
    drafts: list[Draft]
    events: dict[int, tuple[Event, ...]] = field(default_factory=dict)
    #: the optimizers that each rule complains about; None among them: it followed no path
    optimizers: dict[type[Rule], set[str | None]] = field(default_factory=dict)
    survey: Survey | None = None

    def path_of(self, draft: Draft) -> tuple[Event, ...]:
        return self.events.get(id(draft), ())

    def optimizers_of(self, rule: type[Rule]) -> frozenset[str] | None:
        """The optimizers that a rule complains about; None if that is not known."""
        found = self.optimizers.get(rule, {None})
        return None if None in found else frozenset(x for x in found if x is not None)

    @property
    def lost(self) -> str | None:
        """What libcst drops at the end of a text (a lone carriage return); None if it changes anything else."""
        code = self.lowered.places.code
        return self.text[len(code) :] if self.text.startswith(code) else None

    def function_of(self, draft: Draft) -> str:
        """The name of the innermost function that a finding is in; "" outside of any."""
        row = self.lowered.spans({draft.site.node})[draft.site.node].start.row
        name, begun = "", 0
        for node in self.lowered.functions():
            place = self.lowered.places[node]
            if begun <= place.start.line <= row <= place.end.line:
                name, begun = node.name.value, place.start.line
        return name


@dataclass(frozen=True, slots=True)
class Survey:
    """How often each rule speaks of a text, and on which paths."""

    codes: Counter[str]
    #: the same without advice
    grave: Counter[str]
    recipes: set[Recipe]
    #: all that were followed
    paths: tuple[Path, ...] = ()
    #: the lines that were spoken of, if no path had to be followed to find them
    lines: frozenset[int] | None = None
    #: the functions that were not looked at
    unread: frozenset[int] = frozenset()


class Inquiry:
    """A set of rules, ready to be asked about one text after the other."""

    def __init__(
        self, rules: Sequence[Rule], target_torch: tuple[int, int] | None, crashes: dict[str, RuleCrash]
    ) -> None:  # fmt: skip
        self._rules = rules
        self._target = target_torch
        self._judge: Judge | None = None
        self.crashes = crashes
        #: what was not followed of the last text, for want of steps
        self.exhausted: tuple[str, ...] = ()

    def read(self, text: Source) -> Reading | None:
        """All drafts; None if there are none.

        The scout reads Python's own tree, which is quick; only a text with something to say is read by libcst.
        """
        survey = self.survey(text.text, text.tree) if text.tree is not None else None
        if survey is not None and not survey.codes:
            return None
        reading = self._read_part(text, survey) or self.read_again(text.text, survey)
        return reading if reading.drafts else None

    def _read_part(self, text: Source, survey: Survey | None) -> Reading | None:
        """A large file as far as it matters; None if that is not enough to hear the same again."""
        if survey is None or text.tree is None or len(text.text) < _LARGE:
            return None
        from gradlint.frontend.scout import abridged, counts_lines

        if not counts_lines(text.text):
            return None
        for lines in dict.fromkeys((survey.lines, None)):
            reading = self.read_again(abridged(text.tree, text.text, survey.unread, lines), survey)
            if Counter(d.rule.meta.code for d in reading.drafts) == survey.codes:
                return reading
        return None

    def survey(self, text: str, tree: ast.Module) -> Survey:
        """How often each rule speaks, by the quick reading."""
        from gradlint.frontend import scout
        from gradlint.frontend.quick import QuickLowering

        recipes: set[Recipe] = set()
        unread = scout.unread(tree, text)
        lowered = QuickLowering(tree, unread)
        found = self.drafts(lowered.body, recipes)
        drafts = found.drafts
        sites = [site for d in drafts for site in (d.site, *(other for other, _ in d.related))]
        lines = None if recipes else frozenset(lowered.line(site.node) for site in sites)
        grave = Counter(d.rule.meta.code for d in drafts if d.level is not Severity.ADVICE)
        return Survey(Counter(d.rule.meta.code for d in drafts), grave, recipes, tuple(found.paths), lines, unread)

    def read_again(self, text: str, survey: Survey | None) -> Reading:
        """All drafts of a text, on the paths that were of interest in a survey."""
        import libcst

        from gradlint.frontend.lower import Lowering

        lowered = Lowering(libcst.parse_module(text))
        found = self.drafts(lowered.body, set(), again=survey.recipes if survey is not None else None)
        return Reading(text, lowered, found.drafts, found.events, found.optimizers, survey)

    def drafts(self, body: list[Stmt], spoke: set[Recipe], *, again: set[Recipe] | None = None) -> _Found:
        """What the rules say, once for each place. `spoke`: the paths on which they did; `again`: only on these."""
        from gradlint.frontend.paths import Explorer
        from gradlint.frontend.program import Program
        from gradlint.machine.judge import Judge

        program = Program(body, self._target)
        found = _Found()
        if program.foreign:
            return found
        for draft in (*self._about_program(program), *self._about_numbers(program)):
            found.add(draft)
        if not program.trains:
            return found
        judge = self._judge = self._judge or Judge(self._rules, self._on_crash)
        explorer = Explorer(program)
        for path in explorer.paths() if again is None else explorer.again(frozenset(again)):
            found.paths.append(path)
            for draft in judge.judge(path):
                if found.add(draft, path.events):
                    spoke.add(path.recipe)
        if again is None:
            self.exhausted = tuple(explorer.exhausted)
        return found

    def _about_program(self, program: Program) -> Iterator[Draft]:
        for rule in self._rules:
            try:
                yield from list(rule.on_program(program))
            except Exception as error:  # a rule's crash is one reported error; the rest goes on
                self._on_crash(rule, error)

    def _about_numbers(self, program: Program) -> Iterator[Draft]:
        from gradlint.rule import Rule

        rules = [rule for rule in self._rules if type(rule).on_operation is not Rule.on_operation]
        if not rules:
            return
        from gradlint.frontend.numerics.analysis import operations

        divisions = any(rule.meta.code == "GL602" for rule in rules)
        try:
            found = operations(program, divisions=divisions)
        except Exception as error:  # what else there is to say is said
            self.crashes.setdefault("numerics", crash("numerics", error))
            return
        for operation in found:
            for rule in rules:
                try:
                    yield from list(rule.on_operation(operation, program))
                except Exception as error:  # as above
                    self._on_crash(rule, error)

    def _on_crash(self, rule: Rule, error: Exception) -> None:
        self.crashes.setdefault(rule.meta.code, crash(rule.meta.code, error))


class _Found:
    """Drafts, one for each rule and place."""

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, int], Draft] = {}
        self.events: dict[int, tuple[Event, ...]] = {}
        self.optimizers: dict[type[Rule], set[str | None]] = {}
        self.paths: list[Path] = []

    @property
    def drafts(self) -> list[Draft]:
        return list(self._by_place.values())

    def add(self, draft: Draft, events: tuple[Event, ...] = ()) -> bool:
        """Whether it is new; one that was seen takes the place of one that was only guessed on another path."""
        self.optimizers.setdefault(draft.rule, set()).add(draft.optimizer)
        place = draft.rule.meta.code, draft.site.node
        known = self._by_place.get(place)
        if known is not None and (known.grade is draft.grade or known.grade is Grade.SEEN):
            return False
        self._by_place[place] = draft
        self.events[id(draft)] = events
        if known is not None:
            del self.events[id(known)]
        return True


def crash(rule: str, error: BaseException) -> RuleCrash:
    """An exception as a value."""
    import traceback

    shown = "".join(traceback.format_exception(error, limit=-8))
    return RuleCrash(rule, f"{type(error).__name__}: {error}", shown)
