"""Tells the editor what was found: of its own accord, or when it is asked, never both. What fails is in its log."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import threading
from collections.abc import Callable, Container, Coroutine, Iterable
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcContentModified

from gradlint.config.settings import Settings
from gradlint.engine import holds_objects
from gradlint.lsp.pipe import UNNAMED, Answer, Buffer, Job, Linter, LintingError, Task
from gradlint.lsp.texts import Analysis, Diagnostics, Program, Texts, structured
from gradlint.lsp.workspace import Run, Workspace, for_editing
from gradlint.model import SYNTAX_ERROR, FileResult, Finding
from gradlint.records import replace
from gradlint.report.lsp import Width, diagnostic
from gradlint.runner.run import worth_parsing

_LEVELS = {
    logging.CRITICAL: types.MessageType.Error,
    logging.ERROR: types.MessageType.Error,
    logging.WARNING: types.MessageType.Warning,
    logging.INFO: types.MessageType.Info,
}

logger = logging.getLogger("gradlint.lsp")

#: how long to wait for the next key, in seconds
DEBOUNCE = 0.01
#: how long nothing must happen before files are looked at that nobody types in, in seconds
IDLE = 0.25
Send = Callable[[types.PublishDiagnosticsParams], None]


class EditorHandler(logging.Handler):
    """Sends records as `window/logMessage`; sending is itself logged by the library, so it listens to no echo."""

    def __init__(self, send: Callable[[types.LogMessageParams], None]) -> None:
        super().__init__()
        self._send = send
        self._sending = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(self._sending, "now", False) or _expected(record):
            return
        self._sending.now = True
        try:
            kind = _LEVELS.get(record.levelno, types.MessageType.Log)
            self._send(types.LogMessageParams(kind, self.format(record)))
        except Exception:  # the editor is gone; there is nobody left to tell
            pass
        finally:
            self._sending.now = False


def _expected(record: logging.LogRecord) -> bool:
    """The library reports every answer that is an error; that a text has changed meanwhile is none of ours."""
    return record.exc_info is not None and isinstance(record.exc_info[1], JsonRpcContentModified)


def tell_the_editor(send: Callable[[types.LogMessageParams], None]) -> None:
    handler = EditorHandler(send)
    handler.setFormatter(logging.Formatter("%(message)s"))
    for name, level in (("gradlint.lsp", logging.INFO), ("pygls", logging.WARNING)):
        named = logging.getLogger(name)
        named.setLevel(level)
        named.addHandler(handler)
        named.propagate = False


def told_if_failed(task: asyncio.Task[Any]) -> None:
    """For tasks that nobody waits for: their failure must not be lost, nor take anything with it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s: %s", type(error).__name__, error, exc_info=error)


class OutdatedError(Exception):
    """The text has changed while somebody waited for what could be said of it."""


class Analyses:
    """All that is known, or can be asked, of the programs that are open."""

    def __init__(self, linter: Linter, workspace: Workspace, width: Width, log: Callable[[str], None]) -> None:
        self._linter = linter
        self._workspace = workspace
        self._width = width
        self._log = log
        #: what nobody waits for: it gives way to whatever somebody does
        self._background: set[asyncio.Task[Answer]] = set()

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
        program.shown = self._quickly_shown(program, known.result, settings)
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
        for crash in answer.result.crashes:
            self._log(f"{name}: {crash.rule} failed: {crash.error}\n{crash.traceback}")
        return answer.result

    async def _ask(self, program: Program, task: Task, settings: Settings, *, unsafe: bool = False) -> Answer:
        """For somebody who waits."""
        for other in self._background:
            other.cancel()
        return await self._asked(program, task, settings, unsafe=unsafe)

    async def _asked(self, program: Program, task: Task, settings: Settings, *, unsafe: bool = False) -> Answer:
        cells = program.code_cells()
        source = program.source() if cells is None else b""
        number, overrides = self._linter.number(), self._workspace.overrides
        answer = await self._linter.ask(Job(number, task, _name(program), settings, source, cells, unsafe, overrides))
        if answer.trouble is not None:  # before anything is shown that comes of it
            self._workspace.tell(answer.trouble)
        return answer

    def lay_over(self, program: Program, *, closed: bool = False) -> None:
        """What is open counts in the files that import it, saved or not."""
        if program.path is not None and not program.is_notebook:
            self._linter.lay_over(Buffer(program.path, None if closed else program.source()))

    async def settle(self, program: Program) -> bool:
        """Add what the files that import a program know of it; whether that changes what is shown."""
        analysis = await self.current(program)
        settings = analysis.settings
        if settings is None or not _has_callers(program, settings):
            return False
        task = asyncio.create_task(self._asked(program, Task.SETTLE, for_editing(settings)))
        self._background.add(task)
        try:
            await asyncio.wait({task})
        finally:
            self._background.discard(task)
            task.cancel()
        if task.cancelled() or program.current(settings) is not analysis:
            raise OutdatedError
        answer, before = task.result(), program.shown
        program.hushed = answer.hushed
        program.analysis = Analysis(program.revision, settings, answer.result, analysis.offers)
        program.shown = self._shown(program, answer.result, settings)
        return program.shown != before

    def _quickly_shown(self, program: Program, result: FileResult, settings: Settings | None) -> Diagnostics:
        """The same before the files that import the program were asked: what they have said of it stays meanwhile."""
        if settings is None or not settings.project or program.is_notebook:
            return self._shown(program, result, settings)
        before = [d for d in program.shown.get(program.uri, ()) if _is_told_elsewhere(d, program.uri)]
        own = tuple(f for f in result.findings if (f.code, f.message) not in program.hushed)
        shown = self._shown(program, replace(result, findings=own), settings)
        known = {(d.code, d.range.start.line) for d in shown[program.uri]}
        shown[program.uri] += [d for d in before if (d.code, d.range.start.line) not in known]
        return shown

    def _shown(self, program: Program, result: FileResult, settings: Settings | None) -> Diagnostics:
        """What the editor is to show. A text that does not parse, as most are while somebody types, has no findings:
        what was found before stays, at the places to which it has moved."""
        uris, lines = program.uris(), program.lines()
        shown: Diagnostics = {text.uri: [] for text in program.texts()}
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
        """The findings of these rules, with their fixes, which are as safe as callers in other files let them be."""
        wanted = sorted(set(codes))
        async with program.offering:
            analysis = await self.current(program)
            settings = analysis.settings
            known = analysis.offers
            missing = tuple(code for code in wanted if code not in known)
            if missing and settings is not None:
                task = Task.SETTLE if _has_callers(program, settings) else Task.LINT
                answer = await self._fresh(program, self._ask(program, task, for_editing(settings, missing)))
                for code in missing:
                    known[code] = tuple(f for f in answer.result.findings if f.code == code)
        return [finding for code in wanted for finding in known.get(code, ())]

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


def _has_callers(program: Program, settings: Settings) -> bool:
    """Whether other files may know something of it."""
    return settings.project and not program.is_notebook and program.path is not None


def _is_told_elsewhere(diagnostic: types.Diagnostic, uri: str) -> bool:
    """Whether its story has a line in another file: whoever found it there has to be asked again."""
    return any(told.location.uri != uri for told in diagnostic.related_information or ())


def _probes(program: Program) -> set[str]:
    """The files that its analysis has asked for."""
    return {path for path, _ in program.analysis.result.probes} if program.analysis is not None else set()


def _worth_parsing(program: Program, settings: Settings) -> bool:
    """Most of what is open holds no gradients: a look at its bytes is enough, and the editor tells if it is broken."""
    if program.cells is None:
        source = program.source()
    else:
        source = "\n".join(text.content for text in program.cells.values()).encode("utf-8", "replace")
    # what it lacks may be in what it imports
    return worth_parsing(source, settings) or (settings.project and holds_objects(source))


class Publisher:
    """Lints after each change, when a moment has passed without another one.

    Notebooks are told of their own accord in any case: editors ask only for the cells that are in view, or have
    changed, and a change in one cell may be a finding in another.
    """

    def __init__(
        self, analyses: Analyses, workspace: Workspace, texts: Texts, send: Send, ask_again: Callable[[], None], *,
        asked: bool,
    ) -> None:  # fmt: skip
        self._analyses = analyses
        self._workspace = workspace
        self._texts = texts
        self._send = send
        #: the editor asks for diagnostics itself, and is told when it has to ask again
        self._asked = asked
        self._ask_again = ask_again
        #: files that hold something else than when it was quiet for the last time, and the files that they ask for
        self._touched: dict[str, set[str]] = {}
        self._idle: asyncio.Task[None] | None = None

    def opened(self, program: Program) -> None:
        self._workspace.refresh(program.path, at_once=True)
        self._analyses.lay_over(program)
        self._touch(program)
        self._schedule(program, 0.0)

    def changed(self, program: Program) -> None:
        self._analyses.lay_over(program)
        self._texts.forget_offers()
        if self._workspace.options.run is Run.ON_TYPE:
            self._touch(program)
            self._schedule(program, DEBOUNCE)

    def saved(self, program: Program) -> None:
        self._settle(program)
        self._workspace.refresh(program.path, at_once=True)
        self._touch(program)
        self._schedule(program, 0.0)

    def closed(self, program: Program) -> None:
        """The file counts as it is on the disk."""
        self._analyses.lay_over(program, closed=True)
        self._touch(program)

    def _touch(self, program: Program) -> None:
        if program.path is not None:
            self.touched(program.path, _probes(program), is_new=not os.path.exists(program.path))

    def touched(self, path: str, probes: Iterable[str] = (), *, is_new: bool = False) -> None:
        """A file holds something else by now: what others know of it is looked at when nobody types. If it has come, or
        gone, those that have missed it have asked for its folder."""
        self._texts.forget_offers()
        self._touched.setdefault(path, set()).update(probes)
        if is_new:
            self._touched.setdefault(os.path.join(os.path.dirname(path), ""), set())
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.create_task(self._rest())
        self._idle.add_done_callback(told_if_failed)

    async def _rest(self) -> None:
        """As soon as nothing happens: bring up to date what open files know of those that were touched."""
        while self._touched:
            await asyncio.sleep(IDLE)
            done: dict[Program, bool] = {}
            try:
                while (program := self._concerned(done)) is not None:
                    done[program] = await self._brought_up_to_date(program)
            except OutdatedError:
                continue
            except LintingError as error:
                logger.warning("%s", error)
            self._touched.clear()
            if any(done.values()) and self._asked:
                self._ask_again()

    def _concerned(self, done: Container[Program]) -> Program | None:
        """One of the programs that were touched; then of those that ask for one that was, and those that one which was
        asks for. What a file asks for that is not open is not known: then it is any of them.
        """
        open_ones = {program.path or "": program for program in self._texts if self._is_in_project(program)}
        touched = {path: program for path, program in open_ones.items() if path in self._touched}
        for path, program in touched.items():
            if program not in done:
                return program
            self._touched[path].update(_probes(program))
        asked = set[str]().union(*self._touched.values())
        unknown = not self._touched.keys() <= touched.keys()
        for path, program in open_ones.items():
            if program not in done:
                if program.analysis is None or not _probes(program).isdisjoint(self._touched):
                    program.analysis = None
                    return program
                if unknown or path in asked:
                    return program
        return None

    def _is_in_project(self, program: Program) -> bool:
        settings = self._workspace.settings_for(program.path)
        return program.path is not None and settings is not None and settings.project

    async def _brought_up_to_date(self, program: Program) -> bool:
        before = program.shown
        settled = await self._analyses.settle(program)
        if not settled and program.shown == before:
            return False
        if self._pushes(program):
            self._tell(program)
        return True

    def again(self, program: Program) -> None:
        """The settings, or files that they name, have changed."""
        program.stop()
        program.analysis = None
        self._touch(program)
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
            self._tell(program)

    def _tell(self, program: Program) -> None:
        for text in program.texts():
            shown = program.shown.get(text.uri, [])
            self._send(types.PublishDiagnosticsParams(text.uri, shown, text.version))

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
