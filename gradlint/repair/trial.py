"""Tries a rule's repairs on the text: what parses, cures the finding and brings no other is offered."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.machine.effects import Licence, exhausted, harm
from gradlint.model import Fix, FixSafety, Severity
from gradlint.python.source import Broken, Source
from gradlint.records import dataclass
from gradlint.repair.bound_names import newly_unbound
from gradlint.repair.edits import difference
from gradlint.repair.focus import Focus
from gradlint.repair.switches import newly_unswitched

if TYPE_CHECKING:
    from gradlint.inquiry import Inquiry, Reading
    from gradlint.rule import Draft, Repair

#: a fix may uncover this many further mistakes, each of which is mended with it
_COMPANIONS = 3
#: texts that are tried for one finding
_TRIALS = 10
#: all trials of a file cost at most this many times the steps of linting it; short files, of some steps, may cost more
_TIMES = 3
_LEAST = 10_000
_SPENT = "the steps for trying fixes in this file are spent"


@dataclass(frozen=True, slots=True)
class _Cure:
    """A text without the finding, and how it came about."""

    text: str
    messages: tuple[str, ...]
    safety: FixSafety


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What the rules say of the file, or of the part of it that a fix concerns, without and with the fix."""

    before: Reading
    after: Reading
    #: where paths that come by the changed code may start
    starts: frozenset[str]

    def beyond(self, code: str, *, advice: bool) -> Counter[str]:
        """What is there beyond what may be: all that was, without one of the finding's own code.

        What was wrong may leave something to advise upon; `advice`: what was only advice may not.
        """
        allowed = self.before.codes.copy()
        allowed[code] -= 1
        told = self.after.codes if advice else self.after.grave | Counter({code: self.after.codes[code]})
        return Counter({key: count for key, count in told.items() if count > allowed[key]})

    def harm(self, licence: Licence) -> str | None:
        """What the fix does to training beside what it is meant to do."""
        if licence.aspects and (exhausted(self.before.paths, self.starts) or exhausted(self.after.paths, self.starts)):
            return "the code is too long to follow to its end"
        return harm(self.before.paths, self.after.paths, licence)


class Offers:
    """The fixes for one file's findings."""

    def __init__(self, reading: Reading, inquiry: Inquiry, before: Reading | None = None) -> None:
        """`before`: what the inquiry says of the source, if that is known."""
        self._source = reading.source
        self._tree = reading.source.tree
        self._focus = Focus(reading.source)
        self._reading = reading
        self._inquiry = inquiry
        #: the steps that are left for trials
        self._left = max(_LEAST, _TIMES * reading.steps)
        self._before = self._paid(inquiry.read(reading.source)) if before is None else before
        self._trials = _TRIALS
        #: texts that were looked at already: several findings often share a fix
        self._seen: dict[str, _Verdict | str] = {}
        self._narrowed: dict[frozenset[str], Reading] = {}
        self._readings: dict[str, Reading] = {}

    def offer(self, draft: Draft) -> Fix | str | None:
        """A fix; or why there is none; or None if the rule proposes none."""
        reasons: list[str] = []
        code = draft.rule.meta.code
        self._trials = _TRIALS
        if self._left <= 0:
            return _SPENT
        for cure in self._cures(self._reading, draft, _COMPANIONS, reasons, code, Licence()):
            message = "; ".join(dict.fromkeys(cure.messages))
            return Fix(cure.safety, message, difference(self._source.text, cure.text))
        return "; ".join(dict.fromkeys(reasons)) or None

    def _cures(
        self, reading: Reading, draft: Draft, depth: int, reasons: list[str], code: str, licence: Licence,
        homes: frozenset[str] = frozenset(),
    ) -> Iterator[_Cure]:  # fmt: skip
        """Texts in which the finding is gone and no other has come; those that need no further mending first.

        `licence`: what the fixes so far may change of the training.
        """
        licence |= Licence(frozenset(draft.rule.mends), reading.optimizers_of(draft.rule))
        uncovering: list[tuple[_Cure, Counter[str]]] = []
        for repair in draft.repairs:
            tried = _attempt(reading, draft, repair)
            if isinstance(tried, Refusal):
                reasons.append(tried.reason)
                continue
            now = self._judged(tried)
            if isinstance(now, str):
                reasons.append(now)
                continue
            extra = now.beyond(code, advice=draft.level is Severity.ADVICE)
            cure = _Cure(tried, (repair.message,), repair.safety or draft.rule.meta.fix)
            harm = now.harm(licence) if not extra else None
            if harm:
                reasons.append(harm)
            elif not extra:
                yield cure
            elif code in extra:
                reasons.append("the finding would stay")
            else:
                uncovering.append((cure, extra))
        for cure, extra in uncovering:
            if depth:
                here = homes or touched_functions(self._source.text, cure.text) | {reading.function_of(draft)}
                yield from self._with_companions(cure, extra, depth, reasons, code, licence, here)
            else:
                reasons.append(f"it would leave {', '.join(sorted(extra))}")

    def _with_companions(
        self, so_far: _Cure, extra: Counter[str], depth: int, reasons: list[str], code: str, licence: Licence,
        homes: frozenset[str],
    ) -> Iterator[_Cure]:  # fmt: skip
        """What a fix uncovers in the functions it was made in was wrong before, and is mended with it; what it causes
        elsewhere is not."""
        reading = self._read(so_far.text)
        found = False
        for draft in reading.drafts:
            if draft.rule.meta.code not in extra or reading.function_of(draft) not in homes:
                continue
            for cure in self._cures(reading, draft, depth - 1, [], code, licence, homes):
                found = True
                yield _Cure(cure.text, (*so_far.messages, *cure.messages), _weaker(so_far.safety, cure.safety))
        if not found:
            reasons.append(f"it would leave {', '.join(sorted(extra))}")

    def _read(self, text: str) -> Reading:
        if text not in self._readings:
            self._readings[text] = self._paid(self._inquiry.read(Source.of(text)))
        return self._readings[text]

    def _judged(self, text: str) -> _Verdict | str:
        """What the rules say of a text, or why it cannot be."""
        found = self._seen.get(text)
        if found is None:
            self._trials -= 1
            if self._trials < 0:
                return "too many ways were tried"
            found = self._seen[text] = self._judge(text)
        return found

    def _judge(self, text: str) -> _Verdict | str:
        if text == self._source.text:
            return "it would change nothing"
        source = self._focus.read(text)
        if isinstance(source, Broken):
            return f"the result would not parse: {source.message}"
        if not isinstance(source, Source):
            return "the result would not parse"
        names = self._focus.concerned(source.tree)
        old, new = (x if names is None else self._focus.narrowed(x, names) for x in (self._tree, source.tree))
        whole = names is None or self._focus.imports_change(source.tree)
        unbound = newly_unbound(self._tree, source.tree) if whole else newly_unbound(old, new)
        if unbound:
            return f"`{unbound[0]}` would be used where it may not be bound"
        unswitched = newly_unswitched(old, new) if "scaler" in text.lower() else ()
        if unswitched:
            return f"`{unswitched[0]}` works only under a condition here"
        self._inquiry.crashes.clear()
        before = self._before if names is None else self._part(names, old)
        if self._left < before.steps:
            return _SPENT
        # what is judged whole has the places of the whole: what it uncovers is mended there
        after = self._read(text) if names is None else self._paid(self._inquiry.read(source, new))
        starts = self._focus.reaching(source.tree)
        for code in self._inquiry.crashes:
            return f"{code} fails on the result"
        return _Verdict(before, after, starts)

    def _part(self, names: frozenset[str], part: ast.Module) -> Reading:
        """What is said of these definitions before the fix."""
        if names not in self._narrowed:
            self._narrowed[names] = self._paid(self._inquiry.read(self._source, part))
        return self._narrowed[names]

    def _paid(self, reading: Reading) -> Reading:
        self._left -= reading.steps
        return reading


@dataclass(frozen=True, slots=True)
class Refusal:
    """A repair that cannot be carried out."""

    reason: str


def _attempt(reading: Reading, draft: Draft, repair: Repair) -> str | Refusal:
    from gradlint.repair.bench import Bench
    from gradlint.repair.document import Document
    from gradlint.repair.nodes import NotFixable

    document = Document(reading.anchors)
    try:
        repair.act(Bench(document, reading.lowering.origins, reading.path_of(draft)))
        return document.text()
    except NotFixable as refusal:
        return Refusal(str(refusal))


def _weaker(one: FixSafety, other: FixSafety) -> FixSafety:
    return FixSafety.UNSAFE if FixSafety.UNSAFE in (one, other) else FixSafety.SAFE


def touched_functions(old: str, new: str) -> frozenset[str]:
    """The names of the functions whose code differs."""
    before, after = (dict(_functions(ast.parse(text))) for text in (old, new))
    return frozenset(name for name, code in after.items() if before.get(name) != code)


def _functions(tree: ast.Module) -> Iterator[tuple[str, str]]:
    yield "", ast.dump(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, ast.dump(node)
