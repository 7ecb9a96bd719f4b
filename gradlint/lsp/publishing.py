"""Tells the editor what was found: of its own accord, or when it is asked, never both."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable

from lsprotocol import types

from gradlint.lsp.analyses import Analyses, syntax_errors
from gradlint.lsp.logs import told_if_failed
from gradlint.lsp.opened import Program
from gradlint.lsp.options import Run
from gradlint.lsp.workspace import Workspace

#: how long to wait for the next key, in seconds
DEBOUNCE = 0.01

Send = Callable[[types.PublishDiagnosticsParams], None]


class Publisher:
    """Lints after each change, when a moment has passed without another one.

    Notebooks are told of their own accord in any case: editors ask only for the cells that are in view, or have
    changed, and a change in one cell may be a finding in another.
    """

    def __init__(self, analyses: Analyses, workspace: Workspace, send: Send, *, asked: bool) -> None:
        self._analyses = analyses
        self._workspace = workspace
        self._send = send
        #: the editor asks for diagnostics itself
        self._asked = asked

    def opened(self, program: Program) -> None:
        self._workspace.refresh(program.path, at_once=True)
        self._schedule(program, 0.0)

    def changed(self, program: Program) -> None:
        if self._workspace.options.run is Run.ON_TYPE:
            self._schedule(program, DEBOUNCE)

    def saved(self, program: Program) -> None:
        self._settle(program)
        self._workspace.refresh(program.path, at_once=True)
        self._schedule(program, 0.0)

    def again(self, program: Program) -> None:
        """The settings, or files that they name, have changed."""
        program.stop()
        program.analysis = None
        self._schedule(program, 0.0)

    def clear(self, program: Program, uris: Iterable[str]) -> None:
        if self._pushes(program):
            for uri in uris:
                self._send(types.PublishDiagnosticsParams(uri, []))

    def _pushes(self, program: Program) -> bool:
        return program.is_notebook or not self._asked

    def _settle(self, program: Program) -> None:
        """What was saved is what is meant: if it does not parse, that is worth telling, and was perhaps held back."""
        program.settled = True
        if program.analysis is not None and syntax_errors(program.analysis.result):
            program.analysis = None

    def _schedule(self, program: Program, delay: float) -> None:
        if not self._pushes(program):
            return
        if program.due is not None:
            program.due.cancel()
        program.due = asyncio.create_task(self._publish(program, delay))
        program.due.add_done_callback(told_if_failed)

    async def _publish(self, program: Program, delay: float) -> None:
        if delay:
            await asyncio.sleep(delay)
        if await self._analyses.update(program):
            for buffer in program.buffers():
                shown = program.shown.get(buffer.uri, [])
                self._send(types.PublishDiagnosticsParams(buffer.uri, shown, buffer.version))

    async def report(self, program: Program, uri: str, known: str | None) -> types.DocumentDiagnosticReport:
        """The answer to an editor that asks; `known` names what it has."""
        if self._pushes(program):
            return types.RelatedFullDocumentDiagnosticReport([])
        waits = self._workspace.options.run is Run.ON_SAVE and not program.settled and program.analysis is not None
        if not waits:
            await self._analyses.follow(program)
        shown = program.shown.get(uri, [])
        name = hashlib.blake2b(repr(shown).encode(), digest_size=8).hexdigest()
        if name == known:
            return types.RelatedUnchangedDocumentDiagnosticReport(name)
        return types.RelatedFullDocumentDiagnosticReport(shown, result_id=name)
