"""Lints what is open: never twice for the same text, and never to the end for a text that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from gradlint.config.settings import Settings
from gradlint.lsp.jobs import UNNAMED, Answer, Job, Task
from gradlint.lsp.linter import Linter, LintingError
from gradlint.lsp.opened import Analysis, Diagnostics, Program, structured
from gradlint.lsp.positions import Width
from gradlint.lsp.workspace import Workspace, for_editing
from gradlint.model import SYNTAX_ERROR, FileResult, Finding
from gradlint.report.lsp_format import diagnostic
from gradlint.runner.run import worth_parsing


class OutdatedError(Exception):
    """The text has changed while somebody waited for what could be said of it."""


class Analyses:
    """All that is known, or can be asked, of the programs that are open."""

    def __init__(self, linter: Linter, workspace: Workspace, width: Width, log: Callable[[str], None]) -> None:
        self._linter = linter
        self._workspace = workspace
        self._width = width
        self._log = log

    async def current(self, program: Program) -> Analysis:
        """The analysis of the text as it is now; whoever else asks meanwhile waits for the same one."""
        self._workspace.refresh(program.path)
        settings = self._workspace.settings_for(program.path)
        known = program.current(settings)
        if known is not None:
            return known
        if program.pending is None or program.pending.done():
            program.pending = asyncio.create_task(self._analysed(program, settings))
            program.pending.add_done_callback(_fetched)
        pending = program.pending
        await asyncio.wait({pending})
        if pending.cancelled():
            raise OutdatedError
        return pending.result()

    async def _analysed(self, program: Program, settings: Settings | None) -> Analysis:
        known = Analysis(program.revision, settings, await self._linted(program, settings))
        program.analysis = known
        program.shown = self._shown(program, known.result, settings)
        return known

    async def _fresh(self, program: Program, work: Coroutine[Any, Any, Answer]) -> Answer:
        """The answer, unless the text changes meanwhile."""
        task = asyncio.create_task(work)
        program.work.add(task)
        task.add_done_callback(program.work.discard)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.cancelled():
            raise OutdatedError
        return task.result()

    async def _linted(self, program: Program, settings: Settings | None) -> FileResult:
        name = _name(program)
        if settings is None or not _worth_parsing(program, settings):
            return FileResult(name)
        answer = await self._ask(program, Task.LINT, for_editing(settings))
        if answer.trouble is not None:
            self._workspace.tell(answer.trouble)
        for crash in answer.result.crashes:
            self._log(f"{name}: {crash.rule} failed: {crash.error}\n{crash.traceback}")
        return answer.result

    async def _ask(self, program: Program, task: Task, settings: Settings, *, unsafe: bool = False) -> Answer:
        cells = program.code_cells()
        source = program.source() if cells is None else b""
        return await self._linter.ask(Job(self._linter.number(), task, _name(program), settings, source, cells, unsafe))

    def _shown(self, program: Program, result: FileResult, settings: Settings | None) -> Diagnostics:
        """What the editor is to show. A text that does not parse, as most are while somebody types, has no findings:
        what was found before stays, at the places to which it has moved."""
        uris, lines = program.uris(), program.lines()
        shown: Diagnostics = {buffer.uri: [] for buffer in program.buffers()}
        told = self._shows_syntax_errors(program, settings)
        broken = {self._home(program, result, finding, uris) for finding in syntax_errors(result)}
        unsure = broken and (program.cells is None or not program.settled)
        for finding in result.findings:
            if told if finding.code == SYNTAX_ERROR else not unsure:
                made = diagnostic(finding, result, lines, program.uri, uris, width=self._width)
                where = self._home(program, result, finding, uris)
                shown[where].append(structured(made))
        for uri in shown if unsure else broken:
            shown[uri] = [*(d for d in program.shown.get(uri, ()) if d.code != SYNTAX_ERROR), *shown[uri]]
        return shown

    def _home(self, program: Program, result: FileResult, finding: Finding, uris: dict[int, str]) -> str:
        """The document that a finding is in."""
        return uris.get(result.place(finding.span.start).cell or 0, program.uri)

    def _shows_syntax_errors(self, program: Program, settings: Settings | None) -> bool:
        """Editors have their own word for half a line; one that was saved so, or is still there, is worth ours."""
        if settings is None or SYNTAX_ERROR not in settings.enabled_for(_name(program)):
            return False
        told = any(d.code == SYNTAX_ERROR for shown in program.shown.values() for d in shown)
        return self._workspace.options.show_syntax_errors and (program.settled or told)

    async def offers(self, program: Program, codes: Iterable[str]) -> list[Finding]:
        """The findings of these rules, with their fixes."""
        wanted = sorted(set(codes))
        async with program.offering:
            analysis = await self.current(program)
            settings = analysis.settings
            missing = tuple(code for code in wanted if code not in analysis.offers)
            if missing and settings is not None:
                asked = self._ask(program, Task.LINT, for_editing(settings, missing))
                answer = await self._fresh(program, asked)
                for code in missing:
                    analysis.offers[code] = tuple(f for f in answer.result.findings if f.code == code)
        return [finding for code in wanted for finding in analysis.offers.get(code, ())]

    async def fixed(self, program: Program) -> dict[str, str]:
        """The new texts of the documents that fixing everything changes, by their address."""
        analysis = await self.current(program)
        settings = analysis.settings
        if settings is None or not analysis.result.findings:
            return {}
        unsafe = self._workspace.unsafe_fixes(settings)
        answer = await self._fresh(program, self._ask(program, Task.FIX, settings, unsafe=unsafe))
        uris = program.uris()
        return {uris.get(number, program.uri): text for number, text in answer.texts.items()}

    async def update(self, program: Program) -> bool:
        """Bring what is shown up to date; whether it is."""
        try:
            await self.current(program)
        except OutdatedError:
            return False
        except LintingError as error:
            self._log(f"{_name(program)}: {error}")
            return False
        return True

    async def follow(self, program: Program) -> None:
        """The same for somebody who waits, however often the text changes meanwhile."""
        while True:
            try:
                await self.current(program)
            except OutdatedError:
                continue
            return


def syntax_errors(result: FileResult) -> list[Finding]:
    return [finding for finding in result.findings if finding.code == SYNTAX_ERROR]


def _fetched(task: asyncio.Task[Analysis]) -> None:
    """Whoever waited may be gone; asyncio complains of a failure that nobody has seen."""
    if not task.cancelled():
        task.exception()


def _name(program: Program) -> str:
    return program.path if program.path is not None else UNNAMED


def _worth_parsing(program: Program, settings: Settings) -> bool:
    """Most of what is open holds no gradients: a look at its bytes is enough, and the editor tells if it is broken."""
    if program.cells is None:
        return worth_parsing(program.source(), settings)
    text = "\n".join(buffer.text for buffer in program.cells.values())
    return worth_parsing(text.encode("utf-8", "replace"), settings)
