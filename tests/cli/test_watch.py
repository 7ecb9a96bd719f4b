"""`gradlint check --watch`, as the real process: with a terminal and without one."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.test_project import ENGINE, MAIN, PLAIN_MAIN
from tests.patience import PATIENCE
from tests.sources import CLEAN, CLIP_AFTER_STEP

WAITING = "Watching for changes"


class Watcher:
    """A running `gradlint check --watch`; its output is read by a thread, screen by screen."""

    def __init__(self, folder: Path, *options: str, terminal: bool = False) -> None:
        command = [sys.executable, "-m", "gradlint", "check", "--watch", *options]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
        environment.pop("NO_COLOR", None)
        if terminal:
            import pty

            self._read_end, write_end = pty.openpty()
        else:
            self._read_end, write_end = os.pipe()
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=write_end, stderr=write_end
        )
        os.close(write_end)
        self._chunks: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._collect, daemon=True).start()
        self._pending = b""

    def _collect(self) -> None:
        while True:
            try:
                chunk = os.read(self._read_end, 65536)
            except OSError:  # the end of a pseudo terminal
                chunk = b""
            self._chunks.put(chunk)
            if not chunk:
                return

    def screen(self) -> str:
        """All that was drawn until it waits again."""
        end = time.monotonic() + PATIENCE
        while True:
            text = self._pending.decode()
            if (found := re.search(f"{WAITING}[^\n]*\n", text)) is not None:
                self._pending = text[found.end() :].encode()
                return text[: found.end()]
            chunk = self._chunks.get(timeout=max(0.1, end - time.monotonic()))
            assert chunk, f"it has ended: {text}"
            self._pending += chunk

    def silent(self, seconds: float) -> bool:
        """Whether nothing is drawn for a while."""
        try:
            chunk = self._chunks.get(timeout=seconds)
        except queue.Empty:
            return not self._pending
        self._pending += chunk
        return False

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=PATIENCE)

    def rest(self) -> str:
        while chunk := self._chunks.get(timeout=PATIENCE):
            self._pending += chunk
        return self._pending.decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


Start = Callable[..., Watcher]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Watcher] = []

    def begin(*options: str, terminal: bool = False) -> Watcher:
        started.append(Watcher(tmp_path, *options, terminal=terminal))
        return started[-1]

    yield begin
    for watcher in started:
        watcher.close()


def _put(path: Path, text: str) -> None:
    """At once, as a file that is seen half written would be drawn so."""
    beside = path.with_name(f"{path.name}.tmp")
    beside.write_text(text)
    beside.replace(path)


posix = pytest.mark.skipif(os.name != "posix", reason="signals and terminals of POSIX")


@posix
@pytest.mark.slow
def test_a_terminal_is_cleared_and_drawn_again(tmp_path: Path, start: Start) -> None:
    _put(tmp_path / "train.py", CLEAN)
    watcher = start(terminal=True)
    assert "All checks passed!" in watcher.screen()
    _put(tmp_path / "train.py", CLIP_AFTER_STEP)
    screen = watcher.screen()
    assert "\x1b[2J" in screen, "cleared"
    assert "train.py changed" in screen
    assert "GL101" in screen
    assert "\x1b[1;31m" in screen, "in colour"
    _put(tmp_path / "train.py", CLEAN)
    assert "All checks passed!" in watcher.screen()
    assert watcher.end() == 0
    assert "Traceback" not in watcher.rest()


@posix
@pytest.mark.slow
def test_without_a_terminal_and_what_makes_it_look_again(tmp_path: Path, start: Start) -> None:
    _put(tmp_path / "train.py", CLIP_AFTER_STEP)
    _put(tmp_path / ".gitignore", "made\n")
    (tmp_path / "made").mkdir()
    watcher = start("--output-format", "concise")
    screen = watcher.screen()
    assert "\x1b" not in screen
    assert "train.py:10:9: GL101" in screen

    _put(tmp_path / "made" / "new.py", CLIP_AFTER_STEP)
    _put(tmp_path / "notes.txt", "nothing")
    (tmp_path / "__pycache__").mkdir()
    _put(tmp_path / "__pycache__" / "x.py", CLIP_AFTER_STEP)
    assert watcher.silent(3.0), "what a run leaves out changes nothing"

    _put(tmp_path / "gradlint.toml", 'ignore = ["GL101"]\n')
    screen = watcher.screen()
    assert "gradlint.toml changed" in screen
    assert "All checks passed!" in screen

    _put(tmp_path / "gradlint.toml", "ignor = []\n")
    assert "unknown key `ignor`" in watcher.screen(), "a wrong configuration is told, and it goes on"

    (tmp_path / "gradlint.toml").unlink()
    assert "train.py:10:9: GL101" in watcher.screen()

    (tmp_path / "sub").mkdir()
    _put(tmp_path / "sub" / "new.py", CLIP_AFTER_STEP)
    assert "sub/new.py:10:9: GL101" in watcher.screen()

    (tmp_path / "train.py").unlink()
    screen = watcher.screen()
    assert "sub/new.py" in screen
    assert "train.py:10" not in screen
    assert watcher.end() == 0
    assert watcher.rest() == ""


@posix
@pytest.mark.slow
def test_with_fix_its_own_writing_is_no_change(tmp_path: Path, start: Start) -> None:
    _put(tmp_path / "train.py", CLEAN)
    watcher = start("--fix")
    watcher.screen()
    _put(tmp_path / "train.py", CLIP_AFTER_STEP)
    assert "1 fixed, 0 remaining" in watcher.screen()
    assert (tmp_path / "train.py").read_text() == CLEAN
    assert watcher.silent(3.0)
    assert watcher.end() == 0


@posix
@pytest.mark.slow
def test_a_single_file_and_a_configuration_above(tmp_path: Path, start: Start) -> None:
    (tmp_path / "sub").mkdir()
    _put(tmp_path / "sub" / "train.py", CLIP_AFTER_STEP)
    watcher = start("sub/train.py")
    assert "GL101" in watcher.screen()
    _put(tmp_path / "sub" / "other.py", CLIP_AFTER_STEP)
    assert watcher.silent(2.0)
    _put(tmp_path / "gradlint.toml", 'ignore = ["GL101"]\n')
    assert "All checks passed!" in watcher.screen()
    replacement = tmp_path / "sub" / "train.tmp"  # as many editors write
    replacement.write_text("x = 1\n# gradlint: ignore[GL999]\n")
    replacement.replace(tmp_path / "sub" / "train.py")
    assert "GL902" in watcher.screen()
    assert watcher.end() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--output-format", "json"), "only the formats full and concise"),
        (("--output-format", "full=made.txt"), "and no files"),
        (("--output-file", "made.txt"), "and no files"),
        (("--diff",), "--watch and --diff"),
        (("-",), "--watch and - (stdin)"),
        (("--show-files",), "--watch and --show-files"),
        (("--select", "GL999"), "unknown rule `GL999`"),
        (("nowhere.py",), "nowhere.py: No such file"),
    ],
)
def test_what_cannot_be_watched(gradlint: Command, project: Path, options: tuple[str, ...], words: str) -> None:
    outcome = gradlint("check", "--watch", *options)
    assert outcome.code == 2
    assert words in outcome.err
    assert not (project / "made.txt").exists()


def test_without_watchfiles_it_says_how_to_install_it(
    gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    outcome = gradlint("check", "--watch")
    assert outcome.code == 2
    assert 'pip install "torch-gradlint[watch]"' in outcome.err


@pytest.mark.slow
def test_files_that_a_finding_depends_on_are_watched_too(start: Start, tmp_path: Path) -> None:
    _put(tmp_path / "engine.py", ENGINE)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    _put(tmp_path / "scripts" / "main.py", PLAIN_MAIN)
    watcher = start("--project", "engine.py")
    assert "GL501" not in watcher.screen()
    _put(tmp_path / "scripts" / "main.py", MAIN)
    assert "GL501" in watcher.screen()
