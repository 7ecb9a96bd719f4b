"""What lies on the desk: the documents and notebooks that the editor has open, by their addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lsprotocol import types
from pygls.uris import to_fs_path

from gradlint.lsp.buffers import Buffer
from gradlint.lsp.opened import Program
from gradlint.lsp.positions import Width

_LANGUAGE = "python"


class Desk:
    """Follows what the editor opens, changes and closes."""

    def __init__(self, width: Width) -> None:
        self._width = width
        self._programs: dict[str, Program] = {}
        #: notebooks by the addresses of their cells, and all cells of each in order
        self._notebook_of: dict[str, Program] = {}
        self._order: dict[str, list[types.NotebookCell]] = {}
        self._cells: dict[str, Buffer] = {}

    def __iter__(self) -> Iterator[Program]:
        return iter(list(self._programs.values()))

    def program(self, uri: str) -> Program | None:
        """The program that a document is, or is a cell of."""
        return self._programs.get(uri) or self._notebook_of.get(uri)

    # -- documents

    def open_text(self, document: types.TextDocumentItem) -> Program | None:
        """None for what is not Python."""
        if document.language_id != _LANGUAGE:
            return None
        self.close(document.uri)
        program = Program(document.uri, to_fs_path(document.uri)).with_text(self._buffer(document))
        self._programs[document.uri] = program
        return program

    def change_text(
        self, document: types.VersionedTextDocumentIdentifier,
        changes: Sequence[types.TextDocumentContentChangeEvent],
    ) -> Program | None:  # fmt: skip
        program = self._programs.get(document.uri)
        if program is not None:
            shifts = program.buffer(document.uri).change(document.version, changes)
            program.changed(document.uri, shifts)
        return program

    def close(self, uri: str) -> Program | None:
        """Take a document or a notebook away."""
        program = self._programs.pop(uri, None)
        if program is not None:
            program.stop()
            for cell in self._order.pop(uri, ()):
                self._notebook_of.pop(cell.document, None)
                self._cells.pop(cell.document, None)
        return program

    # -- notebooks

    def open_notebook(self, notebook: types.NotebookDocument, texts: Iterable[types.TextDocumentItem]) -> Program:
        self.close(notebook.uri)
        program = self._programs[notebook.uri] = Program(notebook.uri, to_fs_path(notebook.uri))
        self._order[notebook.uri] = list(notebook.cells)
        self._open_cells(texts)
        self._arrange(program)
        return program

    def change_notebook(self, uri: str, change: types.NotebookDocumentChangeEvent) -> tuple[Program | None, list[str]]:
        """The notebook, and the addresses of the cells that are gone from it."""
        program, cells = self._programs.get(uri), change.cells
        if program is None or cells is None:
            return None, []
        gone = self._rearrange(program, cells.structure) if cells.structure is not None else []
        for content in cells.text_content or ():
            buffer = self._cells.get(content.document.uri)
            if buffer is not None:
                program.changed(buffer.uri, buffer.change(content.document.version, content.changes))
        return program, gone

    def _rearrange(self, program: Program, structure: types.NotebookDocumentCellChangeStructure) -> list[str]:
        array, order = structure.array, self._order[program.uri]
        order[array.start : array.start + array.delete_count] = array.cells or []
        self._open_cells(structure.did_open or ())
        gone = [closed.uri for closed in structure.did_close or ()]
        for cell in gone:
            self._cells.pop(cell, None)
            self._notebook_of.pop(cell, None)
        self._arrange(program)
        program.changed("", ())
        return gone

    def _open_cells(self, texts: Iterable[types.TextDocumentItem]) -> None:
        for text in texts:
            if text.language_id == _LANGUAGE:
                self._cells[text.uri] = self._buffer(text)

    def _arrange(self, program: Program) -> None:
        cells = enumerate(self._order[program.uri], start=1)
        program.with_cells({n: self._cells[cell.document] for n, cell in cells if cell.document in self._cells})
        for buffer in program.buffers():
            self._notebook_of[buffer.uri] = program

    def _buffer(self, document: types.TextDocumentItem) -> Buffer:
        return Buffer(document.uri, document.version, document.text, self._width)
