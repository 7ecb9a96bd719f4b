"""Notebooks: the cells are one program, and what is told and mended is told and mended cell by cell."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from lsprotocol import types

from tests.documents.notebooks import CLIP_LATE as LOOP
from tests.lsp.conftest import Start
from tests.lsp.editor import Editor, applied, edits_of

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

SETUP = "%matplotlib inline\nimport torch\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
CLIP = 5
_numbers = itertools.count()


class Notebook:
    """A notebook in the editor: a text cell, then code cells."""

    def __init__(self, editor: Editor, *texts: str) -> None:
        self.editor = editor
        name = f"nb_{next(_numbers)}"
        self.uri = f"{editor.root.as_uri()}/{name}.ipynb"
        self.cells = [f"vscode-notebook-cell:{self.uri.removeprefix('file:')}#{n}" for n in range(len(texts) + 1)]
        self.version = 1
        items = [types.TextDocumentItem(self.cells[0], "markdown", 1, "# Training")]
        items += [
            types.TextDocumentItem(uri, "python", 1, text) for uri, text in zip(self.cells[1:], texts, strict=True)
        ]
        kinds = [types.NotebookCellKind.Markup] + [types.NotebookCellKind.Code] * len(texts)
        cells = [types.NotebookCell(kind, uri) for kind, uri in zip(kinds, self.cells, strict=True)]
        document = types.NotebookDocument(self.uri, "jupyter-notebook", 1, cells)
        editor.notebook_document_did_open(types.DidOpenNotebookDocumentParams(document, items))

    def change(self, cells: types.NotebookDocumentCellChanges) -> None:
        self.version += 1
        named = types.VersionedNotebookDocumentIdentifier(version=self.version, uri=self.uri)
        change = types.NotebookDocumentChangeEvent(cells=cells)
        self.editor.notebook_document_did_change(types.DidChangeNotebookDocumentParams(named, change))

    def type(
        self, cell: int, version: int, text: str, start: tuple[int, int], end: tuple[int, int] | None = None
    ) -> None:
        place = types.Range(types.Position(*start), types.Position(*(end or start)))
        named = types.VersionedTextDocumentIdentifier(version=version, uri=self.cells[cell])
        content = types.NotebookDocumentCellContentChanges(named, [types.TextDocumentContentChangePartial(place, text)])
        self.change(types.NotebookDocumentCellChanges(text_content=[content]))

    def close(self) -> None:
        closed = [types.TextDocumentIdentifier(uri) for uri in self.cells]
        named = types.NotebookDocumentIdentifier(self.uri)
        self.editor.notebook_document_did_close(types.DidCloseNotebookDocumentParams(named, closed))


async def test_findings_are_told_in_their_cells(editor: Editor) -> None:
    notebook = Notebook(editor, SETUP, LOOP)
    assert await editor.codes(notebook.cells[1], 1) == []
    (found,) = await editor.told(notebook.cells[2], 1)
    assert (found.code, found.range.start) == ("GL101", types.Position(CLIP, 4))
    assert [told.location.uri for told in found.related_information or []] == [notebook.cells[2]]
    assert [p for p in editor.published if p.uri in (notebook.uri, notebook.cells[0])] == []


async def test_cells_are_one_program(editor: Editor) -> None:
    lines = LOOP.splitlines()
    notebook = Notebook(
        editor, "import torch", "\n".join(["def step():", *lines[3:]]), "\n".join([*lines[:3], "    step()"])
    )
    (found,) = await editor.told(notebook.cells[2], 1)
    assert (found.code, found.range.start.line) == ("GL101", 3)


async def test_a_change_in_one_cell_is_seen_in_all(editor: Editor) -> None:
    notebook = Notebook(editor, SETUP, LOOP)
    assert await editor.codes(notebook.cells[2], 1) == ["GL101"]
    notebook.type(2, 2, "#", (CLIP, 4))
    assert await editor.codes(notebook.cells[2], 2) == []
    notebook.type(2, 3, "", (CLIP, 4), (CLIP, 5))
    assert await editor.codes(notebook.cells[2], 3) == ["GL101"]


async def test_half_a_line_keeps_what_was_found_in_every_cell(editor: Editor) -> None:
    notebook = Notebook(editor, SETUP, LOOP)
    await editor.told(notebook.cells[2], 1)
    notebook.type(1, 2, "\nx = (", (2, 60))
    await editor.told(notebook.cells[1], 2)
    assert await editor.codes(notebook.cells[2], 1) == ["GL101"]
    notebook.type(2, 2, "# x\ny = (\n", (0, 0))
    (found,) = await editor.told(notebook.cells[2], 2)
    assert (found.code, found.range.start.line) == ("GL101", CLIP + 2)
    editor.notebook_document_did_save(
        types.DidSaveNotebookDocumentParams(types.NotebookDocumentIdentifier(notebook.uri))
    )
    await editor.until(lambda: "GL900" in [d.code for d in _last(editor, notebook.cells[2])])
    assert "GL900" in [d.code for d in _last(editor, notebook.cells[1])]


async def test_cells_come_and_go(editor: Editor) -> None:
    notebook = Notebook(editor, SETUP, LOOP)
    assert await editor.codes(notebook.cells[2], 1) == ["GL101"]
    array = types.NotebookCellArrayChange(start=2, delete_count=1, cells=[])
    gone = [types.TextDocumentIdentifier(notebook.cells[2])]
    notebook.change(
        types.NotebookDocumentCellChanges(
            structure=types.NotebookDocumentCellChangeStructure(array=array, did_close=gone)
        )
    )
    await editor.until(lambda: not _last(editor, notebook.cells[2]))
    new = f"{notebook.cells[2]}new"
    array = types.NotebookCellArrayChange(2, 0, [types.NotebookCell(types.NotebookCellKind.Code, new)])
    opened = [types.TextDocumentItem(new, "python", 4, LOOP)]
    notebook.change(
        types.NotebookDocumentCellChanges(
            structure=types.NotebookDocumentCellChangeStructure(array=array, did_open=opened)
        )
    )
    assert await editor.codes(new, 4) == ["GL101"]


async def test_a_fix_and_a_comment_are_edits_of_their_cell(editor: Editor) -> None:
    notebook = Notebook(editor, SETUP, LOOP)
    fix, ignore, *_ = await editor.actions(notebook.cells[2], CLIP)
    edits = edits_of(fix.edit)
    assert edits.keys() == {notebook.cells[2]}
    lines = LOOP.splitlines()
    assert applied(LOOP, edits[notebook.cells[2]]) == "\n".join([*lines[:4], lines[5], lines[4]])
    assert applied(LOOP, edits_of(ignore.edit)[notebook.cells[2]]) == f"{LOOP}  # gradlint: ignore[GL101]"


@pytest.mark.parametrize("only", ["source.fixAll.gradlint", "notebook.source.fixAll"])
async def test_all_fixes_of_a_notebook(editor: Editor, only: str) -> None:
    notebook = Notebook(editor, SETUP, LOOP)
    (action,) = await editor.actions(notebook.cells[1], 0, 0, only=[only])
    assert action.kind == f"{'notebook.' if only.startswith('notebook') else ''}source.fixAll.gradlint"
    (uri,) = edits_of(action.edit)
    assert uri == notebook.cells[2]
    lines = LOOP.splitlines()
    assert applied(LOOP, edits_of(action.edit)[uri]) == "\n".join([*lines[:4], lines[5], lines[4]])


async def test_hover_in_a_cell(editor: Editor) -> None:
    notebook = Notebook(editor, SETUP, LOOP)
    await editor.told(notebook.cells[2], 1)
    hover = await editor.hover(notebook.cells[2], CLIP, 10)
    assert hover is not None
    assert isinstance(hover.contents, types.MarkupContent)
    assert "GL101" in hover.contents.value.splitlines()[0]


async def test_closing_takes_all_diagnostics_away(editor: Editor) -> None:
    notebook = Notebook(editor, SETUP, LOOP)
    await editor.told(notebook.cells[2], 1)
    notebook.close()
    await editor.until(lambda: not _last(editor, notebook.cells[2]))
    assert await editor.hover(notebook.cells[2], CLIP, 10) is None


async def test_an_editor_that_asks_is_told_of_notebooks_all_the_same(start: Start, tmp_path: Path) -> None:
    """It asks only for the cells in view, and would take the others' diagnostics away."""
    text = types.TextDocumentClientCapabilities(diagnostic=types.DiagnosticClientCapabilities())
    async with start(tmp_path, capabilities=types.ClientCapabilities(text_document=text)) as editor:
        editor.root = tmp_path
        notebook = Notebook(editor, SETUP, LOOP)
        assert await editor.codes(notebook.cells[2], 1) == ["GL101"]
        report = await editor.pull(notebook.cells[2])
        assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
        assert list(report.items) == []
        notebook.close()
        await editor.until(lambda: not _last(editor, notebook.cells[2]))


def _last(editor: Editor, uri: str) -> list[types.Diagnostic]:
    return list([p for p in editor.published if p.uri == uri][-1].diagnostics)
