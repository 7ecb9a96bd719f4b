"""Notebooks: linted as one program, and fixed cell by cell with every other byte left as it is."""

from __future__ import annotations

import ast
import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gradlint import engine
from gradlint.documents.cells import CodeCell, Joined, join
from gradlint.documents.escapes import hide, is_python
from gradlint.model import (
    SYNTAX_ERROR,
    Cell,
    Edit,
    FileResult,
    Finding,
    Fixed,
    FixSafety,
    Position,
    Severity,
    Span,
    Unreadable,
    in_order,
)
from gradlint.python.source import has_gradients, lines_of, unfinished
from gradlint.records import dataclass, replace
from gradlint.repair.edits import applied

if TYPE_CHECKING:
    from gradlint.config import Settings
    from gradlint.documents import Keep

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_PLACE = re.compile(r"(\d+):(\d+)(?=: )")

__all__ = ["CodeCell", "FixedCells", "cells_of", "fix", "fix_cells", "lint", "lint_cells", "per_cell"]
Cells = tuple[CodeCell, ...]


@dataclass(frozen=True, slots=True)
class NotANotebook:
    """Why there is nothing to lint; without a reason, because it is empty or a notebook of another language."""

    reason: str = ""
    row: int | None = None
    column: int = 1


@dataclass(frozen=True, slots=True)
class Source:
    """The value of one cell's `source`: a string, or a list of strings."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Notebook:
    """The file as text, and the sources of its Python cells by their numbers."""

    text: str
    bom: bytes
    sources: Mapping[int, Source]

    def code_cells(self) -> tuple[CodeCell, ...]:
        return tuple(CodeCell(number, source.text) for number, source in self.sources.items())

    def with_sources(self, texts: Mapping[int, str]) -> bytes:
        """The file with new texts in some cells, written as the old ones were."""
        text = self.text
        for number, new in sorted(texts.items(), reverse=True):
            source = self.sources[number]
            text = text[: source.start] + _written(text[source.start : source.end], new) + text[source.end :]
        return self.bom + text.encode("utf-8", "surrogatepass")


def read(data: bytes) -> Notebook | NotANotebook:
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    if not data[len(bom) :].strip():
        return NotANotebook()  # just made: editors take it for a notebook without cells
    try:
        text = data[len(bom) :].decode("utf-8", "surrogatepass")
        whole = json.loads(text)
    except UnicodeDecodeError as error:
        return NotANotebook(f"it cannot be decoded: {error}")
    except json.JSONDecodeError as error:
        return NotANotebook(f"This notebook is not valid JSON: {error.msg}", error.lineno, error.colno)
    except RecursionError:
        return NotANotebook("it is nested too deeply")
    if not isinstance(whole, dict) or not isinstance(whole.get("cells"), list):
        older = isinstance(whole, dict) and "worksheets" in whole
        return NotANotebook("it is a notebook of format 3 or older" if older else "it is JSON, but not a notebook")
    if not _in_python(whole.get("metadata")):
        return NotANotebook()
    sources = {
        number: source
        for number, (cell, source) in enumerate(zip(whole["cells"], _sources(text), strict=True), start=1)
        if source is not None and _is_python(cell)
    }
    return Notebook(text, bom, sources)


def _in_python(metadata: Any) -> bool:
    """The kernel's language; a notebook that does not say is taken for Python."""
    for section, key in (("language_info", "name"), ("kernelspec", "language")):
        about = metadata.get(section) if isinstance(metadata, dict) else None
        if isinstance(about, dict) and isinstance(about.get(key), str):
            return bool(about[key].lower() in ("python", "ipython", "python3"))
    return True


def _is_python(cell: Any) -> bool:
    if not isinstance(cell, dict) or cell.get("cell_type") != "code":
        return False
    metadata = cell.get("metadata")
    editor = metadata.get("vscode") if isinstance(metadata, dict) else None
    language = editor.get("languageId") if isinstance(editor, dict) else None
    return language in (None, "python")


def _sources(text: str) -> Iterator[Source | None]:
    """The source of every cell, with its place; the text is known to be JSON of the right shape."""
    cells = 0
    for key, start in _members(text, _skip(text, 0)):
        if key == "cells":
            cells = start  # of equal keys the last one counts, as for every reader of JSON
    for start, _ in _elements(text, cells):
        yield _source(text, start) if text[start] == "{" else None


def _source(text: str, cell: int) -> Source | None:
    found: Source | None = None
    for key, start in _members(text, cell):
        if key == "source":
            value, end = _DECODER.raw_decode(text, start)
            lines = value if isinstance(value, list) else [value]
            whole = all(isinstance(line, str) for line in lines)  # else what is no text would be lost
            found = Source(start, end, "".join(lines)) if whole else None
    return found


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """The keys of an object, and where their values begin."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        yield key, at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _elements(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Where the elements of a list begin and end."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield at, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _written(old: str, new: str) -> str:
    """JSON of a new text in the manner of the old value; lines that stay are the same to the byte."""
    ascii_only = old.isascii() and "\\u" in old
    if old[0] == '"':
        return json.dumps(new, ensure_ascii=ascii_only)
    places = list(_elements(old, 0))
    known = {json.loads(old[start:end]): old[start:end] for start, end in places}
    lines = [known.get(line) or json.dumps(line, ensure_ascii=ascii_only) for line in lines_of(new)]
    if not lines or not places:
        return "[]" if not lines else f"[{', '.join(lines)}]"
    head, tail = old[: places[0][0]], old[places[-1][1] :]
    between = old[places[0][1] : places[1][0]] if len(places) > 1 else f",{head[1:] or ' '}"
    return head + between.join(lines) + tail


@dataclass(frozen=True, slots=True)
class FixedCells:
    """The new texts of the cells that were changed, by number; what was mended, and what is left."""

    texts: dict[int, str]
    applied: tuple[Finding, ...]
    result: FileResult
    #: what a check tells of the cells as they were
    told: tuple[Finding, ...] = ()


def lint(source: bytes, path: str, settings: Settings) -> FileResult:
    """All findings of a notebook's file."""
    notebook = read(source)
    if isinstance(notebook, NotANotebook):
        return _not_read(notebook, path, settings)
    return lint_cells(notebook.code_cells(), path, settings)


def fix(source: bytes, path: str, settings: Settings, *, unsafe: bool, keep: Keep | None = None) -> Fixed:
    """The same with all fixes applied; bytes outside the sources of the mended cells are the same."""
    notebook = read(source)
    if isinstance(notebook, NotANotebook):
        return Fixed(source, (), _not_read(notebook, path, settings))
    fixed = fix_cells(notebook.code_cells(), path, settings, unsafe=unsafe, keep=keep)
    return Fixed(notebook.with_sources(fixed.texts) if fixed.texts else source, fixed.applied, fixed.result, fixed.told)


def lint_cells(
    cells: Sequence[CodeCell], path: str, settings: Settings, *,
    lint: Callable[[bytes, str, Settings], FileResult] | None = None,
) -> FileResult:  # fmt: skip
    """All findings of a notebook that is given by its code cells; `lint` does the work instead of the engine."""
    joined = join(cells)
    programs = [(part, (lint or engine.lint)(part.program, path, settings)) for part in (*joined.files, joined)]
    result = _together([found for _, found in programs], joined)
    told = [_offered(found, part, joined, cells) for part, linted in programs for found in linted.findings]
    findings = [_shown(finding, joined) for finding, _ in told]
    reasons = [(finding, why) for finding, (_, why) in zip(findings, told, strict=True) if why]
    notes = (f"{result.place(f.span.start)}: {f.code} has no fix here: {why}" for f, why in reasons)
    if SYNTAX_ERROR in settings.enabled_for(path):
        findings += _syntax_errors(cells, joined, settings)
    return replace(result, findings=tuple(in_order(findings)), notes=(*result.notes, *notes))


def _together(results: Sequence[FileResult], joined: Joined) -> FileResult:
    """What was found in the files that cells write, and in the notebook itself, which is the last, as one result."""
    whole = replace(results[-1], cells=joined.cells)
    notes = [_placed(note, whole, joined) for result in results for note in result.notes]
    notes += [result.unreadable.reason for result in results[:-1] if result.unreadable is not None]
    return replace(
        whole,
        crashes=tuple(crash for result in results for crash in result.crashes),
        suppressed=sum(result.suppressed for result in results),
        notes=tuple(notes),
        exhausted=tuple(what for result in results for what in result.exhausted),
        elsewhere=tuple(finding for result in results for finding in result.elsewhere),
        reached=tuple(place for result in results for place in result.reached),
        silenced=tuple(place for result in results for place in result.silenced),
        probes=tuple({probe: None for result in results for probe in result.probes}),
    )


def _placed(note: str, whole: FileResult, joined: Joined) -> str:
    """A note that begins with a place, with the cell in it."""
    found = _PLACE.match(note)
    if found is None:
        return note
    place = whole.place(joined.shown(Position(int(found[1]), int(found[2]))))
    return f"{place}{note[found.end() :]}"


def fix_cells(
    cells: Sequence[CodeCell], path: str, settings: Settings, *, unsafe: bool,
    keep: Keep | None = None,
) -> FixedCells:  # fmt: skip
    """Applies what is offered, round after round, as for a file; `keep` chooses the findings that count."""

    def linted(now: Cells, repeats: bool) -> FileResult:
        result = lint_cells(now, path, settings, lint=partial(engine.lint, repeats=repeats))
        return result if keep is None else keep(result, shown_program(now))

    mended, done, result, told = engine.fixed(
        tuple(cells), path, settings, unsafe=unsafe, lint=linted, programs=_programs, edited=_edited
    )
    texts = {new.number: new.text for old, new in zip(cells, mended, strict=True) if new.text != old.text}
    return FixedCells(texts, done, result, told)


def _programs(cells: Cells) -> list[bytes]:
    joined = join(cells)
    return [part.program for part in (joined, *joined.files)]


def per_cell(cells: Sequence[CodeCell], edits: Sequence[Edit]) -> dict[int, tuple[Edit, ...]]:
    """The edits of a fix in rows of each cell, by its number; `cells` are those that were linted."""
    split = join(cells).split(edits)
    return {} if isinstance(split, str) else split


def cells_of(source: bytes) -> Cells:
    """The code cells of a notebook's file; none if it is no notebook."""
    notebook = read(source)
    return () if isinstance(notebook, NotANotebook) else notebook.code_cells()


def program(source: bytes) -> bytes:
    """All cells as one program, with magics left out."""
    return join(cells_of(source)).program


def program_text(source: bytes) -> str:
    """The program that findings of a notebook's file speak of."""
    return shown_program(cells_of(source))


def shown_program(cells: Sequence[CodeCell]) -> str:
    """The same rows with everything as it is written, magics as well."""
    texts = (cell.text for cell in cells if cell.text)
    return "".join(text if text.endswith(("\n", "\r")) else f"{text}\n" for text in texts)


def _edited(cells: Cells, edits: Sequence[Edit]) -> Cells:
    split = per_cell(cells, edits)
    return tuple(CodeCell(cell.number, applied(cell.text, split.get(cell.number, ()))) for cell in cells)


def _shown(finding: Finding, joined: Joined) -> Finding:
    if not joined.moved:
        return finding

    def shown(span: Span) -> Span:
        return Span(joined.shown(span.start), joined.shown(span.end))

    related = tuple(replace(each, span=each.span if each.path else shown(each.span)) for each in finding.related)
    return replace(finding, span=shown(finding.span), related=related)


def _offered(finding: Finding, part: Joined, joined: Joined, cells: Sequence[CodeCell]) -> tuple[Finding, str]:
    """The finding with a fix that leaves every cell a program of its own, as each is run alone; or without, and why."""
    if finding.fix is None:
        return finding, ""
    split = part.split(finding.fix.edits)
    if isinstance(split, str):
        return replace(finding, fix=None), split
    fix = replace(finding.fix, edits=part.whole(split))
    if part is not joined:
        after = join(_edited(tuple(cells), fix.edits)).files
        whole = all(is_python(file.text) for file in after)
    else:
        whole = joined.foreign.isdisjoint(split)
        whole = whole and all(_still_parses(cell, split[cell.number]) for cell in cells if cell.number in split)
    if not whole:
        return replace(finding, fix=None), "a cell would not be Python any more"
    # over several cells it is right for the program, but which cells belong together only the author knows
    return replace(finding, fix=fix if len(split) == 1 else replace(fix, safety=FixSafety.UNSAFE)), ""


def _still_parses(cell: CodeCell, edits: tuple[Edit, ...]) -> bool:
    hidden = hide(applied(cell.text, edits))
    return hidden is not None and is_python(hidden.text)


def _syntax_errors(cells: Sequence[CodeCell], joined: Joined, settings: Settings) -> Iterator[Finding]:
    """Each cell that is broken; blanks to be filled in, and prose, are one piece of advice, if anything is trained."""
    blank: list[Position] = []
    for cell, text in joined.broken:
        place, said, unfinished = _broken(cell, text)
        if unfinished:
            blank.append(place)
        else:
            yield engine.syntax_error(f"This cell does not parse: {said}", place, settings)
    if blank and any(has_gradients(cell.text.encode("utf-8", "replace")) for cell in cells):
        more = f" ({len(blank)} cells are so)" if len(blank) > 1 else ""
        message = f"This cell is not finished, or is no code, and was not read{more}"
        yield engine.syntax_error(message, blank[0], settings, Severity.ADVICE)


def _broken(cell: Cell, text: str) -> tuple[Position, str, bool]:
    """Where Python gives up, what it says, and whether that is a blank to be filled in."""
    row, column, said = 1, 1, "it is nested too deeply"
    try:
        ast.parse(text)
    except SyntaxError as error:
        row, column, said = error.lineno or 1, error.offset or 1, error.msg
    except UnicodeEncodeError:
        said = "it holds half of a character (a lone surrogate)"
    except (ValueError, RecursionError, MemoryError):
        pass
    place = Position(cell.first_row + min(row, cell.rows) - 1, max(1, column))
    return place, said, unfinished(text, row, said)


def _not_read(notebook: NotANotebook, path: str, settings: Settings) -> FileResult:
    if notebook.row is None:
        return FileResult(path, unreadable=Unreadable(notebook.reason) if notebook.reason else None)
    if SYNTAX_ERROR not in settings.enabled_for(path):
        return FileResult(path)
    return FileResult(path, (engine.syntax_error(notebook.reason, Position(notebook.row, notebook.column), settings),))
