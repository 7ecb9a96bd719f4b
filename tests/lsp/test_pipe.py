"""The process that lints: what it answers, that it can be interrupted, and that it may die."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gradlint.config import Layer, Settings
from gradlint.lsp.pipe import HEADER, START, Answer, Failure, Job, Linter, LintingError, Task, packed
from tests.lsp.editor import LATE_CLIP, RIGHT
from tests.patience import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="module")
NO_FIXES = Settings(layers=(Layer(unfixable=("ALL",)),))
#: many loops, for work that takes seconds
LONG = "import torch\n" + "\n".join(
    LATE_CLIP[len("import torch\n") :].replace("train", f"train_{n}") for n in range(200)
)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def linter() -> AsyncIterator[Linter]:
    made = Linter(lambda said: None)
    yield made
    made.stop()


def _job(linter: Linter, text: str, task: Task = Task.LINT, settings: Settings = NO_FIXES) -> Job:
    return Job(linter.number(), task, "a.py", settings, text.encode())


async def test_findings_with_and_without_fixes(linter: Linter) -> None:
    (found,) = (await linter.ask(_job(linter, LATE_CLIP))).result.findings
    assert (found.code, found.fix) == ("GL101", None)
    (found,) = (await linter.ask(_job(linter, LATE_CLIP, settings=Settings()))).result.findings
    assert found.fix is not None


async def test_the_fixed_text(linter: Linter) -> None:
    answer = await linter.ask(_job(linter, LATE_CLIP, Task.FIX, Settings()))
    assert answer.texts == {0: RIGHT}
    assert (await linter.ask(_job(linter, RIGHT, Task.FIX, Settings()))).texts == {}


async def test_work_that_nobody_waits_for_is_given_up(linter: Linter, monkeypatch: pytest.MonkeyPatch) -> None:
    await linter.ask(_job(linter, LATE_CLIP))
    answers: list[Answer | Failure] = []
    take = linter._take

    def noted(answer: Answer | Failure) -> None:
        answers.append(answer)
        take(answer)

    monkeypatch.setattr(linter.start(), "_take", noted)
    jobs = [_job(linter, LONG, Task.FIX, Settings()) for _ in range(5)]
    started = [asyncio.create_task(linter.ask(job)) for job in jobs]
    await asyncio.sleep(0.1)  # the first is in the midst of it, the others wait
    for task in started:
        task.cancel()
    assert (await linter.ask(_job(linter, RIGHT))).result.findings == ()
    assert answers[:-1] == [Failure(job.number) for job in jobs]


@pytest.mark.slow
async def test_it_is_started_again_when_it_has_died(linter: Linter) -> None:
    process = linter.start().process
    if hasattr(signal, "SIGSTOP"):
        os.kill(process.pid, signal.SIGSTOP)  # it will not be done before it dies
    asked = asyncio.create_task(linter.ask(_job(linter, LONG)))
    await asyncio.sleep(0.05)
    os.kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    with pytest.raises(LintingError, match="died"):
        await asked
    assert len((await linter.ask(_job(linter, LATE_CLIP))).result.findings) == 1
    assert linter.start().process.pid != process.pid


@pytest.mark.slow
async def test_a_stopped_one_says_so() -> None:
    linter = Linter(lambda said: None)
    linter.stop()
    with pytest.raises(LintingError, match="shutting down"):
        await linter.ask(_job(linter, LATE_CLIP))


_LONG_JOB = packed(Job(1, Task.FIX, "a.py", Settings(), LONG.encode()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "last",
    [b"", _LONG_JOB[: HEADER.size - 1], _LONG_JOB[:-1], _LONG_JOB * 4],
    ids=["nothing", "header", "half", "whole"],
)
async def test_it_ends_with_its_server_whatever_came_last(last: bytes) -> None:
    """A server that is killed says nothing more, in the midst of a message or with work that is not begun."""
    home = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", START, home], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        said, _ = process.communicate(last, timeout=PATIENCE)
    finally:
        process.kill()
    assert (process.returncode, said) == (0, b"")
