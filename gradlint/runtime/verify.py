"""`gradlint verify`: lint a script, run it, judge the run, fix a copy, run that, and compare."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gradlint.config.load import ConfigTree
from gradlint.config.settings import Settings
from gradlint.documents import Kind, fix, kind_of, lint, runnable
from gradlint.model import FileResult, counted
from gradlint.python.source import Source, read
from gradlint.runner.files import UNKNOWN, SourceFile
from gradlint.runner.importers import Importers
from gradlint.runner.ledger import undisputed
from gradlint.runner.run import Run, settle_text
from gradlint.runtime.health import symptoms
from gradlint.runtime.launch.run import Job, Outcome, run
from gradlint.runtime.recording import Raised
from gradlint.runtime.verdicts import (
    Linted,
    Side,
    Verdict,
    Verdicts,
    Verification,
    cured,
    explained,
    judged,
    seen_only_in_run,
)

#: what is going on, for who waits
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to verify, and how."""

    job: Job
    #: run the fixed copy, too, also with what is only fixed at one's own risk
    fix: bool = True
    unsafe: bool = False
    #: gets the script's own output, line by line
    on_output: Callable[[str], None] | None = None


def verify(wanted: Wanted, tree: ConfigTree, progress: Progress) -> Verification:
    """The whole of it. The script's own failure is a part of the result, never an exception."""
    return _Verifier(wanted, tree, progress).run()


class _Verifier:
    def __init__(self, wanted: Wanted, tree: ConfigTree, progress: Progress) -> None:
        job = wanted.job
        self._wanted = wanted
        # one spelling of its path, links and all: that is what the run will say of its lines
        self._job = replace(job, script=Path(os.path.abspath(job.script)))
        self._tree = tree
        self._importers = Importers(tree)
        self._progress = progress
        #: as they were before the run: a script may write and delete its own files
        self._sources: dict[str, bytes] = {}
        self._result = Verification(str(job.script), job.arguments, job.device, job.nproc, job.seed)

    def run(self) -> Verification:
        result = self._result
        script = str(self._job.script)
        linted = {script: self._lint(script)}
        self._progress(f"running {self._job.script.name} for {self._job.steps} optimizer steps")
        outcome = self._run({}, None)
        # the user's files that something happened in
        for name in dict.fromkeys(p.file for r in outcome.recordings for h in r.happenings for p in h.places):
            if name not in linted and Path(name).is_file():
                linted[name] = self._lint(name)
        result.before = _side(outcome, linted)
        verdicts = Verdicts(result.before)
        result.findings, result.unshowable = judged(verdicts, linted.values())
        result.runtime_only = seen_only_in_run(verdicts, linted)
        result.health = symptoms(verdicts.run)
        result.notes += verdicts.crashes
        self._tell(outcome, result.before)
        if not explained(result.judged, result.before):
            result.failure = _failure(outcome, self._job)
        if self._wanted.fix and any(j.verdict is Verdict.CONFIRMED for j in result.findings):
            self._cure(linted, outcome)
        return result

    def _lint(self, name: str) -> Linted:
        source = self._sources[name] = Path(name).read_bytes()
        settings = self._tree.at(str(Path(name).parent))
        result = self._settled(lint(source, name, settings), source, settings)
        self._result.cells[name] = result.cells
        return Linted(name, settings, result, _text(runnable(source, name)), settings.enabled_for(name))

    def _settled(self, result: FileResult, source: bytes, settings: Settings) -> FileResult:
        """With what the files that import it know of a file, as `gradlint check` tells it."""
        if not settings.project:
            return result
        alone = Run([result])
        file = SourceFile(result.path, result.path, UNKNOWN, settings, True)
        settle_text(alone, source, file, self._importers, None)
        (told,) = alone.results
        return told

    def _fixed(self, file: Linted) -> bytes:
        """The text with what may be fixed of it."""
        source, settings, unsafe = self._sources[file.path], file.settings, self._wanted.unsafe
        keep = undisputed(lambda result: self._settled(result, source, settings), None, unsafe=unsafe)
        return fix(source, file.path, settings, unsafe=unsafe, keep=keep).source

    def _run(self, texts: Mapping[str, bytes], cwd: Path | None) -> Outcome:
        """With the fixed texts in the place of their files, and the cells of notebooks as one program."""
        notebooks = {name: source for name, source in self._sources.items() if kind_of(name) is Kind.NOTEBOOK}
        programs = {name: runnable(text, name) for name, text in {**notebooks, **texts}.items()}
        with tempfile.TemporaryDirectory(prefix="gradlint-fixed-", ignore_cleanup_errors=True) as folder:
            overlay = _written(programs, Path(folder))
            return run(replace(self._job, overlay=overlay, cwd=cwd), on_output=self._wanted.on_output)

    def _cure(self, linted: dict[str, Linted], before: Outcome) -> None:
        """Runs the fixed copy where the script ran, and looks at what was confirmed once more."""
        result, unsafe = self._result, self._wanted.unsafe
        texts, mended, failure = {}, dict(linted), ""
        for name, file in linted.items():
            fixed = self._fixed(file) if file.findings else self._sources[name]
            if fixed != self._sources[name]:
                texts[name] = fixed
                left = self._settled(lint(fixed, name, file.settings), fixed, file.settings)
                mended[name] = replace(file, result=left, text=_text(runnable(fixed, name)))
        if texts:
            self._progress("running the fixed copy with the same seed")
            outcome = self._run(texts, before.cwd)
            result.after = _side(outcome, mended)
            failure = _raised(outcome, self._job)
            if result.failure and failure == _raised(before, self._job):
                failure = ""  # the script fails with and without the fix, for a reason of its own
        verdicts = Verdicts(result.after or Side())
        result.findings = [
            cured(j, linted[j.filename], mended[j.filename], verdicts, failure, unsafe=unsafe)
            if j.verdict is Verdict.CONFIRMED
            else j
            for j in result.findings
        ]

    def _tell(self, outcome: Outcome, side: Side) -> None:
        notes = self._result.notes
        notes += dict.fromkeys((*outcome.notes, *(note for r in side.recordings for note in r.notes)))
        steps = counted(side.steps, "optimizer step")
        if outcome.timed_out and side.steps:
            notes.append(f"the time limit of {self._job.limit:g} s was reached after {steps}")
        elif not outcome.timed_out and side.main is not None and 0 < side.steps < self._job.steps:
            stopped = side.main.end is not None and side.main.end.how == "enough"
            many = "it makes one optimizer after another, and was stopped when the longest had done"
            notes.append(f"{many if stopped else 'the script ended after'} {steps}")
        if side.main is not None and not side.steps and not outcome.traceback and not outcome.timed_out:
            said = "" if outcome.code else _last_words(outcome.output)
            notes.append(f"the script ended without an optimizer step{said}")


def _side(outcome: Outcome, linted: Mapping[str, Linted]) -> Side:
    return Side(outcome.recordings, outcome.seconds, {name: file.text for name, file in linted.items()})


def _last_words(output: str) -> str:
    """Often the script has told why: no data, no GPU."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return f"; the last that it printed: {lines[-1][:160]}" if lines else ""


def _failure(outcome: Outcome, job: Job) -> str:
    """What the user must see of a script that failed; "" if it did not."""
    if outcome.timed_out and not any(r.steps for r in outcome.recordings):
        return f"{outcome.output}\nthe time limit of {job.limit:g} s was reached before the first optimizer step"
    if outcome.timed_out or not outcome.code:
        return ""
    return outcome.traceback or f"{outcome.output}\nthe script ended with exit code {outcome.code}".lstrip()


def _raised(outcome: Outcome, job: Job) -> str:
    """The last line of what went wrong; "" if nothing did: a script may well catch what a call raised."""
    lines = _failure(outcome, job).strip().splitlines()
    errors = [e for r in outcome.recordings for e in r.of(Raised)]
    if lines and errors:
        return f"{errors[-1].type}: {' '.join(errors[-1].message.split())[:160]}"
    return lines[-1][:160] if lines else ""


def _written(texts: Mapping[str, bytes], folder: Path) -> dict[str, str]:
    """The copies, each under a number of its own: files of the same name may stand in several folders."""
    overlay: dict[str, str] = {}
    for position, (name, text) in enumerate(texts.items()):
        copy = folder / f"{position}-{Path(name).name}"
        copy.write_bytes(text)
        overlay[name] = str(copy)
    return overlay


def _text(source: bytes) -> str:
    """As the linter reads it; a file that cannot be decoded is shown as far as it can."""
    found = read(source)
    return found.text if isinstance(found, Source) else source.decode("utf-8", "replace")
