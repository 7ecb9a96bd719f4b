"""What a launch is made of, without torch and mostly without a process."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from gradlint.config.reading import ConfigError
from gradlint.runtime.launch import run
from gradlint.runtime.launch.ending import (
    Ending,
    Follower,
    elsewhere,
    end_of,
    endings,
    note_trouble,
    tell,
    troubles,
    without_our_frames,
)
from gradlint.runtime.launch.orders import Entry, Orders, examine, find_module, read
from gradlint.runtime.launch.run import ProcessTree
from tests.runtime.launched import contents, is_alive, write
from tests.runtime.zygote import zygote


def test_launching_needs_no_torch() -> None:
    code = "import gradlint.runtime.launch.run, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_torch_is_found_without_an_import() -> None:
    code = "import sys; from gradlint.runtime.launch.run import *; print(torch_is_installed(), 'torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "True False\n"


def test_orders_arrive_as_they_were_given(tmp_path: Path) -> None:
    orders = Orders(
        str(tmp_path), "train.py", arguments=("--lr", "1"), overlay={"a.py": "b.py"}, paths=("x",), own=("y",)
    )
    assert read(str(orders.write())) == orders


class TestEntry:
    def _examine(self, folder: Path, name: str, text: str, *more: str) -> Entry:
        write(folder, {name: text, **dict.fromkeys(more, "")})
        return examine(folder / name, text.encode())

    @pytest.mark.parametrize(
        "text",
        [
            "import model",
            "from model import Net",
            "try:\n    from .model import Net\nexcept ImportError:\n    from model import Net",
            "try:\n    from .model import Net\nexcept:\n    from model import Net",
            "if TYPE_CHECKING:\n    from .model import Net",
            "if typing.TYPE_CHECKING:\n    from .model import Net",
            "if __package__:\n    from .model import Net\nelse:\n    from model import Net",
            "if __name__ != '__main__':\n    from .model import Net",
            "from .model import",
        ],
    )
    def test_a_plain_script(self, tmp_path: Path, text: str) -> None:
        assert self._examine(tmp_path, "pkg/train.py", text, "pkg/__init__.py") == Entry(str(tmp_path / "pkg"))

    @pytest.mark.parametrize(
        ("name", "text", "more", "module", "home"),
        [
            ("pkg/train.py", "from .model import Net", ("pkg/__init__.py",), "pkg.train", "."),
            ("pkg/train.py", "def f():\n    from . import model", ("pkg/__init__.py",), "pkg.train", "."),
            ("pkg/train.py", "if debug:\n    from . import model", (), "pkg.train", "."),
            ("pkg/train.py", "try:\n    from . import model\nfinally:\n    pass", (), "pkg.train", "."),
            ("pkg/sub/train.py", "from ..model import Net", (), "pkg.sub.train", "."),
            ("pkg/sub/train.py", "from .model import Net", (), "sub.train", "pkg"),
            ("a-b/pkg/train.py", "from .m import N", ("a-b/__init__.py", "a-b/pkg/__init__.py"), "pkg.train", "a-b"),
            ("pkg/sub/train.py", "from .m import N", ("pkg/__init__.py", "pkg/sub/__init__.py"), "pkg.sub.train", "."),
        ],
    )
    def test_a_module(
        self, tmp_path: Path, name: str, text: str, more: tuple[str, ...], module: str, home: str
    ) -> None:
        assert self._examine(tmp_path, name, text, *more) == Entry(str(tmp_path / home), module)

    def test_no_name_for_the_package(self, tmp_path: Path) -> None:
        assert self._examine(tmp_path, "my-code/train.py", "from .m import N") == Entry(str(tmp_path / "my-code"))

    def test_the_package_by_its_own_name(self, tmp_path: Path) -> None:
        found = self._examine(tmp_path, "pkg/bin/train.py", "import torch, pkg.model")
        assert found == Entry(str(tmp_path / "pkg" / "bin"), paths=(str(tmp_path),))


def test_copies_run_in_place_of_originals(tmp_path: Path) -> None:
    """A module with bytecode, one without, a script; read again by Python itself they are as they were."""
    write(tmp_path, {name: f"print('original', __file__)\nX = '{name}'\n" for name in ("a.py", "b.py", "run.py")})
    py_compile.compile(str(tmp_path / "a.py"))
    write(tmp_path / "copies", dict.fromkeys(("a.py", "b.py", "run.py"), "print('copy', __file__)\n1 / 0\n"))
    copies = {str(tmp_path / name): str(tmp_path / "copies" / name) for name in ("a.py", "b.py", "run.py")}
    code = f"""
import linecache, runpy, sys, traceback
from gradlint.runtime.launch.orders import Overlay
overlay = Overlay({copies!r})
overlay.install()
sys.path.insert(0, {str(tmp_path)!r})
for load in (lambda: __import__("a"), lambda: __import__("b"), lambda: runpy.run_path({str(tmp_path / "run.py")!r})):
    try:
        load()
    except ZeroDivisionError as error:
        print(traceback.extract_tb(error.__traceback__)[-1].line)
print(open({str(tmp_path / "a.py")!r}).read() == overlay.read({str(tmp_path / "a.py")!r}).decode())
import decimal
"""
    before = contents(tmp_path)
    answer = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=True)
    shown = [f"copy {tmp_path / name}\n1 / 0\n" for name in ("a.py", "b.py", "run.py")]
    assert answer.stdout == "".join(shown) + "False\n"
    assert contents(tmp_path) == before


class TestTracebacks:
    def test_our_frames_are_cut_out_of_a_text(self) -> None:
        ours = run.__file__
        text = (
            "Traceback (most recent call last):\n"
            f'  File "{ours}", line 1, in run\n    call()\n    ^^^^^^\n'
            '  File "train.py", line 2, in <module>\n    loss.backward()\n'
            f'  File "{ours}", line 3, in backward\n    real()\n'
            "ValueError: quoted\n"
            f'    Traceback (most recent call last):\n      File "{ours}", line 3, in f\n        g()\n    KeyError\n'
        )
        assert without_our_frames(text) == (
            "Traceback (most recent call last):\n"
            '  File "train.py", line 2, in <module>\n    loss.backward()\n'
            "ValueError: quoted\n"
            "    Traceback (most recent call last):\n    KeyError\n"
        )

    def test_causes_are_told(self) -> None:
        try:
            try:
                raise KeyError("inner")
            except KeyError as inner:
                raise ValueError("outer") from inner
        except ValueError as error:
            text = tell(error)
        assert text.count("Traceback (most recent call last):") == 2
        assert "direct cause" in text
        assert text.endswith("ValueError: outer\n")


class TestOutput:
    @pytest.mark.parametrize(
        ("printed", "shown"),
        [
            (b"", ""),
            (b"a\nb\n", "a\nb\n"),
            (b"a\nb", "a\nb"),
            (b"windows\r\nlines\r\n", "windows\nlines\n"),
            (b"10%\r50%\r100%\ndone\n", "100%\ndone\n"),
            (b"10%\r50%\r", "50%"),
            (b"\xff\n", "\ufffd\n"),
            (b"line\n" * 500, "line\n" * 200),
            (b"x" * 1_000_000 + b"\nlast\n", "last\n"),
        ],
    )
    def test_the_end_is_kept(self, tmp_path: Path, printed: bytes, shown: str) -> None:
        path = tmp_path / "output.txt"
        path.write_bytes(printed)
        assert end_of(path) == shown

    def test_a_character_in_two_parts(self, tmp_path: Path) -> None:
        path = tmp_path / "output.txt"
        told: list[str] = []
        follower = Follower(path, told.append)
        for upto in range(len(word := "größe\n".encode()) + 1):
            path.write_bytes(word[:upto])
            follower.look()
        follower.look(last=True)
        assert "".join(told) == "größe\n"
        assert "" not in told


class TestEnding:
    def test_the_first_failure_comes_first(self, tmp_path: Path) -> None:
        Ending(2.0, "later").write(str(tmp_path))
        (tmp_path / "ending-1.json").write_text('{"time": 1.0, "traceback": "first"}', encoding="utf-8")
        (tmp_path / "ending-2.json").write_text('{"time": 0.', encoding="utf-8")
        assert [e.traceback for e in endings(tmp_path)] == ["first", "later"]

    def test_troubles_are_told(self, tmp_path: Path) -> None:
        note_trouble(str(tmp_path), "no torch")
        assert list(troubles(tmp_path).values()) == ["no torch"]

    @pytest.mark.parametrize(("name", "found"), [("data/x.txt", True), ("data/y.txt", False), (b"data/x.txt", True)])
    def test_a_file_that_is_elsewhere(self, tmp_path: Path, name: str | bytes, found: bool) -> None:
        write(tmp_path, {"data/x.txt": ""})
        error = RuntimeError("wrapped")
        error.__cause__ = FileNotFoundError(2, "No such file", name)
        assert elsewhere(error, str(tmp_path)) == ("data/x.txt" if found else "")
        assert elsewhere(FileNotFoundError(2, "No such file", str(tmp_path / "no")), str(tmp_path)) == ""
        assert elsewhere(ValueError(), str(tmp_path)) == ""


@pytest.mark.skipif(sys.platform == "win32", reason="processes end in another way")
def test_a_process_tree_ends_together(tmp_path: Path) -> None:
    child = "import subprocess; p = subprocess.Popen(['sleep', '600'], start_new_session=True); print(p.pid); p.wait()"
    with (tmp_path / "out").open("wb") as output:
        tree = ProcessTree(
            [sys.executable, "-u", "-c", child], {"MARK": str(tmp_path)}, None, output, f"MARK={tmp_path}"
        )
        while not (printed := (tmp_path / "out").read_bytes()).endswith(b"\n"):
            assert tree.wait(0.02) is None
        tree.end()
    assert tree.process.poll() is not None
    assert not is_alive(int(printed))


class TestModules:
    def test_a_module_is_found_and_not_imported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path, {"pkg/__init__.py": "raise ValueError", "pkg/train.py": "", "pkg/tool/__main__.py": ""})
        monkeypatch.chdir(tmp_path)
        home = str(tmp_path)
        assert find_module("pkg.train") == (tmp_path / "pkg" / "train.py", Entry(home, "pkg.train"))
        main = tmp_path / "pkg" / "tool" / "__main__.py"
        assert find_module("pkg.tool") == (main, Entry(home, "pkg.tool.__main__"))
        assert find_module("pkg.missing") is None
        assert find_module("pkg") is None
        assert find_module("sys") is None


class TestDevices:
    def test_what_is_there_is_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run, "available", lambda: {"cuda": 2})
        assert [run.resolve(wanted) for wanted in ("auto", "cpu", "cuda")] == ["cuda", "cpu", "cuda"]
        with pytest.raises(ConfigError, match="torch sees no mps device on this machine"):
            run.resolve("mps")

    def test_nothing_is_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run, "available", dict)
        assert run.resolve("auto") == "cpu"
        assert run.too_few("cpu", 8) == ""

    def test_ranks_beyond_the_devices_go_to_the_cpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run, "available", lambda: {"cuda": 2})
        assert run.too_few("cuda", 2) == ""
        assert run.too_few("cuda", 4) == "4 ranks, and 2 cuda devices: they run on the CPU"

    def test_no_such_device(self) -> None:
        with pytest.raises(ConfigError, match="unknown device `gpu`"):
            run.resolve("gpu")

    def test_torch_that_cannot_be_imported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path, {"torch.py": "raise ImportError('libcudart.so is missing')"})
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        run.available.cache_clear()
        with pytest.raises(ConfigError, match=r"torch cannot be imported: ImportError: libcudart\.so is missing"):
            run.available()

    @pytest.mark.slow
    def test_torch_is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """In a process that has imported it already; `tests/cli/test_doctor.py` asks in one that has not."""
        import torch

        if hasattr(os, "fork"):
            monkeypatch.setattr(sys, "executable", zygote().executable())
        run.available.cache_clear()
        assert ("cuda" in run.available()) == torch.cuda.is_available()
