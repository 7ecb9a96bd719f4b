"""What the server does on each message of the editor."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from lsprotocol import types
from pygls.exceptions import JsonRpcContentModified, JsonRpcInternalError
from pygls.uris import to_fs_path

from gradlint.lsp.actions import APPLY, EXPLAIN, FIX_ALL_TITLE, KINDS
from gradlint.lsp.pages import hover as page_at
from gradlint.lsp.pipe import LintingError
from gradlint.lsp.publishing import OutdatedError, logger
from gradlint.lsp.server import GradlintServer
from gradlint.lsp.workspace import WATCHED, speaks_of_us


def make_server() -> GradlintServer:
    server = GradlintServer()
    for register in (_lifecycle, _documents, _notebooks, _configuration, _questions, _commands):
        register(server)
    return server


def _lifecycle(server: GradlintServer) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.begin(params)
        if server.able.asks_for_diagnostics:
            _diagnostics(server)

    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        await server.get_ready()

    @server.feature(types.SHUTDOWN)
    def shutdown(params: None) -> None:
        server.asked_to_end = True
        for program in server.texts:
            program.stop()
        server.end()


def _documents(server: GradlintServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        program = server.texts.open_text(params.text_document)
        if program is not None:
            server.publisher.opened(program)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        program = server.texts.change_text(params.text_document, params.content_changes)
        if program is not None:
            server.publisher.changed(program)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        _saved(server, params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        program = server.texts.close(params.text_document.uri)
        if program is not None:
            server.publisher.clear(program, [params.text_document.uri])
            server.publisher.closed(program)


def _saved(server: GradlintServer, uri: str) -> None:
    program = server.texts.program(uri)
    if program is not None:
        server.publisher.saved(program)


def _notebooks(server: GradlintServer) -> None:
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenNotebookDocumentParams) -> None:
        server.publisher.opened(server.texts.open_notebook(params.notebook_document, params.cell_text_documents))

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeNotebookDocumentParams) -> None:
        program, gone = server.texts.change_notebook(params.notebook_document.uri, params.change)
        if program is not None:
            server.publisher.clear(program, gone)
            server.publisher.changed(program)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveNotebookDocumentParams) -> None:
        _saved(server, params.notebook_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseNotebookDocumentParams) -> None:
        program = server.texts.close(params.notebook_document.uri)
        if program is not None:
            server.publisher.clear(program, [text.uri for text in program.texts()])


def _configuration(server: GradlintServer) -> None:
    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def did_change(params: types.DidChangeConfigurationParams) -> None:
        if speaks_of_us(params.settings):
            server.settings.configure(params.settings)
            server.look_again()
        elif server.able.tells_settings:
            await server.fetch_settings()

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched(params: types.DidChangeWatchedFilesParams) -> None:
        paths = [path for change in params.changes if (path := to_fs_path(change.uri)) is not None]
        if any(os.path.basename(path) in WATCHED for path in paths):
            server.settings.forget()
            server.look_again()
        come_or_gone = {to_fs_path(c.uri) for c in params.changes if c.type is not types.FileChangeType.Changed}
        for path in paths:
            server.publisher.touched(path, is_new=path in come_or_gone)

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        server.set_folders()
        server.look_again()


def _diagnostics(server: GradlintServer) -> None:
    @server.feature(
        types.TEXT_DOCUMENT_DIAGNOSTIC,
        types.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False, identifier="gradlint"),
    )
    async def diagnostic(params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        uri = params.text_document.uri
        program = server.texts.program(uri)
        if program is None:
            return types.RelatedFullDocumentDiagnosticReport([])
        with _answering():
            return await server.publisher.report(program, uri, params.previous_result_id)


def _questions(server: GradlintServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(list(KINDS)))
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        program = server.texts.program(uri)
        if program is None:
            return []
        only = None if params.context.only is None else [str(getattr(k, "value", k)) for k in params.context.only]
        with _answering():
            return await server.actions.at(program, uri, params.range, only)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        program = server.texts.program(uri)
        found = page_at(program, uri, params.position) if program is not None else None
        if found is None:
            return None
        kind = types.MarkupKind.Markdown if server.able.reads_markdown else types.MarkupKind.PlainText
        return types.Hover(types.MarkupContent(kind, found[0]), found[1])


def _commands(server: GradlintServer) -> None:
    @server.command(EXPLAIN)
    async def explain(code: str) -> dict[str, str] | None:
        return await server.explain(code)

    @server.command(APPLY)
    async def fix_all(uri: str) -> bool:
        program = server.texts.program(uri)
        if program is None:
            return False
        with _answering():
            edit = await server.actions.all_fixes(program)
        if edit is None:
            return False
        done = await server.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(edit, FIX_ALL_TITLE))
        if not done.applied:
            logger.warning("the editor did not apply the fixes: %s", done.failure_reason or "it does not say why")
        return bool(done.applied)


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    """Turns what can go wrong while somebody waits into the protocol's words for it."""
    try:
        yield
    except OutdatedError:
        raise JsonRpcContentModified("the text has changed meanwhile") from None
    except LintingError as error:
        raise JsonRpcInternalError(str(error)) from None
