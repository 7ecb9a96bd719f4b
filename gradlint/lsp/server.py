"""The language server: its state, how it begins, and how it ends."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from lsprotocol import types
from pygls.exceptions import FeatureRequestError
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from gradlint import __version__
from gradlint.lsp.actions import Actions
from gradlint.lsp.pages import PageFiles, page_of
from gradlint.lsp.pipe import Linter
from gradlint.lsp.publishing import Analyses, Publisher, logger, tell_the_editor, told_if_failed
from gradlint.lsp.texts import WIDTHS, Texts
from gradlint.lsp.workspace import SECTION, WATCHED, Workspace
from gradlint.registry import rule_url

NAME = "gradlint"
_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    [types.NotebookDocumentFilterWithCells([types.NotebookCellLanguage("python")])], save=True
)


class GradlintServer(LanguageServer):
    """All that the handlers share; most of it is made when the editor has said what it can do."""

    texts: Texts
    analyses: Analyses
    publisher: Publisher
    actions: Actions

    def __init__(self) -> None:
        super().__init__(NAME, __version__, notebook_document_sync=_NOTEBOOKS)
        self.settings = Workspace(self._complain, logger.info, self.look_again)
        self.linter = Linter(logger.warning)
        self.page_files = PageFiles()
        #: whether the editor has asked for the end, as it should before it sends it
        self.asked_to_end = False
        self._given: object = None
        #: keeps tasks that nobody waits for from being thrown away half done
        self._errands: set[asyncio.Task[Any]] = set()
        tell_the_editor(self.window_log_message)

    def begin(self, params: types.InitializeParams) -> None:
        """Get ready for this editor."""
        encoding = self.workspace.position_encoding
        width = WIDTHS.get(str(getattr(encoding, "value", encoding)), WIDTHS["utf-16"])
        able = Abilities(params.capabilities)
        self.texts = Texts(width)
        self.analyses = Analyses(self.linter, self.settings, width, logger.warning)
        self.publisher = Publisher(
            self.analyses, self.settings, self.texts, self.text_document_publish_diagnostics, self.ask_again,
            asked=able.asks_for_diagnostics,
        )  # fmt: skip
        self.actions = Actions(self.analyses, versioned=able.takes_versioned_edits)
        self.able = able
        self._given = params.initialization_options
        self.set_folders()
        self.settings.configure(self._given)
        self.linter.start()

    def set_folders(self) -> None:
        known = [folder.uri for folder in self.workspace.folders.values()]
        if not known and self.workspace.root_uri:
            known = [self.workspace.root_uri]
        folders = [path for uri in known if (path := to_fs_path(uri))]
        self.linter.folder = next(filter(os.path.isdir, folders), None)
        self.settings.set_folders(folders)

    async def get_ready(self) -> None:
        """Ask the editor to watch the files that matter, and for its settings if it has more than it sent."""
        if self.able.watches_files:
            watchers = [types.FileSystemWatcher(f"**/{name}") for name in (*WATCHED, "*.py")]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
            await self._register(types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
        if self.able.announces_settings:
            await self._register(
                types.WORKSPACE_DID_CHANGE_CONFIGURATION, types.DidChangeConfigurationRegistrationOptions(SECTION)
            )
        if self.able.tells_settings and not self._given:
            await self.fetch_settings()

    async def _register(self, method: str, options: object) -> None:
        registration = types.Registration(f"gradlint:{method}", method, options)
        try:
            await self.client_register_capability_async(types.RegistrationParams([registration]))
        except Exception as error:  # an editor that promises more than it does; all else works
            logger.info("the editor does not register %s: %s", method, error)

    async def fetch_settings(self) -> None:
        """The settings of an editor that only says that they have changed."""
        items = [types.ConfigurationItem(section=SECTION)]
        try:
            found = await self.workspace_configuration_async(types.ConfigurationParams(items))
        except Exception as error:  # as above
            logger.info("the editor does not tell its settings: %s", error)
            return
        if found and found[0] is not None:
            self.settings.configure(found[0])
            self.look_again()

    def look_again(self) -> None:
        """The settings are others: everything is to be linted anew."""
        for program in self.texts:
            self.publisher.again(program)
        self.ask_again()

    def ask_again(self) -> None:
        """Have an editor that asks for diagnostics ask for all of them."""
        if self.able.asks_for_diagnostics and self.able.asks_again:
            self.run_errand(self.workspace_diagnostic_refresh_async(None))

    def run_errand(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        task.add_done_callback(told_if_failed)

    async def explain(self, code: str) -> dict[str, str] | None:
        """Show the page of a rule, and give it to whoever wants to show it better."""
        page = page_of(code)
        if page is None:
            self._show(types.MessageType.Warning, f"gradlint knows no rule `{code}`")
            return None
        uri, shown = self.page_files.address(code, page), False
        if self.able.shows_documents:
            answer = await self.window_show_document_async(types.ShowDocumentParams(uri, take_focus=True))
            shown = answer.success
        if not shown:
            summary = page.split("\n\n")[2]  # below the heading and the line of facts
            self._show(types.MessageType.Info, f"{code}: {summary} {rule_url(code)}")
        return {"code": code, "uri": uri, "markdown": page}

    def end(self) -> None:
        """Leave nothing behind, whether or not the editor has said goodbye."""
        self.linter.stop()
        self.page_files.clear()

    def _complain(self, message: str) -> None:
        named = message if message.startswith(f"{SECTION}.") else f"{NAME}: {message}"
        self._show(types.MessageType.Warning, named)

    def _show(self, kind: types.MessageType, message: str) -> None:
        self.window_show_message(types.ShowMessageParams(kind, message))

    def report_server_error(self, error: Exception, source: object) -> None:
        """A failure of ours is for the log; a message box at each key stroke helps nobody."""
        if source is not FeatureRequestError:  # the library has logged those, and answered with them
            logger.error("%s: %s", type(error).__name__, error)


class Abilities:
    """What the editor can do, as far as it matters."""

    def __init__(self, told: types.ClientCapabilities) -> None:
        text, workspace, window = told.text_document, told.workspace, told.window
        self.asks_for_diagnostics = text is not None and text.diagnostic is not None
        hover = text.hover if text is not None else None
        formats = hover.content_format if hover is not None else None
        self.reads_markdown = not formats or types.MarkupKind.Markdown in formats
        edit = workspace.workspace_edit if workspace is not None else None
        self.takes_versioned_edits = edit is not None and bool(edit.document_changes)
        watching = workspace.did_change_watched_files if workspace is not None else None
        self.watches_files = watching is not None and bool(watching.dynamic_registration)
        changing = workspace.did_change_configuration if workspace is not None else None
        self.announces_settings = changing is not None and bool(changing.dynamic_registration)
        self.tells_settings = workspace is not None and bool(workspace.configuration)
        again = workspace.diagnostics if workspace is not None else None
        self.asks_again = again is not None and bool(again.refresh_support)
        showing = window.show_document if window is not None else None
        self.shows_documents = showing is not None and bool(showing.support)
