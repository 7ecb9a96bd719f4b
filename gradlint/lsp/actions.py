"""What the editor offers at a place: fixes, a comment that silences, the rule's page; and all fixes at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lsprotocol import types

from gradlint.documents.ignores import ignoring
from gradlint.documents.notebook import per_cell
from gradlint.lsp.publishing import Analyses
from gradlint.lsp.texts import Analysis, Program
from gradlint.model import SYNTAX_ERROR, Edit, Finding, FixSafety, Span
from gradlint.repair.edits import difference

QUICK_FIX = types.CodeActionKind.QuickFix.value
FIX_ALL = "source.fixAll.gradlint"
NOTEBOOK_FIX_ALL = "notebook.source.fixAll.gradlint"
KINDS = (QUICK_FIX, FIX_ALL, NOTEBOOK_FIX_ALL)
EXPLAIN, APPLY = "gradlint.explainRule", "gradlint.fixAll"
FIX_ALL_TITLE = "Fix all gradlint findings"


class Actions:
    """Makes the code actions; fixes are looked for when somebody asks, and only for the rules at that place."""

    def __init__(self, analyses: Analyses, *, versioned: bool) -> None:
        self._analyses = analyses
        #: the editor refuses edits that were made for another version of the text
        self._versioned = versioned

    async def at(
        self, program: Program, uri: str, place: types.Range, only: Sequence[str] | None
    ) -> list[types.CodeAction]:
        found: list[types.CodeAction] = []
        if _wanted(QUICK_FIX, only):
            analysis = await self._analyses.current(program)
            here = [f for f in analysis.result.findings if _touches(self._range(program, analysis, uri, f), place)]
            offers = await self._analyses.offers(program, [f.code for f in here if f.code != SYNTAX_ERROR])
            fixes = {_key(finding): finding for finding in offers}
            shown = [d for d in program.shown.get(uri, ()) if _touches(d.range, place)]
            for finding in here:
                own = [d for d in shown if d.code == finding.code and d.message == finding.message]
                found += self._fix(program, fixes.get(_key(finding), finding), own)
            found += self._quiet(program, analysis, uri, here, shown)
            found += (_explain(code) for code in dict.fromkeys(str(d.code) for d in shown))
        kind = NOTEBOOK_FIX_ALL if only and _wanted(NOTEBOOK_FIX_ALL, only) else FIX_ALL
        if only and _wanted(kind, only):
            edit = await self.all_fixes(program)
            if edit is not None:
                found.append(types.CodeAction(FIX_ALL_TITLE, kind, edit=edit))
        elif not only and program.shown.get(uri):
            # what there is to fix is worked out when it is chosen: that takes longer than a menu may
            command = types.Command(FIX_ALL_TITLE, APPLY, arguments=[program.uri])
            found.append(types.CodeAction(FIX_ALL_TITLE, FIX_ALL, command=command))
        return found

    async def all_fixes(self, program: Program) -> types.WorkspaceEdit | None:
        texts = await self._analyses.fixed(program)
        edits = {uri: difference(program.text(uri).content, text, exact=True) for uri, text in texts.items()}
        return self._workspace_edit(program, edits) if any(edits.values()) else None

    def _fix(self, program: Program, finding: Finding, own: list[types.Diagnostic]) -> Iterator[types.CodeAction]:
        if finding.fix is None:
            return
        cells = program.code_cells()
        if cells is None:
            edits: Mapping[str, Sequence[Edit]] = {program.uri: finding.fix.edits}
        else:
            edits = {program.uris()[n]: made for n, made in per_cell(cells, finding.fix.edits).items()}
        safe = finding.fix.safety is FixSafety.SAFE
        title = finding.fix.message if safe else f"{finding.fix.message} (unsafe)"
        edit = self._workspace_edit(program, edits)
        yield types.CodeAction(title, QUICK_FIX, own, is_preferred=safe, edit=edit)

    def _quiet(
        self, program: Program, analysis: Analysis, uri: str, here: list[Finding], shown: list[types.Diagnostic]
    ) -> Iterator[types.CodeAction]:
        told: set[tuple[str, int]] = set()
        for finding in here:
            span = analysis.result.within(finding.span)
            if finding.code == SYNTAX_ERROR or (finding.code, span.start.row) in told:
                continue
            told.add((finding.code, span.start.row))
            edit = ignoring(program.text(uri).content, finding.code, span)
            if edit is not None:
                own = [d for d in shown if d.code == finding.code]
                title = f"Ignore {finding.code} ({finding.name}) on this line"
                made = self._workspace_edit(program, {uri: (edit,)})
                yield types.CodeAction(title, QUICK_FIX, own, is_preferred=False, edit=made)

    def _range(self, program: Program, analysis: Analysis, uri: str, finding: Finding) -> types.Range | None:
        """Where a finding is in a document; None if it is in another cell."""
        if program.uris().get(analysis.result.place(finding.span.start).cell or 0, program.uri) != uri:
            return None
        return program.text(uri).range(analysis.result.within(finding.span))

    def _workspace_edit(self, program: Program, edits: Mapping[str, Iterable[Edit]]) -> types.WorkspaceEdit:
        made = {uri: program.text(uri).edits(changes) for uri, changes in edits.items()}
        if not self._versioned:
            return types.WorkspaceEdit(changes=made)
        documents = []
        for uri, changes in made.items():
            named = types.OptionalVersionedTextDocumentIdentifier(uri, program.text(uri).version)
            documents.append(types.TextDocumentEdit(named, changes))
        return types.WorkspaceEdit(document_changes=documents)


def _explain(code: str) -> types.CodeAction:
    title = f"Explain {code}"
    return types.CodeAction(title, QUICK_FIX, command=types.Command(title, EXPLAIN, arguments=[code]))


def _wanted(kind: str, only: Sequence[str] | None) -> bool:
    return not only or any(kind == wish or kind.startswith(f"{wish}.") for wish in only)


def _touches(one: types.Range | None, other: types.Range) -> bool:
    if one is None:
        return False
    (start, end), (first, last) = (((p.line, p.character) for p in (r.start, r.end)) for r in (one, other))
    return start <= last and first <= end


def _key(finding: Finding) -> tuple[str, Span, str]:
    return finding.code, finding.span, finding.message
