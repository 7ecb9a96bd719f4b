"""Scripts of several processes, in packages, and with fixed sources in place of their own."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import cache_from_source
from pathlib import Path
from textwrap import dedent

import pytest

from gradlint.runtime.launch.run import Job, Outcome, run
from gradlint.runtime.recording import Raised, Recording, Stepped
from tests.patience import PATIENCE
from tests.runtime.forked import forked_children, forked_scripts  # noqa: F401 - fixtures
from tests.runtime.launched import TRAIN, contents, write

pytestmark = pytest.mark.slow


def _run(folder: Path, files: dict[str, str], name: str = "train.py", **wishes: object) -> Outcome:
    before = write(folder, files)
    outcome = run(Job(folder / name, steps=3, limit=PATIENCE, **wishes))  # type: ignore[arg-type]
    assert contents(folder) == before, "something was written beside the script"
    return outcome


def _trained(outcome: Outcome) -> list[Recording]:
    return [recorded for recorded in outcome.recordings if recorded.steps]


def _fixed(folder: Path, files: dict[str, str]) -> dict[str, str]:
    """An overlay: copies of these files, in which `broken` is `mended`."""
    copies = folder / "copies"
    overlay = {}
    for number, (name, text) in enumerate(files.items()):
        if "broken" in text:
            copy = copies / f"{number}.py"
            write(copies, {copy.name: "# one more line\n" + dedent(text).replace("broken", "mended")})
            overlay[str(folder / "user" / name)] = str(copy)
    return overlay


DDP = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(rank):
    torch.manual_seed(rank)
    model = DDP(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        model(torch.rand(4, 2)).mean().backward()
        optimizer.step()
"""
TORCHRUN = (
    DDP
    + """
dist.init_process_group("gloo")
print("cores " + os.environ["OMP_NUM_THREADS"] + "\\n", end="")  # in one piece: the other rank writes, too
train(dist.get_rank())
"""
)
SPAWNED = {
    "beside.py": "WORD = 'broken sibling'\n",
    "train.py": DDP
    + """
import sys
import torch.multiprocessing as mp
import beside

WORD = "broken main"

def work(rank, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    print(f"{rank}: {WORD}, {beside.WORD}, {__file__}\\n", end="", flush=True)
    train(rank)

if __name__ == "__main__":
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    print(f"parent: {WORD}, {beside.WORD}, {__file__}", flush=True)
    mp.spawn(work, args=(port,), nprocs=2)
""",
}


class TestRanks:
    @pytest.mark.whole
    def test_torchrun(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        outcome = _run(tmp_path, {"train.py": TORCHRUN}, nproc=2)
        assert (outcome.code, outcome.traceback) == (0, "")
        assert outcome.output.count("cores 1\n") == 2
        assert [(r.rank, r.world, r.steps) for r in _trained(outcome)] == [(0, 2, 3), (1, 2, 3)]

    def test_a_rank_that_fails(self, tmp_path: Path) -> None:
        text = TORCHRUN.replace("train(dist", "assert dist.get_rank() == 0, 'not the first'\ntrain(dist")
        outcome = _run(tmp_path, {"train.py": text}, nproc=2)
        assert outcome.code == 1
        assert outcome.traceback.startswith("Traceback (most recent call last):\n")
        assert outcome.traceback.endswith("AssertionError: not the first\n")
        assert "gradlint" not in outcome.traceback
        assert "not the first" in outcome.output
        assert "gradlint" not in outcome.output
        assert "torchrun" not in outcome.output

    def test_ranks_that_part(self, tmp_path: Path) -> None:
        """The first rank has done its steps and is stopped while the other still wants to hear of it."""
        text = TORCHRUN.replace("optimizer.step()", "rank and next(turns) or optimizer.step()")
        text = text.replace("    while True", "    turns = __import__('itertools').cycle([0, 1])\n    while True")
        outcome = _run(tmp_path, {"train.py": text}, nproc=2)
        assert [r.steps for r in _trained(outcome)] == [3, 2]
        assert (outcome.code, outcome.traceback) == (0, "")
        assert [r.end and r.end.how for r in _trained(outcome)] == ["enough", "enough"]
        assert not any(list(r.of(Raised)) for r in outcome.recordings)

    @pytest.mark.usefixtures("forked_children")
    def test_spawned_by_the_script_with_fixed_sources(self, tmp_path: Path) -> None:
        """Spawned from the originals: `scripts/ddp_spawned.py` of the tests of `verify`."""
        folder = tmp_path / "user"
        overlay = _fixed(tmp_path, SPAWNED)
        assert len(overlay) == 2
        # bytecode of the originals, as a run of the user left it, must not be taken for that of the copies
        write(folder, SPAWNED)
        cached = "import py_compile, sys\nfor path in sys.argv[1:]: py_compile.compile(path)"
        os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-c", cached, str(folder / "beside.py"))
        assert Path(cache_from_source(folder / "beside.py")).exists()
        outcome = _run(folder, SPAWNED, overlay=overlay)
        assert (outcome.code, outcome.traceback) == (0, "")
        file = folder / "train.py"
        expected = [f"{who}: mended main, mended sibling, {file}" for who in ("0", "1", "parent")]
        assert sorted(outcome.output.splitlines()) == expected
        assert [(r.rank, r.world, r.steps) for r in _trained(outcome)] == [(0, 2, 3), (1, 2, 3)]
        step = next(_trained(outcome)[0].of(Stepped))
        assert step.place is not None
        assert step.place.file == str(file)
        line = SPAWNED["train.py"].splitlines().index("        optimizer.step()") + 1
        assert step.place.line == line + 1, "a line of the copy"

    @pytest.mark.usefixtures("forked_children")
    def test_a_spawned_process_that_fails(self, tmp_path: Path) -> None:
        files = {**SPAWNED, "train.py": SPAWNED["train.py"].replace("    train(rank)", "    raise ValueError(rank)")}
        outcome = _run(tmp_path, files)
        assert outcome.code == 1
        assert "ValueError: " in outcome.traceback
        assert "gradlint" not in outcome.traceback


class TestOtherChildren:
    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_multiprocessing(self, tmp_path: Path, method: str) -> None:
        text = f"""
        import multiprocessing as mp
        import sys, time

        def work():
            from loop import train
            train(2)

        if __name__ == "__main__":
            mp.set_start_method({method!r})
            child = mp.Process(target=work)
            child.start()
            child.join()
            print(child.exitcode, child.pid)
        """
        outcome = _run(tmp_path, {"train.py": text, "loop.py": TRAIN})
        code, pid = outcome.output.split()
        assert (outcome.code, code) == (0, "0")
        assert [(r.pid, r.steps) for r in _trained(outcome)] == [(int(pid), 2)]

    @pytest.mark.usefixtures("forked_children")
    def test_a_parent_that_waits_for_a_stopped_child(self, tmp_path: Path) -> None:
        text = """
        import multiprocessing as mp

        def work(results):
            from loop import train
            train()
            results.put(1)

        if __name__ == "__main__":
            results = mp.get_context("spawn").Queue()
            mp.get_context("spawn").Process(target=work, args=(results,)).start()
            print(results.get())
        """
        outcome = _run(tmp_path, {"train.py": text, "loop.py": TRAIN})
        assert [r.steps for r in _trained(outcome)] == [3]
        assert (outcome.code, outcome.timed_out) == (0, False)

    @pytest.mark.usefixtures("forked_children")
    def test_loader_workers(self, tmp_path: Path) -> None:
        text = """
        import sys
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        if __name__ == "__main__":
            data = TensorDataset(torch.rand(64, 2))
            model = torch.nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for method in ("fork", "spawn"):
                for (batch,) in DataLoader(data, 64, num_workers=1, multiprocessing_context=method):
                    optimizer.zero_grad()
                    model(batch).mean().backward()
                    optimizer.step()
            print("done")
        """
        outcome = _run(tmp_path, {"train.py": text})
        assert (outcome.code, outcome.output) == (0, "done\n")
        assert [r.steps for r in _trained(outcome)] == [2]

    def test_a_script_that_runs_itself(self, tmp_path: Path) -> None:
        text = (
            TRAIN
            + """
import subprocess, sys
if "--worker" in sys.argv:
    print("broken", sys.argv[1:], sys.flags.bytes_warning, __file__, flush=True)
    train()
print(subprocess.run([sys.executable, "-b", __file__, "--worker", "7"]).returncode)
"""
        )
        folder = tmp_path / "user"
        files = {"train.py": text}
        plain = _run(folder, files)
        mended = _run(folder, files, overlay=_fixed(tmp_path, files))
        for outcome, word in ((plain, "broken"), (mended, "mended")):
            assert outcome.output == f"{word} ['--worker', '7'] 1 {folder / 'train.py'}\n0\n"
            assert [r.steps for r in _trained(outcome)] == [3]

    def test_other_programs_are_let_alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path / "site", {"sitecustomize.py": "import builtins\nbuiltins.theirs = __file__\n"})
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
        other = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
        text = f"""
        import subprocess, sys
        look = "import sys, sitecustomize as s; print(theirs, s.__file__, [p for p in sys.path if 'runtime' in p])"
        for python in (sys.executable, {other!r}):
            subprocess.run([python, "-c", look])
            subprocess.run([python, "-c", "import sys; print('torch' in sys.modules)"])
        subprocess.run(["echo", "plain"])
        """
        outcome = _run(tmp_path / "user", {"train.py": text})
        theirs = tmp_path / "site" / "sitecustomize.py"
        assert outcome.output.splitlines() == [f"{theirs} {theirs} []", "False"] * 2 + ["plain"]
        assert len(outcome.recordings) == 1


PACKAGE = {
    "pkg/__init__.py": "",
    "pkg/model.py": "NAME = 'broken model'\n",
    "pkg/sub/__init__.py": "",
    "pkg/sub/train.py": """
        import multiprocessing as mp
        from ..model import NAME
        from . import sibling

        def work():
            from .sibling import train
            print(__name__, __package__, "broken", NAME, flush=True)
            train(2)

        if __name__ == "__main__":
            print(__name__, __package__, __spec__.name, __file__, "broken", NAME, flush=True)
            child = mp.get_context("spawn").Process(target=work)
            child.start()
            child.join()
        """,
    "pkg/sub/sibling.py": TRAIN,
}


class TestPackages:
    @pytest.mark.usefixtures("forked_children")
    def test_relative_imports(self, tmp_path: Path) -> None:
        folder = tmp_path / "user"
        plain = _run(folder, PACKAGE, "pkg/sub/train.py")
        mended = _run(folder, PACKAGE, "pkg/sub/train.py", overlay=_fixed(tmp_path, PACKAGE))
        for outcome, word in ((plain, "broken"), (mended, "mended")):
            assert outcome.output.splitlines() == [
                f"__main__ pkg.sub pkg.sub.train {folder / 'pkg/sub/train.py'} {word} {word} model",
                f"__mp_main__ pkg.sub {word} {word} model",
            ]
            assert [r.steps for r in _trained(outcome)] == [2]

    def test_the_package_by_its_own_name(self, tmp_path: Path) -> None:
        files = {
            "pkg/model.py": "NAME = 'net'\n",
            "pkg/train.py": "from pkg.model import NAME\nprint(NAME, __spec__)\n",
        }
        outcome = _run(tmp_path, files, "pkg/train.py")
        assert outcome.output == "net None\n"

    def test_a_package_that_fails_to_import(self, tmp_path: Path) -> None:
        files = {"pkg/__init__.py": "import pandas_of_old\n", "pkg/train.py": "from . import model\n"}
        outcome = _run(tmp_path, files, "pkg/train.py")
        assert outcome.code == 1
        told = outcome.traceback.splitlines()
        assert told[1] == f'  File "{tmp_path / "pkg/__init__.py"}", line 1, in <module>'
        assert told[-1] == "ModuleNotFoundError: No module named 'pandas_of_old'"


def test_tracebacks_show_the_copy(tmp_path: Path) -> None:
    files = {"train.py": "import model\nmodel.make()\n", "model.py": "def make():\n    raise ValueError('broken')\n"}
    overlay = _fixed(tmp_path, files)
    outcome = _run(tmp_path / "user", files, overlay=overlay)
    assert "line 3, in make\n    raise ValueError('mended')\n" in outcome.traceback
