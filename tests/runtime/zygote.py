"""Starts scripts without waiting for torch: a process that has imported it forks for each of them.

Importing torch takes longer than any of our scripts, and `verify` runs most of them twice. `Zygote.command` is what to
start in place of `python bootstrap.py`, and `Zygote.ranks` in place of torchrun: a small client (`client.py`) that
hands its environment, folder and streams to the zygote, waits for the forks, and ends with their exit code. Everything
behind the bootstrap is the real thing. What is about the start or the end of a process (another environment for
Python itself, time limits, signals) needs a real one.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib.abc
import importlib.machinery
import itertools
import marshal
import multiprocessing
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from unittest import mock

#: files that may be handed on: standard input, output and error, and a few pipes
_FILES = 64
#: numbers above those that anybody asks for
_ABOVE = 512
#: what a script of several processes spawns them with, if it is set
SPAWN_WITH = "GRADLINT_TESTS_SPAWN_WITH"
_CLIENT = str(Path(__file__).with_name("client.py"))
#: under a name that no file has: else its frames below each script would be the user's, and `verify` would look for
#: mistakes in them, and in all of our tests that import it
_START = "import sys; __file__ = sys.argv.pop(1); exec(compile(open(__file__).read(), '<zygote>', 'exec'))"
#: the exit codes of programs that came to an end
_codes: list[int] = []


class Zygote:
    """Started when first asked for; it ends with this process, as its standard input is closed then."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="zygote-")
        self._address = str(Path(self._folder.name, "socket"))
        # what Python reads only when it starts
        env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, __file__, self._address],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def command(self, *script: str) -> list[str]:
        return [sys.executable, "-S", _CLIENT, "ask", self._address, *script]

    def ranks(self, count: int, *script: str) -> list[str]:
        return [sys.executable, "-S", _CLIENT, "ranks", self._address, str(count), *script]

    def executable(self) -> str:
        """For code that starts `sys.executable` with what a `command` is given."""
        found = Path(self._folder.name, "python")
        if not found.exists():
            found.write_text(f'#!/bin/sh\nexec {shlex.join(self.command())} "$@"\n', encoding="utf-8")
            found.chmod(0o755)
        return str(found)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.communicate(b"end")
        self._folder.cleanup()


@functools.cache
def zygote() -> Zygote:
    """That of this process."""
    made = Zygote()
    atexit.register(made.close)
    return made


def python(*script: str) -> list[str]:
    """What to start in place of `python SCRIPT ARGUMENTS` or of `python -m MODULE ARGUMENTS`."""
    return zygote().command(*script) if hasattr(os, "fork") else [sys.executable, *script]


def serve(address: str) -> list[str]:
    """Answers clients side by side. Comes back only in a fork, with the program that it is to run."""
    atexit.register(_leave)  # the first to be registered is the last to be called

    gc.disable()  # what is imported is no garbage
    import torch._dynamo  # noqa: F401 - the first step of an optimizer imports it

    from gradlint.runtime import redirect  # noqa: F401 - and every script what records it
    from gradlint.runtime.launch import script  # noqa: F401
    from gradlint.runtime.prove import lab  # noqa: F401
    from gradlint.runtime.recorder import process  # noqa: F401

    _spare_looking()
    sys.dont_write_bytecode = True  # no fork leaves any beside its script
    gc.collect()
    gc.freeze()  # no fork looks through all of torch for garbage again, least of all when it ends
    gc.enable()
    with _Server(address) as server:
        print("ready", flush=True)
        message, files = server.next_program()
    told = marshal.loads(message)
    os.setsid()
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["env"])
    _take(dict(zip(files, told["files"], strict=True)))
    if SPAWN_WITH in os.environ:
        multiprocessing.set_executable(os.environ.pop(SPAWN_WITH))
    return list(told["script"])


def _spare_looking() -> None:
    """A recorder looks through all modules for the functions that it watches, and in a fork even a look at an object
    copies the memory that it lies in. So the forks leave out the modules of which is known by now that they hold none.
    """
    from gradlint.runtime.launch.orders import Orders
    from gradlint.runtime.recorder import patches
    from gradlint.runtime.recorder.session import Recorder

    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        with mock.patch.object(patches, "rebind") as asked:
            Recorder(Orders("", ""), lambda happening: None).install()
        ((pairs,), _) = asked.call_args
        watched = {id(original) for original, _ in pairs}
        modules = [(name, getattr(module, "__dict__", {})) for name, module in sys.modules.items()]
        found = [name for name, held in modules if not watched.isdisjoint(map(id, list(held.values())))]
        os.write(writing, marshal.dumps(found))
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        holding = ["__main__", *marshal.loads(answer.read())]
    os.waitpid(pid, 0)
    last = next(reversed(sys.modules))

    def loaded() -> list[object]:
        later = itertools.takewhile(lambda name: name != last, reversed(sys.modules))
        return [sys.modules[name] for name in dict.fromkeys([*holding, *later]) if name in sys.modules]

    patches.loaded = loaded


class _Server:
    """Forks for clients, and tells each of them how its program has ended; if a client is gone, so is its program."""

    def __init__(self, address: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen(128)
        self._clients: dict[int, socket.socket] = {}
        # a signal that nobody handles wakes nobody up
        self._woken, self._wakes = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wakes, False)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def __enter__(self) -> _Server:
        return self

    def __exit__(self, *_: object) -> None:
        """In a fork, which has nothing of all this."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in (self._woken, self._wakes):
            os.close(number)
        for held in (self._listener, *self._clients.values()):
            held.close()

    def next_program(self) -> tuple[bytes, list[int]]:
        """Comes back in each fork, with what a client has asked for and the files that it hands on."""
        while True:
            watched = [self._listener, sys.stdin, self._woken, *self._clients.values()]
            ready = select.select(watched, [], [])[0]
            if sys.stdin in ready:  # who has started this is gone, or says so
                for pid in self._clients:
                    os.kill(pid, signal.SIGKILL)
                os._exit(0)
            for pid, client in list(self._clients.items()):
                if client in ready:  # it never says anything more
                    os.kill(pid, signal.SIGKILL)
            if self._woken in ready:
                os.read(self._woken, 1 << 12)
            self._collect()
            if self._listener in ready:
                client, _ = self._listener.accept()
                message, files, _, _ = socket.recv_fds(client, 1 << 20, _FILES)
                pid = os.fork() if message else -1
                if not pid:
                    client.close()
                    return message, files
                for number in files:
                    os.close(number)
                if message:
                    self._clients[pid] = client

    def _collect(self) -> None:
        """Those that have ended."""
        while self._clients:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            with self._clients.pop(pid) as client, contextlib.suppress(OSError):  # the client may be gone as well
                client.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _take(files: dict[int, int]) -> None:
    """Under the numbers that they have where they come from, one of which another of them may have here."""
    import fcntl  # not on Windows, which has no fork, either

    above = {fcntl.fcntl(here, fcntl.F_DUPFD, _ABOVE): number for here, number in files.items()}
    for here in files:
        os.close(here)
    for here, number in above.items():
        os.dup2(here, number)
        os.close(here)


def _leave() -> None:
    """All that a program wants done at its end is done; to take all of torch apart costs more than most programs."""
    if _codes:
        with contextlib.suppress(Exception):  # Python has its own way to say so
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(_codes[-1])


class Kept(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """torch, which is imported already: to whoever imports it now it comes as if it were not."""

    def __init__(self) -> None:
        self._module = sys.modules.pop("torch")
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torch":
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=self._module.__file__, is_package=True)
        spec.submodule_search_locations = list(self._module.__path__)
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        sys.meta_path.remove(self)


def _begin_anew() -> None:
    """What Python does at its start for a process that another one spawns."""
    Kept()
    sys.modules.pop("sitecustomize", None)
    with contextlib.suppress(ImportError):
        importlib.import_module("sitecustomize")


if __name__ == "__main__":
    # the program runs here, at the end of the main module: Python then ends as it does, up to `_leave`
    sys.argv = serve(sys.argv[1])
    further = list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    try:
        if sys.argv[0].startswith("-") and "-c" in sys.argv:  # behind options that are in force already
            sys.path[:1] = ["", *further]
            del sys.argv[: sys.argv.index("-c")]
            code = sys.argv.pop(1)
            _begin_anew()
            exec(code)
        elif sys.argv[0] == "-m":
            del sys.argv[0]
            sys.path[:1] = [os.getcwd(), *further]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(sys.argv[0])
            runpy.run_path(sys.argv[0], run_name="__main__")
        _codes.append(0)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            _codes.append((end.code or 0) & 0xFF)
        raise
