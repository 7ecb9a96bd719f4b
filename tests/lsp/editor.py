"""A client that behaves as an editor does: it keeps its documents, and remembers all that the server has told it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.protocol import default_converter
from pytest_lsp import LanguageClient
from pytest_lsp.client import register_lsp_features

from tests.patience import PATIENCE

SERVER = [sys.executable, "-m", "gradlint", "server"]
_numbers = itertools.count()

#: a loop with one mistake on line 8 (GL101); its fix is safe
LATE_CLIP = """\
import torch


def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""
#: the same, put right
RIGHT = LATE_CLIP.replace(
    "        optimizer.step()\n        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
    "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n        optimizer.step()\n",
)
CLIP_LINE = 9


class Editor(LanguageClient):
    """Waits for what the server says, instead of for a while."""

    #: the folder that is open
    root: Path

    def __init__(self) -> None:
        super().__init__(converter_factory=default_converter)
        register_lsp_features(self)
        self.published: list[types.PublishDiagnosticsParams] = []
        self.edits: list[types.ApplyWorkspaceEditParams] = []
        self.registered: dict[str, Any] = {}
        self.feature(types.WORKSPACE_APPLY_EDIT)(self._apply_edit())
        self.feature(types.CLIENT_REGISTER_CAPABILITY)(self._register())
        # the default one forgets versions
        self.protocol.fm._features.pop(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(self._publish())

    def _publish(self) -> Callable[..., Any]:
        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.published.append(params)

        return publish

    def _apply_edit(self) -> Callable[..., Any]:
        def apply(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
            self.edits.append(params)
            return types.ApplyWorkspaceEditResult(applied=True)

        return apply

    def _register(self) -> Callable[..., Any]:
        def register(params: types.RegistrationParams) -> None:
            for registration in params.registrations:
                self.registered[registration.method] = registration.register_options

        return register

    # -- a server that is gone never answers

    async def initialize_session(self, params: types.InitializeParams) -> types.InitializeResult:
        return await asyncio.wait_for(super().initialize_session(params), PATIENCE)

    async def shutdown_session(self) -> None:
        await asyncio.wait_for(super().shutdown_session(), PATIENCE)

    # -- what a person does

    def open(self, uri: str, text: str, version: int = 1, language: str = "python") -> None:
        item = types.TextDocumentItem(uri, language, version, text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def type(
        self, uri: str, version: int, text: str, start: tuple[int, int], end: tuple[int, int] | None = None
    ) -> None:
        place = types.Range(types.Position(*start), types.Position(*(end or start)))
        change = types.TextDocumentContentChangePartial(place, text)
        self._change(uri, version, change)

    def replace(self, uri: str, version: int, text: str) -> None:
        self._change(uri, version, types.TextDocumentContentChangeWholeDocument(text))

    def _change(self, uri: str, version: int, change: types.TextDocumentContentChangeEvent) -> None:
        document = types.VersionedTextDocumentIdentifier(version=version, uri=uri)
        self.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    def save(self, uri: str) -> None:
        self.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))

    def close(self, uri: str) -> None:
        self.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """What is sent inside comes to the server together, however busy the machine is: meanwhile it is stopped."""
        if not hasattr(signal, "SIGSTOP"):  # Windows
            yield
            return
        assert self._server is not None
        self._server.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._server.send_signal(signal.SIGCONT)

    # -- what a person sees

    async def until(self, met: Callable[[], Any]) -> Any:
        """What is met, as soon as it is."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := met():
                return found
            await asyncio.sleep(0.005)
        raise AssertionError(f"waited in vain; published: {self.versions()}; log: {self.log_messages}")

    async def told(self, uri: str, version: int | None) -> Sequence[types.Diagnostic]:
        """Those of a version, when they come."""
        found = await self.until(lambda: [p for p in self.published if p.uri == uri and p.version == version])
        return list(found[-1].diagnostics)

    async def codes(self, uri: str, version: int | None) -> list[str]:
        return [str(diagnostic.code) for diagnostic in await self.told(uri, version)]

    def versions(self, uri: str | None = None) -> list[int | None]:
        return [p.version for p in self.published if uri in (None, p.uri)]

    async def actions(
        self, uri: str, line: int, character: int = 10, only: list[str] | None = None
    ) -> list[types.CodeAction]:
        place = types.Position(line, character)
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(uri), types.Range(place, place), types.CodeActionContext([], only)
        )
        asked = self.protocol.send_request(types.TEXT_DOCUMENT_CODE_ACTION, params, msg_id=f"action {next(_numbers)}")
        # the library takes an action that has a command for a bare command
        self.protocol._result_types = dict.fromkeys(self.protocol._result_types)
        found = await asyncio.wait_for(asyncio.wrap_future(asked), PATIENCE)
        structure = self.protocol._converter.structure
        return [structure(action, types.CodeAction) for action in found]

    async def hover(self, uri: str, line: int, character: int) -> types.Hover | None:
        params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
        return await asyncio.wait_for(self.text_document_hover_async(params), PATIENCE)

    async def pull(self, uri: str, known: str | None = None) -> types.DocumentDiagnosticReport:
        params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri), previous_result_id=known)
        return await asyncio.wait_for(self.text_document_diagnostic_async(params), PATIENCE)


def edits_of(edit: types.WorkspaceEdit | None) -> dict[str, list[types.TextEdit]]:
    """The edits by document, however they were sent."""
    assert edit is not None
    if edit.changes is not None:
        return {uri: list(edits) for uri, edits in edit.changes.items()}
    found = {}
    for change in edit.document_changes or []:
        assert isinstance(change, types.TextDocumentEdit)
        found[change.text_document.uri] = [e for e in change.edits if isinstance(e, types.TextEdit)]
    return found


def applied(text: str, edits: Sequence[types.TextEdit]) -> str:
    """The text after edits in UTF-16, done with its encoded form rather than with the server's own code."""
    lines = text.splitlines(keepends=True) or [""]

    def offset(place: types.Position) -> int:
        before = "".join(lines[: place.line])
        line = lines[place.line] if place.line < len(lines) else ""
        return len(before) + len(line.encode("utf-16-le")[: 2 * place.character].decode("utf-16-le"))

    for edit in sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text
