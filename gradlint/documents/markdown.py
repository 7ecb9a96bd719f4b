"""Markdown: each fenced block of Python is a program of its own, told in rows of the file.

Blocks are not joined: a page shows alternatives, and the wrong way beside the right one. A block that does not parse
is an excerpt, and nothing is said about it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradlint import engine
from gradlint.documents.escapes import Hidden, hide, is_python
from gradlint.model import Edit, FileResult, Finding, Fixed, Position, Span, Unreadable
from gradlint.python.source import lines_of
from gradlint.records import dataclass, replace
from gradlint.repair.edits import applied

if TYPE_CHECKING:
    from gradlint.config import Settings
    from gradlint.documents import Keep

_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^\r\n]*)")
_LANGUAGES = frozenset({"py", "py3", "python", "python3", "ipython", "ipython3"})


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its first row in the file, its lines without the fence's indentation, and what was cut off."""

    first_row: int
    lines: tuple[str, ...]
    cut: tuple[str, ...]
    indent: str

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def position(self, place: Position) -> Position:
        cut = self.cut[place.row - 1] if place.row <= len(self.cut) else ""
        return Position(place.row + self.first_row - 1, place.column + len(cut))

    def span(self, span: Span) -> Span:
        return Span(self.position(span.start), self.position(span.end))

    def edit(self, edit: Edit) -> Edit:
        """In the file, new lines are indented as the fence is."""
        content = re.sub(r"(?<=\n)(?=[^\r\n])", self.indent, edit.content)
        span = self.span(edit.span)
        if edit.span.start.column == edit.span.end.column == 1:  # whole lines
            content = self.indent + content if edit.content.strip("\r\n") else content
            span = Span(Position(span.start.row, 1), Position(span.end.row, 1))
        return Edit(span, content)


def lint(source: bytes, path: str, settings: Settings, *, repeats: bool = False) -> FileResult:
    """The findings of all blocks; with `repeats` those, too, that say again what another one says."""
    text = _decoded(source)
    if isinstance(text, Unreadable):
        return FileResult(path, unreadable=text)
    linted = ((block, _linted(block, path, settings, repeats)) for block in blocks(text))
    results = [(block, found) for block, found in linted if found is not None]
    return FileResult(
        path,
        tuple(finding for _, result in results for finding in result.findings),
        tuple(crash for _, result in results for crash in result.crashes),
        suppressed=sum(result.suppressed for _, result in results),
        exhausted=tuple(what for _, result in results for what in result.exhausted),
    )


def fix(source: bytes, path: str, settings: Settings, *, unsafe: bool, keep: Keep | None = None) -> Fixed:
    """All fixes applied; what stands round the blocks stays."""

    def linted(now: bytes, repeats: bool) -> FileResult:
        result = lint(now, path, settings, repeats=repeats)
        return result if keep is None else keep(result, now.decode("utf-8-sig", "replace"))

    return Fixed(*engine.fixed(source, path, settings, unsafe=unsafe, lint=linted, programs=_programs, edited=edited))


def _programs(source: bytes) -> list[bytes]:
    text = _decoded(source)
    programs = [] if isinstance(text, Unreadable) else [_program(block) for block in blocks(text)]
    return [program.text.encode() for program in programs if program is not None]


def edited(source: bytes, edits: Sequence[Edit]) -> bytes:
    """A page is UTF-8, whatever a heading says of its coding."""
    bom = codecs.BOM_UTF8 if source.startswith(codecs.BOM_UTF8) else b""
    return bom + applied(source.decode("utf-8-sig"), edits).encode()


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks that say they are Python."""
    fence = info = indent = ""
    first = 0
    inside: list[str] = []
    for row, line in enumerate(lines_of(text), start=1):
        found = _FENCE.match(line)
        if not fence:
            if found and not (found["fence"][0] == "`" and "`" in found["info"]):
                fence, info, indent, first, inside = found["fence"], found["info"], found["indent"], row + 1, []
        elif found and found["fence"].startswith(fence) and not found["info"].strip():
            if _is_python(info) and inside:
                yield _block(first, inside, indent)
            fence = ""
        else:
            inside.append(line)


def _is_python(info: str) -> bool:
    """`python`, `py title="x"`, `{.python .input}`, `{python}`, `{code-block} python`"""
    word = re.match(r"(?:\{(?:code|code-block|code-cell|sourcecode)\}[ \t]*)?\{?\.?([\w-]+)", info)
    return word is not None and word[1].lower() in _LANGUAGES


def _block(first: int, inside: list[str], indent: str) -> Block:
    cut = []
    for line in inside:
        own = line[: len(line) - len(line.lstrip(" \t"))]
        shared = 0
        while shared < min(len(own), len(indent)) and own[shared] == indent[shared]:
            shared += 1
        cut.append(line[:shared])
    return Block(first, tuple(line[len(c) :] for line, c in zip(inside, cut, strict=True)), tuple(cut), indent)


def _program(block: Block) -> Hidden | None:
    """The block as Python; None for an excerpt that does not parse."""
    hidden = hide(block.text)
    return hidden if hidden is not None and is_python(hidden.text) else None


def _linted(block: Block, path: str, settings: Settings, repeats: bool) -> FileResult | None:
    hidden = _program(block)
    if hidden is None:
        return None
    result = engine.lint(hidden.text.encode(), path, replace(settings, project=False), repeats=repeats)
    return replace(result, findings=tuple(_placed(finding, block, hidden) for finding in result.findings))


def _placed(finding: Finding, block: Block, hidden: Hidden) -> Finding:
    fix = finding.fix
    if fix is not None:  # where magics are hidden, a fix might carry what stands for them into the page
        fix = None if hidden.originals else replace(fix, edits=tuple(block.edit(edit) for edit in fix.edits))
    related = tuple(replace(each, span=block.span(each.span)) for each in finding.related)
    return replace(finding, span=block.span(finding.span), related=related, fix=fix)


def _decoded(source: bytes) -> str | Unreadable:
    if b"\0" in source:
        return Unreadable("it is a binary file")
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Unreadable(f"it cannot be decoded: {error}")
