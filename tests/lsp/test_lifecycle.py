"""How the server begins and ends, and what it survives: spoken to byte by byte."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from tests.lsp.editor import LATE_CLIP, SERVER
from tests.patience import PATIENCE

INITIALIZE: dict[str, object] = {"processId": None, "rootUri": None, "capabilities": {}}


class Wire:
    """The protocol with nothing round it."""

    def __init__(self, inlet: IO[bytes], outlet: IO[bytes]) -> None:
        self._inlet = inlet
        self._outlet = outlet
        self.heard: list[dict[str, Any]] = []

    def raw(self, body: bytes) -> None:
        self._outlet.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._outlet.flush()

    def send(self, method: str, params: object, number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.raw(json.dumps(message if number is None else {**message, "id": number}).encode())

    def ask(self, method: str, params: object, number: int) -> dict[str, Any]:
        self.send(method, params, number)
        return self.until(lambda message: message.get("id") == number)

    def until(self, wanted: Any) -> dict[str, Any]:
        while True:
            message = self._read()
            self.heard.append(message)
            if wanted(message):
                return message

    def _read(self) -> dict[str, Any]:
        size = 0
        while (line := self._inlet.readline()) != b"\r\n":
            assert line, "the server is gone"
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        found: dict[str, Any] = json.loads(self._inlet.read(size))
        return found

    def diagnostics(self, text: str = LATE_CLIP, uri: str = "untitled:a.py") -> list[str]:
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self.send("textDocument/didOpen", {"textDocument": document})
        found = self.until(lambda m: m.get("method") == "textDocument/publishDiagnostics")
        return [diagnostic["code"] for diagnostic in found["params"]["diagnostics"]]

    def end(self) -> None:
        assert self.ask("shutdown", None, 99)["result"] is None
        self.send("exit", None)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    made = subprocess.Popen(SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    yield made
    made.kill()
    made.wait()
    for stream in (made.stdin, made.stdout, made.stderr):
        assert stream is not None
        stream.close()


@pytest.fixture
def wire(process: subprocess.Popen[bytes]) -> Wire:
    assert process.stdin is not None
    assert process.stdout is not None
    made = Wire(process.stdout, process.stdin)
    made.ask("initialize", INITIALIZE, 1)
    made.send("initialized", {})
    return made


@pytest.mark.slow
def test_what_it_survives_and_how_it_ends(wire: Wire, process: subprocess.Popen[bytes]) -> None:
    wire.raw(b'{"jsonrpc": "2.0", "method": "textDocument/did')
    wire.raw(b"\xff\xfe\0")
    wire.raw(b"[]")
    wire.raw(b'{"jsonrpc": "2.0", "id": 7, "method": "textDocument/hover", "params": {"textDocument": 3}}')
    wire.send("textDocument/didChange", {"textDocument": {"uri": "untitled:no", "version": 2}, "contentChanges": []})
    wire.send("textDocument/didChange", {"nothing": "at all"})
    assert wire.ask("textDocument/unheardOf", {}, 8)["error"]["code"] == -32601
    unknown = {"textDocument": {"uri": "untitled:no"}, "position": {"line": 9, "character": 9}}
    assert wire.ask("textDocument/hover", unknown, 9)["result"] is None
    assert wire.diagnostics() == ["GL101"]
    assert not [m for m in wire.heard if m.get("method") == "window/showMessage"]
    assert [m for m in wire.heard if m.get("method") == "window/logMessage"]
    wire.end()
    assert process.wait(PATIENCE) == 0
    assert process.stdout is not None
    assert process.stderr is not None
    assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


@pytest.mark.slow
def test_an_exit_without_a_shutdown_is_an_error(wire: Wire, process: subprocess.Popen[bytes]) -> None:
    wire.send("exit", None)
    assert process.wait(PATIENCE) == 1


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [True, False])
def test_it_ends_when_the_editor_is_gone(wire: Wire, process: subprocess.Popen[bytes], at_once: bool) -> None:
    assert at_once or wire.diagnostics() == ["GL101"]
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE) == 1


@pytest.mark.slow
def test_the_process_that_lints_ends_with_a_server_that_is_killed(wire: Wire, process: subprocess.Popen[bytes]) -> None:
    """It has the server's stderr: that ends when the last of both has ended."""
    assert wire.diagnostics() == ["GL101"]
    text = "import torch\n" + "\n".join(
        LATE_CLIP[len("import torch\n") :].replace("train", f"t_{n}") for n in range(200)
    )
    wire.send(
        "textDocument/didOpen",
        {"textDocument": {"uri": "untitled:b.py", "languageId": "python", "version": 1, "text": text}},
    )
    process.kill()
    process.communicate(timeout=PATIENCE)


@pytest.mark.slow
def test_over_tcp() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*SERVER, "--tcp", str(port)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        connection = _connected(port)
        with connection, connection.makefile("rb") as inlet, connection.makefile("wb") as outlet:
            wire = Wire(inlet, outlet)
            wire.ask("initialize", INITIALIZE, 1)
            assert wire.diagnostics() == ["GL101"]
            wire.end()
            assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        assert process.communicate()[0] == b""


def _connected(port: int) -> socket.socket:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(0.05)
    raise AssertionError("nobody listens")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tcp", "somewhere"], "`somewhere` is no port"),
        (["--tcp", "host:99999"], "`host:99999` is no port"),
        (["--tcp", "2087", "--stdio"], "cannot be used together"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str) -> None:
    done = subprocess.run([*SERVER, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["pygls", "lsprotocol"])
def test_without_the_extra(missing: str, tmp_path: Path) -> None:
    (tmp_path / missing).mkdir()
    text = f"raise ModuleNotFoundError(\"No module named '{missing}'\", name='{missing}')\n"
    (tmp_path / missing / "__init__.py").write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        SERVER, capture_output=True, text=True, check=False, env=environment, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert 'pip install "torch-gradlint[lsp]"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_modules_of_the_users_folder_are_not_imported(tmp_path: Path) -> None:
    for name in ("ast", "libcst", "pickle", "struct"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    command = [str(Path(sys.executable).with_name("gradlint")), "server"]
    if not os.path.exists(command[0]):
        pytest.skip("the command is not installed")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        wire = Wire(process.stdout, process.stdin)
        wire.ask("initialize", INITIALIZE, 1)
        assert wire.diagnostics() == ["GL101"]
        wire.end()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.communicate()
