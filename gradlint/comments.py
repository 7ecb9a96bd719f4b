"""Reads suppression comments, applies them, and complains about useless ones."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradlint.model import (
    SYNTAX_ERROR,
    UNKNOWN_SUPPRESSION,
    UNUSED_SUPPRESSION,
    Edit,
    Finding,
    Fix,
    FixSafety,
    Position,
    Severity,
    Span,
    harmless,
)
from gradlint.python.source import lines_of
from gradlint.records import dataclass, field, replace
from gradlint.registry import by_code, by_name, closest, default_codes

if TYPE_CHECKING:
    from gradlint.model import Finding


_OWN = re.compile(r"#\s*gradlint:\s*(?P<what>[a-z][\w-]*)", re.IGNORECASE)
# behind it: `[GL101]`, `(GL101)`, `=GL101`, `: GL101`, or nothing but the codes
_LISTED = re.compile(r"\s*[=:]?\s*(?:\[(?P<square>[^\]\n]*)\]|\((?P<round>[^)\n]*)\))")
_OPENED = re.compile(r"\s*[=:]?\s*[\[(]?\s*")
_BETWEEN = re.compile(r"\s*,\s*|\s+")
_UNLISTED = re.compile(r"[\w-]+")
_CODE = re.compile(r"[A-Z]{1,4}\d{1,4}|ALL", re.IGNORECASE)
_LINE, _FILE = "ignore", ("ignore-file", "file-ignore", "skip-file")
#: pylint's word: the same behind a line of code; alone on a line it would hold to the end of a block
_LIKE_LINE = "disable"
# what follows a directive; behind a word of a sentence comes the next word
_NO_SENTENCE = re.compile(r"\s*(?:$|[=\[(:#]|GL\d)", re.IGNORECASE)
# as flake8 reads it: what follows the colon and is no code leaves a bare `noqa`
_NOQA = re.compile(r"#\s*noqa\b(?:\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?", re.IGNORECASE)
_MARKER = re.compile(r"#\s*(?:gradlint:|noqa)", re.IGNORECASE)
_WORD = re.compile(r"[^\s,]+")


@dataclass(slots=True)
class Selector:
    """One code, prefix or name inside a comment."""

    text: str
    column: int
    codes: frozenset[str]
    used: bool = False


@dataclass(slots=True)
class Suppression:
    """One comment; `selectors` is None for a bare one, which silences everything."""

    row: int
    column: int
    end_column: int
    whole_file: bool
    own: bool
    selectors: list[Selector] | None
    #: a directive that is none, and what to write instead
    wrong: tuple[str, str] | None = None
    used: bool = field(default=False)

    def silences(self, finding: Finding) -> bool:
        if not self.whole_file and self.row not in finding.span.rows:
            return False
        if self.selectors is None:
            self.used = True
            return True
        matching = [selector for selector in self.selectors if finding.code in selector.codes]
        for selector in matching:
            selector.used = True
        return bool(matching)


def apply(text: str, findings: Sequence[Finding], enabled: frozenset[str]) -> tuple[list[Finding], int]:
    """The findings that stay, with those about the comments themselves, and how many were silenced."""
    lowered = text.lower()
    if "gradlint:" not in lowered and "noqa" not in lowered:
        return list(findings), 0
    suppressions = _suppressions(text, findings)
    if not suppressions:
        return list(findings), 0
    kept = [finding for finding in findings if not _silenced(finding, suppressions)]
    silenced = len(findings) - len(kept)
    if any(finding.code == SYNTAX_ERROR for finding in findings):
        return kept, silenced  # no rule has read this file, so nothing can be called unused
    lines = lines_of(text)
    for complaint in _complaints(suppressions, enabled, lines):
        if not _silenced_by_name(complaint, suppressions):
            kept.append(complaint)
    return kept, silenced


def _silenced(finding: Finding, suppressions: list[Suppression]) -> bool:
    # every comment is asked, so that each that would have silenced the finding counts as used
    return sum(suppression.silences(finding) for suppression in suppressions) > 0


def _silenced_by_name(complaint: Finding, suppressions: list[Suppression]) -> bool:
    """A complaint about a comment yields only to a comment that names its code: a bare one cannot excuse itself."""
    return any(suppression.selectors is not None and suppression.silences(complaint) for suppression in suppressions)


def _suppressions(text: str, findings: Sequence[Finding]) -> list[Suppression]:
    """Only comments that matter here; reading tokens is slow, and most `# noqa` are for other linters."""
    rows = {row for finding in findings for row in finding.span.rows}
    lines = lines_of(text)
    if not any(_MARKER.search(line) and _matters(line, row in rows) for row, line in enumerate(lines, start=1)):
        return []
    return [
        found
        for row, column, comment in _comments(lines)
        if _matters(comment, row in rows)
        for found in _parse(row, column, comment, not lines[row - 1][: column - 1].strip())
    ]


def _matters(comment: str, beside_finding: bool) -> bool:
    lowered = comment.lower()
    if "gradlint:" in lowered:
        return True
    return "noqa" in lowered and (beside_finding or "gl" in lowered)


def _comments(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Row, column (from 1) and text of each marked comment; up to the first place that is not Python."""
    feed = iter(lines)
    try:
        for token in tokenize.generate_tokens(lambda: next(feed, "")):
            if token.type == tokenize.COMMENT and _MARKER.search(token.string):
                yield token.start[0], token.start[1] + 1, token.string
    except (tokenize.TokenError, SyntaxError, ValueError):
        return


def _parse(row: int, column: int, comment: str, alone: bool) -> Iterator[Suppression]:
    for found in _OWN.finditer(comment):
        own = _own(row, column, found, alone)
        if own is not None:
            yield own
    for found in _NOQA.finditer(comment):
        selectors = None
        if found["codes"] is not None:
            everyone = _selectors(found["codes"], column + found.start("codes"))
            selectors = [selector for selector in everyone if re.fullmatch(r"GL\d+", selector.text.upper())]
        yield Suppression(row, column + found.start(), column + found.end(), False, False, selectors)


def _own(row: int, column: int, found: re.Match[str], alone: bool) -> Suppression | None:
    """A comment of ours; None for a sentence that speaks of gradlint."""
    comment, what = found.string, found["what"].lower()
    start, end, codes = found.start(), *_named(comment, found.end())
    selectors = None if codes is None else _selectors(comment[codes[0] : codes[1]], column + codes[0])
    wrong = None
    if what not in (_LINE, *_FILE) and (what != _LIKE_LINE or alone):
        if not _NO_SENTENCE.match(comment, found.end()):
            return None
        named = ", ".join(selector.text for selector in selectors or ())
        rules = found["what"] if _CODE.fullmatch(what) else named or "CODE"
        where = f"`# gradlint: ignore[{rules}]` behind the line, or `# gradlint: ignore-file[{rules}]` for the file"
        wrong, selectors = (found["what"], f": write {where}"), []
    elif selectors == []:
        wrong = comment[found.start("what") : end], ": it names no rule, and silences nothing"
    return Suppression(row, column + start, column + end, what in _FILE, True, selectors, wrong)


def _named(comment: str, at: int) -> tuple[int, tuple[int, int] | None]:
    """Where a directive ends, and where the codes stand that it names; None for one that names none."""
    if listed := _LISTED.match(comment, at):
        return listed.end(), listed.span("square" if listed["square"] is not None else "round")
    opened = _OPENED.match(comment, at)
    first = end = at if opened is None else opened.end()
    codes = None
    while (word := _UNLISTED.match(comment, end)) and _meant(word[0]):
        codes = first, word.end()
        between = _BETWEEN.match(comment, word.end())
        end = between.end() if between else len(comment)
    return (at, None) if codes is None else (codes[1], codes)


def _meant(word: str) -> bool:
    """Whether a word without brackets round it is one that names a rule, and not the beginning of a reason."""
    if _CODE.fullmatch(word) or word.lower() in by_name():
        return True
    return "-" in word and closest(word.lower(), by_name(), 0.8) is not None


def _selectors(codes: str, column: int) -> list[Selector]:
    return [Selector(found[0], column + found.start(), _expand(found[0])) for found in _WORD.finditer(codes)]


def _expand(selector: str) -> frozenset[str]:
    upper = selector.upper()
    if re.fullmatch(r"GL\d*", upper):
        return frozenset(code for code in by_code() if code.startswith(upper))
    rule = by_name().get(selector.lower())
    return frozenset() if rule is None else frozenset({rule.meta.code})


def _complaints(suppressions: list[Suppression], enabled: frozenset[str], lines: list[str]) -> Iterator[Finding]:
    for suppression in suppressions:
        if suppression.wrong is not None:
            if UNKNOWN_SUPPRESSION in enabled:
                directive, hint = suppression.wrong
                yield _finding(UNKNOWN_SUPPRESSION, suppression, None, what=f"directive `{directive}`", hint=hint)
            continue
        if suppression.selectors is None:
            # it may silence a rule that is off in this run
            if (
                UNUSED_SUPPRESSION in enabled
                and suppression.own
                and not suppression.used
                and default_codes() <= enabled
            ):
                yield _unused(suppression, None, lines)
            continue
        for selector in suppression.selectors:
            if not selector.codes:
                if UNKNOWN_SUPPRESSION in enabled and (suppression.own or _looks_like_ours(selector.text)):
                    yield _unknown(suppression, selector)
            elif UNUSED_SUPPRESSION in enabled and not selector.used and _could_fire(selector, enabled):
                yield _unused(suppression, selector, lines)


def _looks_like_ours(code: str) -> bool:
    """Other linters have codes that start with GL, too: only three digits are ours."""
    return re.fullmatch(r"GL\d{3}", code.upper()) is not None


def _could_fire(selector: Selector, enabled: frozenset[str]) -> bool:
    """Complaints about comments come last, so whether those were needed is not known."""
    return bool(selector.codes & enabled - {UNUSED_SUPPRESSION, UNKNOWN_SUPPRESSION, SYNTAX_ERROR})


def _unused(suppression: Suppression, selector: Selector | None, lines: list[str]) -> Finding:
    what = f"`{selector.text}`" if selector else "anything"
    where = "in this file" if suppression.whole_file else "on this line"
    finding = _finding(UNUSED_SUPPRESSION, suppression, selector, what=what, where=where)
    above = lines[suppression.row - 2] if suppression.row > 1 else ""
    if above.rstrip("\r\n").endswith("\\") and not lines[suppression.row - 1][: suppression.column - 1].strip():
        return finding  # without its line, the backslash would continue into the next one
    edit = _without(suppression, selector, lines[suppression.row - 1])
    return replace(finding, fix=Fix(FixSafety.SAFE, "Drop the unused suppression", (edit,)))


def _without(suppression: Suppression, selector: Selector | None, line: str) -> Edit:
    """The edit that takes a selector, the whole comment, or the whole line away; what else it says stays."""
    row = suppression.row
    alone = selector is None or _only_one(suppression, line)
    if not alone and selector is not None:
        start, end = selector.column, selector.column + len(selector.text)
        last = selector is (suppression.selectors or [selector])[-1] and suppression.own
        after = None if last else re.match(r"\s*,\s*|\s+(?=[\w])", line[end - 1 :])
        before = re.search(r"\s*,\s*$|\s+$", line[: start - 1])
        if after:
            end += after.end()
        elif before:
            start -= len(before[0])
        return Edit(Span(Position(row, start), Position(row, end)), "")
    body = line.rstrip("\r\n")
    start, end = suppression.column, suppression.end_column
    rest = body[end - 1 :].strip(" \t,;-:#")
    if rest:
        # what follows is a remark of its own, or another tool's comment
        follows = body[end - 1 :].lstrip()
        content = follows if follows[0] == "#" else f"# {rest}"
        return Edit(Span(Position(row, start), Position(row, len(body) + 1)), content)
    head = body[: start - 1].rstrip()
    if not head:
        return Edit(Span(Position(row, 1), Position(row + 1, 1)), "")
    return Edit(Span(Position(row, len(head) + 1), Position(row, len(body) + 1)), "")


def _only_one(suppression: Suppression, line: str) -> bool:
    """No other code stands in the comment, not even another tool's."""
    if suppression.own:
        return len(suppression.selectors or ()) <= 1
    text = line[suppression.column - 1 : suppression.end_column - 1]
    return len(_WORD.findall(text.partition(":")[2])) <= 1


def _unknown(suppression: Suppression, selector: Selector) -> Finding:
    close = closest(selector.text, (*by_name(), *by_code()), 0.6)
    hint = f": did you mean `{close}`?" if close else ", so this comment silences nothing"
    return _finding(UNKNOWN_SUPPRESSION, suppression, selector, what=f"rule `{selector.text}`", hint=hint)


def _finding(which: str, suppression: Suppression, selector: Selector | None, **names: str) -> Finding:
    rule = by_code()[which]
    start = suppression.column if selector is None else selector.column
    end = suppression.end_column if selector is None else selector.column + len(selector.text)
    span = Span(Position(suppression.row, start), Position(suppression.row, end))
    return Finding(which, rule.rule_name(), Severity(rule.meta.severity), harmless(rule.message.format(**names)), span)
