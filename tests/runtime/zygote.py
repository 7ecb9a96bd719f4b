"""Starts scripts without waiting for torch: a process that has imported it forks for each of them.

Importing torch takes longer than any of our scripts, and `verify` runs most of them twice. `Zygote.command` is what to
start in place of `python bootstrap.py`: a small client that hands its environment, folder and streams to the zygote,
waits for the fork, and ends with its exit code. Everything behind the bootstrap is the real thing.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

STREAMS = 3


class Zygote:
    """Started when first asked for; it ends with this process, as its standard input is closed then."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="zygote-")
        self._address = str(Path(self._folder.name, "socket"))
        # what Python reads only when it starts
        env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "serve", self._address], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def command(self, bootstrap: str) -> list[str]:
        return [sys.executable, "-S", __file__, "ask", self._address, bootstrap]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()


def serve(address: str) -> str:
    """Answers one client after the other. Comes back only in a fork, with the program that it is to run."""
    import torch._dynamo  # noqa: F401 - the first step of an optimizer imports it

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            client, _ = listener.accept()
            message, streams, _, _ = socket.recv_fds(client, 1 << 20, STREAMS)
            child = os.fork()
            if not child:
                client.close()
                break
            for stream in streams:
                os.close(stream)
            _, status = os.waitpid(child, 0)
            client.sendall(str(os.waitstatus_to_exitcode(status)).encode())
            client.close()
    told = json.loads(message)
    os.setsid()
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["env"])
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    bootstrap = str(told["bootstrap"])
    sys.argv = [bootstrap]
    sys.path[0] = os.path.dirname(bootstrap)
    return bootstrap


def ask(address: str, bootstrap: str) -> int:
    told = json.dumps({"env": dict(os.environ), "folder": os.getcwd(), "bootstrap": bootstrap})
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [told.encode()], range(STREAMS))
        answer = server.recv(16)
    return int(answer or b"1")


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        code = ask(*sys.argv[2:])
        sys.exit(code if code >= 0 else 128 - code)
    # the program runs here, at the end of the main module: Python then ends as it always does
    runpy.run_path(serve(sys.argv[2]), run_name="__main__")
