"""Tries a rule's repairs on the text: what parses, cures the finding and brings no other is offered."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.machine.effects import Licence, exhausted, harm
from gradlint.model import Fix, FixSafety, Severity, harmless
from gradlint.python.source import Broken, Source
from gradlint.records import dataclass
from gradlint.repair.bound_names import newly_unbound
from gradlint.repair.change import Change, Original, Part
from gradlint.repair.edits import difference

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
    part: Part
    #: the part is not the whole file
    narrow: bool

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
        if licence.aspects and any(exhausted(x.paths, self.part.starts) for x in (self.before, self.after)):
            return "the code is too long to follow to its end"
        return harm(self.before.paths, self.after.paths, licence)


class Trial:
    """The fixes for one file's findings."""

    def __init__(self, reading: Reading, inquiry: Inquiry, before: Reading | None = None) -> None:
        """`before`: what the inquiry says of the source, if that is known."""
        self._source = reading.source
        self._original = Original(reading.source)
        self._reading = reading
        self._inquiry = inquiry
        #: the steps that are left for trials
        self._left = max(_LEAST, _TIMES * reading.steps)
        self._before = self._paid(inquiry.read(reading.source)) if before is None else before
        self._trials = _TRIALS
        #: texts that were looked at already: several findings often share a fix
        self._seen: dict[str, _Verdict | Refusal] = {}
        self._harms: dict[tuple[str, bool, Licence], str | None] = {}
        self._parts: dict[Part, Reading] = {}
        self._readings: dict[tuple[str, Part | None], Reading] = {}

    def offer(self, draft: Draft) -> Fix | str | None:
        """A fix; or why there is none; or None if the rule proposes none."""
        reasons: list[str] = []
        self._trials = _TRIALS
        if self._left <= 0:
            return _SPENT
        cure = next(self._cures(self._reading, draft, _COMPANIONS, reasons, draft, Licence()), None)
        if cure is None:
            return "; ".join(dict.fromkeys(reasons)) or None
        said = harmless("; ".join(dict.fromkeys(cure.messages)))
        return Fix(cure.safety, said, difference(self._source.text, cure.text))

    def _cures(
        self, reading: Reading, draft: Draft, depth: int, reasons: list[str], finding: Draft, licence: Licence,
        homes: frozenset[str] = frozenset(),
    ) -> Iterator[_Cure]:  # fmt: skip
        """Texts in which the finding is gone and no other has come; those that need no further mending first.

        `draft`: what is mended now, the finding or what its fix uncovers. `licence`: what the fixes so far may change
        of the training.
        """
        licence |= Licence(frozenset(draft.rule.mends), reading.optimizers_of(draft.rule))
        code = finding.rule.meta.code
        uncovering: list[tuple[_Cure, Counter[str]]] = []
        for repair in draft.repairs:
            self._left -= _effort(reading, draft)
            tried = _attempt(reading, draft, repair)
            now = tried if isinstance(tried, Refusal) else self._judged(tried, finding)
            if isinstance(now, Refusal):
                reasons.append(now.reason)
                continue
            assert isinstance(tried, str)
            extra = now.beyond(code, advice=draft.level is Severity.ADVICE)
            cure = _Cure(tried, (repair.message,), repair.safety or draft.rule.meta.fix)
            harm = self._harm(tried, now, licence) if not extra else None
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
                here = homes or self._touched(cure.text) | {reading.function_of(draft)}
                yield from self._with_companions(cure, extra, depth, reasons, finding, licence, here)
            else:
                reasons.append(_left_over(extra))

    def _with_companions(
        self, so_far: _Cure, extra: Counter[str], depth: int, reasons: list[str], finding: Draft, licence: Licence,
        homes: frozenset[str],
    ) -> Iterator[_Cure]:  # fmt: skip
        """What a fix uncovers in the functions it was made in was wrong before, and is mended with it; what it causes
        elsewhere is not."""
        verdict = self._seen[so_far.text]
        assert isinstance(verdict, _Verdict)
        reading = self._read(so_far.text, verdict.part if verdict.narrow else None)
        found = False
        for draft in reading.drafts:
            if draft.rule.meta.code not in extra or reading.function_of(draft) not in homes:
                continue
            for cure in self._cures(reading, draft, depth - 1, [], finding, licence, homes):
                found = True
                yield _Cure(cure.text, (*so_far.messages, *cure.messages), _weaker(so_far.safety, cure.safety))
        if not found:
            reasons.append(_left_over(extra))

    def _read(self, text: str, part: Part | None) -> Reading:
        """What is said of a text that is tried, at its own places: what a fix uncovers is mended there."""
        if (text, part) not in self._readings:
            source = Source.of(text)
            if part is None:  # all of it was paid for when the text was judged
                self._readings[text, part] = self._inquiry.read(source)
            else:
                self._readings[text, part] = self._paid(self._inquiry.read(source, part.of(source.tree), part.starts))
        return self._readings[text, part]

    def _touched(self, text: str) -> frozenset[str]:
        """The functions in which a text that was tried differs."""
        change = self._original.change(text)
        assert isinstance(change, Change)
        return change.functions()

    def _judged(self, text: str, finding: Draft) -> _Verdict | Refusal:
        """What the rules say of a text, or why it cannot be.

        The part of the file that the change matters to is enough, if the rules find there what is to be mended.
        """
        found = self._seen.get(text)
        if found is None:
            self._trials -= 1
            if self._trials < 0:
                return Refusal("too many ways were tried")
            found = self._seen[text] = self._judge(text)
        if isinstance(found, _Verdict) and found.narrow and not self._is_told(finding, found.before):
            found = self._seen[text] = self._judge(text, whole=True)
        return found

    def _harm(self, text: str, verdict: _Verdict, licence: Licence) -> str | None:
        """What is wrong with a text; findings that share a fix share the answer."""
        asked = text, verdict.narrow, licence
        if asked not in self._harms:
            self._harms[asked] = verdict.harm(licence)
        return self._harms[asked]

    def _is_told(self, finding: Draft, reading: Reading) -> bool:
        """Whether a reading of a part of the file has the finding, too."""
        place, rule = self._reading.origin(finding.site), finding.rule
        return any(draft.rule is rule and reading.origin(draft.site) is place for draft in reading.drafts)

    def _judge(self, text: str, *, whole: bool = False) -> _Verdict | Refusal:
        if text == self._source.text:
            return Refusal("it would change nothing")
        change = self._original.change(text)
        if not isinstance(change, Change):
            return Refusal(f"the result would not parse{f': {change.message}' if isinstance(change, Broken) else ''}")
        if change.source.masked is not None and self._source.masked is None:
            return Refusal("the result would need a newer Python")
        part = change.part()
        narrow = not whole and change.is_apart(part)
        trees = self._source.tree, change.source.tree
        old, new = (part.of(x) for x in trees) if narrow else trees
        unbound = newly_unbound(*trees) if change.of_imports else newly_unbound(old, new)
        if unbound:
            return Refusal(f"`{unbound[0]}` would be used where it may not be bound")
        unswitched = newly_unswitched(old, new) if "scaler" in text.lower() else ()
        if unswitched:
            return Refusal(f"`{unswitched[0]}` works only under a condition here")
        before = self._part(part, old) if narrow else self._before
        if self._left < before.steps:
            return Refusal(_SPENT)
        self._inquiry.crashes.clear()
        only, starts = (new, part.starts) if narrow else (None, None)
        after = self._paid(self._inquiry.read(change.source, only, starts, self._reading))
        if self._inquiry.crashes:
            return Refusal(f"{next(iter(self._inquiry.crashes))} fails on the result")
        return _Verdict(before, after, part, narrow)

    def _part(self, part: Part, tree: ast.Module) -> Reading:
        """What is said of a part of the file before the fix."""
        if part not in self._parts:
            self._parts[part] = self._paid(self._inquiry.read(self._source, tree, part.starts, self._reading))
        return self._parts[part]

    def _paid(self, reading: Reading) -> Reading:
        self._left -= reading.steps
        return reading


@dataclass(frozen=True, slots=True)
class Refusal:
    """A repair that cannot be carried out."""

    reason: str


def _attempt(reading: Reading, draft: Draft, repair: Repair) -> str | Refusal:
    from gradlint.repair.bench import carried_out

    tried = carried_out(repair, reading.anchors, reading.lowering.origins, reading.path_of(draft))
    return tried if isinstance(tried, str) else Refusal(str(tried))


def _effort(reading: Reading, draft: Draft) -> int:
    """What it costs to make a change: whoever mends goes through the path, and through a statement of the module."""
    body, events = reading.source.tree.body, len(reading.path_of(draft))
    if draft.site.path or not body:
        return events
    at = bisect_right(body, reading.origin(draft.site).lineno, key=lambda stmt: stmt.lineno) - 1
    stmt = body[max(at, 0)]
    return max(events, (stmt.end_lineno or stmt.lineno) - stmt.lineno + 1)


def _weaker(one: FixSafety, other: FixSafety) -> FixSafety:
    return FixSafety.UNSAFE if FixSafety.UNSAFE in (one, other) else FixSafety.SAFE


def _left_over(extra: Counter[str]) -> str:
    return f"it would leave {', '.join(sorted(extra))}"


# -- a scaler that works only under a flag

_CALLS = {"scale", "step", "update", "unscale_"}
_FLAG = re.compile(r"(?i)amp|fp16|half|mixed|precision|scaler|autocast|float16")


def newly_unswitched(before: ast.Module, after: ast.Module) -> tuple[str, ...]:
    """Scalers that were used only where a flag said so in some function, and are now used without it there."""
    old, new = _uses(before), _uses(after)
    return tuple(sorted({name for (scope, name), free in new.items() if free and old.get((scope, name)) is False}))


def _uses(tree: ast.Module) -> dict[tuple[str, str], bool]:
    """By function and scaler, whether some use of it stands under no switch."""
    found: dict[tuple[str, str], bool] = {}
    pending: list[tuple[ast.AST, str, bool]] = [(tree, "", False)]
    while pending:
        node, scope, switched = pending.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CALLS:
            base = ast.unparse(node.func.value)
            if "scaler" in base.lower():
                found[scope, base] = found.get((scope, base), False) or not switched
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            scope, switched = f"{scope}.{node.name}", False
        asks = _is_switch(node)
        for name, value in ast.iter_fields(node):
            under = switched or (asks and name != "test")
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    pending.append((child, scope, under))
                    # `if scaler is None: …; return`: what follows stands under it, too
                    under = under or (_is_switch(child) and _leaves(child))
    return found


def _is_switch(node: ast.AST) -> bool:
    return isinstance(node, ast.If | ast.IfExp) and _FLAG.search(ast.unparse(node.test)) is not None


def _leaves(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.body[-1], ast.Return | ast.Continue)
