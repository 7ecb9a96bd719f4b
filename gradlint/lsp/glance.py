"""The findings of a text without their fixes, read from Python's own tree alone: a third of the time that `lint` takes.

The scout hears what libcst's reading says, message for message (a test compares the two); it only never had to tell
where. Here it notes the node that each number stands for. What cannot be told so is left to the engine.
"""

from __future__ import annotations

import ast
import hashlib
import pickle
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from gradlint import engine, suppress
from gradlint.comments import lines_of
from gradlint.frontend import scout
from gradlint.frontend import source as reading
from gradlint.frontend.bytescan import worth_reading
from gradlint.frontend.quick import QuickLowering
from gradlint.inquiry import Inquiry
from gradlint.model import FileResult, Finding, Position, RuleCrash, Span
from gradlint.records import replace
from gradlint.telling import repeated

if TYPE_CHECKING:
    from gradlint.config import Settings
    from gradlint.frontend import syntax as s
    from gradlint.rule import Draft

_RECURSION = 5000
#: programs that are remembered: as many as somebody works on at a time
_MOST = 4


def glance(source: bytes, path: str, settings: Settings, memory: Memory | None = None) -> FileResult:
    """As `engine.lint`, but no finding has a fix."""
    if sys.getrecursionlimit() < _RECURSION:
        sys.setrecursionlimit(_RECURSION)
    try:
        result = _glanced(source, path, settings, memory or Memory())
    except (Exception, RecursionError):  # the engine says what is wrong, as a value
        result = None
    return engine.lint(source, path, settings) if result is None else result


def _glanced(source: bytes, path: str, settings: Settings, memory: Memory) -> FileResult | None:
    """None where the engine has to look itself."""
    text = reading.read(source)
    if not isinstance(text, reading.Source) or text.tree is None:
        return None
    enabled = settings.enabled_for(path)
    findings: list[Finding] = []
    again: frozenset[int] = frozenset()
    if worth_reading(text.data, enabled):
        crashes: dict[str, RuleCrash] = {}
        lowered = _Noting(text.tree, scout.unread(text.tree, text.text))
        key = memory.key(settings, enabled, lowered.body)
        drafts = memory.drafts(key, path)
        if drafts is None:
            inquiry = Inquiry(engine.chosen_rules(enabled, settings), settings.target_torch, crashes)
            drafts = inquiry.drafts(lowered.body, set()).drafts
        if crashes:
            return None
        memory.remember(key, path, drafts)
        spans = _Spans(lowered, text.text)
        for draft in drafts:
            found = spans.finding(draft)
            if found is None:
                return None
            findings.append(found)
        again = repeated(list(zip(findings, drafts, strict=True)), lowered.body, settings)
    from gradlint.registry import by_code

    kept, suppressed = suppress.apply(text.text, findings, enabled, frozenset(by_code()))
    kept = [finding for finding in kept if id(finding) not in again]
    kept = [engine.as_severe_as_wanted(f if f.fix is None else replace(f, fix=None), settings) for f in kept]
    kept.sort(key=lambda f: (f.span.start, f.code, f.message))
    return FileResult(path, tuple(kept), suppressed=suppressed)


class Memory:
    """What the rules said of a program last time: many a key changes a comment, or code that has no gradients."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, list[Draft]]] = {}

    def key(self, settings: Settings, enabled: frozenset[str], body: list[s.Stmt]) -> bytes:
        """All that the rules are told; taken before they read the program, for that leaves marks on it."""
        said = settings.options, settings.target_torch, sorted(enabled), body
        return hashlib.blake2b(pickle.dumps(said, pickle.HIGHEST_PROTOCOL)).digest()

    def drafts(self, key: bytes, path: str) -> list[Draft] | None:
        known, drafts = self._known.get(path, (b"", []))
        return drafts if known == key else None

    def remember(self, key: bytes, path: str, drafts: list[Draft]) -> None:
        self._known.pop(path, None)
        self._known[path] = key, drafts
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]


class _Noting(QuickLowering):
    """Translates as the scout does, and notes where each node came from."""

    def __init__(self, module: ast.Module, unread: Collection[int]) -> None:
        self.noted: dict[int, ast.expr | ast.stmt] = {}
        super().__init__(module, unread)

    def expr(self, node: ast.expr) -> s.Expr:
        made = super().expr(node)
        self.noted.setdefault(made.node, node)
        return made

    def _statement(self, node: ast.stmt) -> s.Stmt | None:
        made = super()._statement(node)
        if made is not None:
            self.noted.setdefault(made.node, node)
        return made


class _Spans:
    """Where noted nodes are; Python counts the bytes of a line, and we count characters."""

    def __init__(self, lowered: _Noting, text: str) -> None:
        self._noted = lowered.noted
        self._lines = lines_of(text)

    def finding(self, draft: Draft) -> Finding | None:
        sites = [draft.site, *(site for site, _ in draft.related)]
        spans = {site.node: span for site in sites if (span := self._span(site.node)) is not None}
        return engine.finding_of(draft, spans) if all(site.node in spans for site in sites) else None

    def _span(self, number: int) -> Span | None:
        node = self._noted.get(number)
        if node is None or node.end_lineno is None or node.end_col_offset is None:
            return None
        return Span(self._position(node.lineno, node.col_offset), self._position(node.end_lineno, node.end_col_offset))

    def _position(self, row: int, offset: int) -> Position:
        line = self._lines[row - 1]
        column = offset if line.isascii() else len(line.encode()[:offset].decode(errors="replace"))
        return Position(row, column + 1)
