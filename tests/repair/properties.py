"""What holds for every fix of every file: one function each, to be called with a source."""

from __future__ import annotations

import ast
import functools
import inspect
import io
import itertools
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Collection

from gradlint import engine
from gradlint.config import Layer, Settings
from gradlint.engine import lint
from gradlint.model import Category, Edit, FileResult, Finding, Fixed, Position, Severity
from gradlint.registry import all_rules
from gradlint.repair.rounds import edited

DEFAULT = Settings()
PATH = "train.py"
#: verbs of the bench that take a statement away, and with it the comment that speaks of it
_DELETING_VERB = re.compile(r"\bbench\.(?:\w+\.)*(?:delete|undivide|divide_not_gradients|fuse)\(")
#: the rules whose repairs use them, and those about comments
DELETING = frozenset(
    rule.meta.code
    for rule in all_rules()
    if rule.meta.category is Category.META or _DELETING_VERB.search(inspect.getsource(inspect.getmodule(rule) or rule))
)


@functools.lru_cache(maxsize=512)
def linted(source: bytes, settings: Settings = DEFAULT, *, repeats: bool = False) -> FileResult:
    return lint(source, PATH, settings, repeats=repeats)


@functools.lru_cache(maxsize=512)
def fixed(source: bytes, unsafe: bool, settings: Settings = DEFAULT) -> Fixed:
    """What the engine's `fix` gives; but each text is linted once for all properties."""

    def told(text: bytes, repeats: bool) -> FileResult:
        return linted(text, settings, repeats=repeats)

    made = engine.fixed(source, PATH, settings, unsafe=unsafe, lint=told, programs=lambda text: (text,), edited=edited)
    return Fixed(*made)


def codes(result: FileResult) -> Counter[str]:
    return Counter(finding.code for finding in result.findings)


def offers(source: bytes) -> list[tuple[Finding, tuple[Edit, ...]]]:
    return [(f, f.fix.edits) for f in linted(source).findings if f.fix is not None]


def text_of(source: bytes) -> str:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return source.decode(encoding)


def rows_of(text: str) -> list[str]:
    """The lines with their ends; the last may be empty."""
    return io.StringIO(text, newline="").readlines() + ["" for _ in (0,) if not text or text.endswith(("\n", "\r"))]


# -- the properties


def never_crashes(source: bytes) -> None:
    for result in (linted(source), fixed(source, False).result, fixed(source, True).result):
        assert not result.crashes, result.crashes[0].traceback
        assert result.unreadable is None


def parses(source: bytes) -> None:
    for unsafe in (False, True):
        ast.parse(fixed(source, unsafe).source)


def keeps_encoding_and_newlines(source: bytes) -> None:
    before = text_of(source)
    for unsafe in (False, True):
        new = fixed(source, unsafe).source
        declared = [tokenize.detect_encoding(io.BytesIO(x).readline)[0] for x in (source, new)]
        assert declared[0] == declared[1]
        assert _ends(text_of(new)) <= _ends(before) or not _ends(before)
        assert text_of(new).endswith(("\n", "\r")) == before.endswith(("\n", "\r"))


def _ends(text: str) -> set[str]:
    return {row[len(row.rstrip("\r\n")) :] for row in rows_of(text)} - {""}


def fixing_twice_changes_nothing(source: bytes) -> None:
    for unsafe in (False, True):
        once = fixed(source, unsafe)
        again = fixed(once.source, unsafe)
        assert [f.code for f in again.applied] == []
        assert again.source == once.source


def _come(source: bytes, after: FileResult, applied: Collection[Finding]) -> Counter[str]:
    """What was not there; advice on what was wrong anyway may come where more than advice was mended."""
    mended = {finding.code for finding in applied}
    lenient = any(finding.severity is not Severity.ADVICE for finding in applied)
    told = [f for f in after.findings if not (lenient and f.severity is Severity.ADVICE and f.code not in mended)]
    return Counter(finding.code for finding in told) - codes(linted(source))


def raises_no_other_rule(source: bytes) -> None:
    for unsafe in (False, True):
        after = fixed(source, unsafe)
        assert _come(source, after.result, after.applied) == Counter()
        assert codes(linted(after.source)) == codes(after.result), "what is left is not what is told"
        assert after.applied or after.source == source


def raises_no_other_rule_alone(source: bytes) -> None:
    """With one rule selected, a fix still offends none of the others."""
    for code in sorted({finding.code for finding, _ in offers(source)}):
        alone = fixed(source, True, Settings(layers=(Layer(select=(code,)),)))
        assert _come(source, linted(alone.source), alone.applied) == Counter(), f"by {code} alone"
        assert {finding.code for finding in alone.applied} <= {code}


def edits_are_apart_and_inside(source: bytes) -> None:
    rows = rows_of(text_of(source))
    for finding, edits in offers(source):
        assert edits, finding.code
        ordered = sorted(edits, key=lambda e: e.span.start)
        for one, other in itertools.pairwise(ordered):
            assert one.span.end <= other.span.start, finding.code
        for edit in edits:
            assert Position(1, 1) <= edit.span.start <= edit.span.end, finding.code
            for place in (edit.span.start, edit.span.end):
                assert place.row <= len(rows), finding.code
                assert place.column <= len(rows[place.row - 1].rstrip("\r\n")) + 1, finding.code


def applies_what_it_offers(source: bytes) -> None:
    """The edits alone, put in by other means, give what the engine gives; so no other line changes."""
    text = text_of(source)
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    found = offers(source)
    for finding, edits in found:
        assert edited(source, edits) == _put_in(text, edits).encode(encoding), finding.code
    whole = fixed(source, True)
    if len(whole.applied) == 1:
        made = whole.applied[0].fix
        assert made is not None
        assert whole.source == _put_in(text, made.edits).encode(encoding)


def _put_in(text: str, edits: tuple[Edit, ...]) -> str:
    """Character by character, and so unlike the engine's way."""
    starts: dict[Position, list[Edit]] = {}
    for edit in edits:
        starts.setdefault(edit.span.start, []).append(edit)
    out, until = [], Position(1, 1)
    for row, line in enumerate(rows_of(text), start=1):
        for column, character in enumerate([*line, ""], start=1):
            here = Position(row, column)
            for edit in sorted(starts.pop(here, []), key=lambda e: e.span.end):
                out.append(edit.content)
                until = edit.span.end
            if here >= until:
                out.append(character)
    assert not starts, "an edit begins where no text is"
    return "".join(out)


def leaves_nothing_to_fix(source: bytes) -> None:
    for unsafe in (False, True):
        after = linted(fixed(source, unsafe).source)
        assert [(f.code, f.fix) for f in after.findings if f.fixable(unsafe=unsafe)] == []


def loses_no_comment(source: bytes) -> None:
    before = _comments(source)
    for finding, edits in offers(source):
        lost = before - _comments(edited(source, edits))
        if finding.code in DELETING:
            lost -= _of_deleted(source, edits)
        assert lost == Counter(), finding.code
    for unsafe in (False, True):
        after = fixed(source, unsafe)
        if not DELETING & {finding.code for finding in after.applied}:
            assert before - _comments(after.source) == Counter()


def _comments(source: bytes, only: Collection[int] | None = None) -> Counter[str]:
    tokens = tokenize.tokenize(io.BytesIO(source).readline)
    found = [token for token in tokens if token.type == tokenize.COMMENT]
    return Counter(token.string for token in found if only is None or token.start[0] in only)


def _of_deleted(source: bytes, edits: tuple[Edit, ...]) -> Counter[str]:
    """The comments that speak of a line which goes, behind it or right above it; and those that are to go."""
    rows = rows_of(text_of(source))
    gone = {row for edit in edits for row in range(edit.span.start.row, edit.span.end.row + 1)}
    speaking: set[int] = set()
    for row in sorted(gone, reverse=True):
        alone = rows[row - 1].lstrip().startswith("#") and "gradlint" not in rows[row - 1]
        if not alone or row + 1 in speaking:
            speaking.add(row)
    return _comments(source, speaking)


PROPERTIES: tuple[Callable[[bytes], None], ...] = (
    never_crashes,
    parses,
    keeps_encoding_and_newlines,
    fixing_twice_changes_nothing,
    raises_no_other_rule,
    raises_no_other_rule_alone,
    edits_are_apart_and_inside,
    applies_what_it_offers,
    leaves_nothing_to_fix,
    loses_no_comment,
)
