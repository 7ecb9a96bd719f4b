"""Scripts run as their authors run them, and come to their end as they would, or at the limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gradlint.runtime.launch import run as launch
from gradlint.runtime.launch.run import Job, LaunchError, Outcome, run
from gradlint.runtime.recording import Raised, Stepped
from tests.patience import PATIENCE, Clock
from tests.runtime.forked import forked_scripts  # noqa: F401 - a fixture
from tests.runtime.launched import TRAIN, contents, is_alive, write

pytestmark = pytest.mark.slow


def _run(tmp_path: Path, text: str, *arguments: str) -> Outcome:
    write(tmp_path, {"train.py": text})
    return run(Job(tmp_path / "train.py", arguments=arguments, steps=3, limit=PATIENCE))


def _how(outcome: Outcome) -> str:
    end = outcome.recordings[0].end
    return end.how if end else ""


LOOKING = {
    "helper.py": "NAME = 'beside'\n",
    "train.py": TRAIN
    + """
import json, os, sys
import helper, __main__
seen = {
    "name": __name__, "file": __file__, "argv": sys.argv, "path": sys.path[0], "cwd": os.getcwd(),
    "spec": __spec__, "package": __package__, "helper": helper.NAME, "stdin": sys.stdin.read(),
    "main": __main__.__dict__ is globals(), "stray": [p for p in sys.path if "gradlint" in p and "runtime" in p],
}
print(json.dumps(seen))
train()
print("never printed")
""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plain")


@pytest.fixture(scope="module")
def printed() -> list[str]:
    return []


@pytest.fixture(scope="module")
def outcome(folder: Path, printed: list[str]) -> Outcome:
    before = write(folder, LOOKING)
    outcome = run(Job(folder / "train.py", arguments=("--lr", "0.1"), steps=3), on_output=printed.append)
    assert contents(folder) == before, "something was written beside the script"
    return outcome


class TestPlain:
    """One run of a script that looks at all it can see of itself."""

    def test_what_the_script_sees(self, outcome: Outcome, folder: Path) -> None:
        script = str(folder / "train.py")
        assert json.loads(outcome.output.splitlines()[0]) == {
            "name": "__main__",
            "file": script,
            "argv": [script, "--lr", "0.1"],
            "path": os.path.realpath(folder),
            "cwd": os.getcwd(),
            "spec": None,
            "package": None,
            "helper": "beside",
            "stdin": "",
            "main": True,
            "stray": [],
        }

    def test_it_is_stopped_after_the_wanted_steps(self, outcome: Outcome) -> None:
        (recorded,) = outcome.recordings
        assert recorded.steps == 3
        assert _how(outcome) == "enough"
        assert (outcome.code, outcome.timed_out, outcome.traceback) == (0, False, "")
        assert "never printed" not in outcome.output

    def test_lines_are_those_of_the_script(self, outcome: Outcome, folder: Path) -> None:
        step = next(outcome.recordings[0].of(Stepped))
        assert step.place is not None
        assert step.place.file == str(folder / "train.py")
        assert LOOKING["train.py"].splitlines()[step.place.line - 1].strip() == "optimizer.step()"

    def test_output_is_handed_on(self, outcome: Outcome, printed: list[str]) -> None:
        assert "".join(printed) == outcome.output


@pytest.mark.parametrize(
    ("text", "code", "how"),
    [
        ("import sys\nsys.exit(3)", 3, "exit"),
        ("exit()", 0, "exit"),
        ("import torch\nprint('no loop')", 0, "finished"),
        ("print('without torch')", 0, "finished"),
        ("import os\nos._exit(4)", 4, ""),
        (TRAIN + "train(2)", 0, "finished"),
    ],
)
def test_an_end_of_its_own(tmp_path: Path, text: str, code: int, how: str) -> None:
    outcome = _run(tmp_path, text)
    assert (outcome.code, outcome.traceback, _how(outcome)) == (code, "", how)


def test_a_message_at_exit(tmp_path: Path) -> None:
    outcome = _run(tmp_path, "raise SystemExit('no data')")
    assert (outcome.code, outcome.output, outcome.traceback) == (1, "no data\n", "")


def test_wrong_arguments(tmp_path: Path) -> None:
    text = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--epochs')\nparser.parse_args()"
    outcome = _run(tmp_path, text, "--epoch", "1", "--layers", "2")
    assert outcome.code == 2
    assert outcome.output.startswith("usage: train.py [-h] [--epochs EPOCHS]\n")


class TestFailure:
    def test_the_traceback_is_the_scripts_own(self, tmp_path: Path) -> None:
        text = TRAIN + "train(2)\n\ndef load():\n    raise ValueError('no such set')\n\nload()\n"
        outcome = _run(tmp_path, text)
        script = tmp_path / "train.py"
        lines = text.splitlines()
        told = [line for line in outcome.traceback.splitlines() if line.strip(" ~^")]
        assert told == [
            "Traceback (most recent call last):",
            f'  File "{script}", line {len(lines)}, in <module>',
            "    load()",
            f'  File "{script}", line {len(lines) - 2}, in load',
            "    raise ValueError('no such set')",
            "ValueError: no such set",
        ]
        assert outcome.output == outcome.traceback
        assert (outcome.code, _how(outcome)) == (1, "raised")
        (raised,) = outcome.recordings[0].of(Raised)
        assert (raised.type, raised.message) == ("ValueError", "no such set")

    def test_the_recorders_frames_are_cut_out(self, tmp_path: Path) -> None:
        text = TRAIN + "loss = model(torch.ones(4, 2)).mean()\nloss.backward()\nloss.backward()\n"
        outcome = _run(tmp_path, text)
        assert "backward through the graph a second time" in outcome.traceback
        assert "loss.backward()" in outcome.traceback
        assert "gradlint" not in outcome.traceback

    def test_a_syntax_error(self, tmp_path: Path) -> None:
        outcome = _run(tmp_path, "import torch\nfor batch in\n")
        assert outcome.code == 1
        assert outcome.traceback.splitlines()[0] == f'  File "{tmp_path / "train.py"}", line 2'
        assert outcome.traceback.splitlines()[-1].startswith("SyntaxError: ")

    def test_interrupted_from_within(self, tmp_path: Path) -> None:
        outcome = _run(tmp_path, "raise KeyboardInterrupt")
        assert outcome.code == 130
        assert outcome.traceback.endswith("KeyboardInterrupt\n")

    def test_a_hook_of_the_script_is_called(self, tmp_path: Path) -> None:
        text = "import sys\nsys.excepthook = lambda kind, error, trace: print('hooked', error)\nraise ValueError('x')"
        outcome = _run(tmp_path, text)
        assert outcome.output == "hooked x\n"
        assert outcome.traceback.endswith("ValueError: x\n")

    @pytest.mark.whole
    def test_a_signal_ends_it(self, tmp_path: Path) -> None:
        outcome = _run(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
        assert (outcome.code, outcome.timed_out) == (-signal.SIGKILL, False)


class TestWorkingDirectory:
    TEXT = "print(open('words.txt').read())"

    def test_a_file_beside_the_script_is_found(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path, {"data/words.txt": "hello", "data/train.py": self.TEXT})
        monkeypatch.chdir(tmp_path)
        outcome = run(Job(Path("data/train.py"), limit=PATIENCE))
        assert (outcome.code, outcome.output) == (0, "hello\n")
        assert outcome.cwd == tmp_path / "data"
        assert outcome.notes == [f"run in {tmp_path / 'data'}: `words.txt` is there and not in the working directory"]

    def test_a_file_that_is_nowhere(self, tmp_path: Path) -> None:
        outcome = _run(tmp_path, self.TEXT)
        assert outcome.code == 1
        assert outcome.notes == []
        assert outcome.traceback.endswith("No such file or directory: 'words.txt'\n")


class TestLeftovers:
    def test_threads_finish_before_the_end(self, tmp_path: Path) -> None:
        text = TRAIN + "import threading\nthreading.Thread(target=train, args=(2,)).start()\n"
        outcome = _run(tmp_path, text)
        assert outcome.recordings[0].steps == 2
        assert _how(outcome) == "finished"

    def test_a_thread_that_waits_for_the_stopped_loop(self, tmp_path: Path) -> None:
        text = TRAIN + "import threading\nthreading.Thread(target=threading.Event().wait).start()\ntrain()\n"
        outcome = _run(tmp_path, text)
        assert (outcome.code, outcome.timed_out, _how(outcome)) == (0, False, "enough")

    def test_processes_left_behind_are_ended(self, tmp_path: Path) -> None:
        text = """
        import subprocess, sys
        sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
        print(subprocess.Popen(sleeper).pid)
        print(subprocess.Popen(sleeper, start_new_session=True).pid)
        """
        outcome = _run(tmp_path, text)
        assert outcome.code == 0
        pids = [int(line) for line in outcome.output.split()]
        assert len(pids) == 2
        assert not any(map(is_alive, pids))

    @pytest.mark.skipif(sys.platform != "linux", reason="the environment of others is read there only")
    def test_one_that_dies_and_has_lost_its_environment_is_waited_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        starts = "import subprocess, sys; subprocess.Popen(['sleep', '600'], start_new_session=True)"
        with (tmp_path / "output").open("wb") as output:
            tree = launch.ProcessTree([sys.executable, "-c", starts], {**os.environ, "M": "1"}, None, output, "M=1")
            assert tree.wait(PATIENCE) == 0
        (sleeper,) = tree._members()
        monkeypatch.setattr(launch, "_is_marked", lambda process, mark: False)
        assert tree._members() == {sleeper}
        tree.end()
        assert not is_alive(sleeper)


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen(
    [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"],
    start_new_session=True,
)
open(os.environ["PIDS"], "w").write(f"{os.getpid()} {child.pid}")
print("half a line", end="")
open(os.environ["PIDS"] + ".printed", "w").close()
time.sleep(600)
"""


@pytest.mark.whole
class TestLimit:
    def test_the_stubborn_are_killed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PIDS", str(tmp_path / "pids"))
        monkeypatch.setattr(launch, "time", Clock(tmp_path / "pids.printed"))
        outcome = _run(tmp_path, STUBBORN)
        assert (outcome.code, outcome.timed_out) == (None, True)
        assert outcome.output == "half a line"
        assert not any(is_alive(int(pid)) for pid in (tmp_path / "pids").read_text(encoding="utf-8").split())

    @pytest.mark.skipif(os.name != "posix", reason="signals are sent in another way")
    def test_who_ends_us_ends_all_of_it(self, tmp_path: Path) -> None:
        """Ctrl-C does, too: `tests/cli/test_verify_runs.py`."""
        write(tmp_path, {"train.py": STUBBORN})
        script = str(tmp_path / "train.py")
        call = f"from gradlint.runtime.launch.run import *; run(Job(Path({script!r})), on_output=print)"
        pids = tmp_path / "pids"
        outer = subprocess.Popen(
            [sys.executable, "-c", call],
            env={**os.environ, "PIDS": str(pids)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert outer.stdout is not None
        outer.stdout.readline()  # the script is running
        outer.send_signal(signal.SIGTERM)
        _, errors = outer.communicate(timeout=PATIENCE)
        assert errors == b""
        assert outer.returncode == 128 + signal.SIGTERM
        assert not any(is_alive(int(pid)) for pid in pids.read_text(encoding="utf-8").split())


@pytest.mark.whole
def test_torch_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"train.py": "print('run')", "broken/torch.py": "raise ImportError('libcudart.so is missing')"})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    with pytest.raises(LaunchError, match=r"not run, for recording it failed: ImportError: libcudart\.so is missing$"):
        run(Job(tmp_path / "train.py"))
