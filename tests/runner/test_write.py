"""Replacing a file: whole or not at all, whatever fails and whenever it fails."""

from __future__ import annotations

import errno
import os
import signal
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradlint.runner.write import WriteError, replace_file
from tests.runner.faults import inject

OLD, NEW = b"x = 1\r\n", b"x = 2\r\ny = 3"

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX links, modes and signals")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(OLD)
    return path


def _alone(path: Path) -> bool:
    return os.listdir(path.parent) == [path.name]


def _refusal(path: Path, old: bytes = OLD) -> str:
    with pytest.raises(WriteError) as caught:
        replace_file(str(path), old, NEW)
    return str(caught.value)


def test_the_text_is_replaced(file: Path) -> None:
    replace_file(str(file), OLD, NEW)
    assert file.read_bytes() == NEW
    assert _alone(file)


def test_a_file_may_become_empty_and_large(file: Path) -> None:
    replace_file(str(file), OLD, b"")
    assert file.read_bytes() == b""
    large = b"x = 1\n" * 500_000
    replace_file(str(file), b"", large)
    assert file.read_bytes() == large


def test_a_write_that_takes_a_little_at_a_time(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    inject(monkeypatch, write=lambda descriptor, content: real(descriptor, bytes(content)[:3]))
    replace_file(str(file), OLD, NEW)
    monkeypatch.undo()
    assert file.read_bytes() == NEW


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_the_mode_stays(file: Path, mode: int) -> None:
    file.chmod(mode)
    replace_file(str(file), OLD, NEW)
    assert stat.S_IMODE(file.stat().st_mode) == mode


@posix
def test_the_owner_stays_where_we_may_give_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []
    inject(monkeypatch, fchown=lambda descriptor, user, group: given.append((user, group)))
    replace_file(str(file), OLD, NEW)
    assert given == [(file.stat().st_uid, file.stat().st_gid)]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a file to another user")
def test_root_leaves_a_file_to_its_owner(file: Path) -> None:
    os.chown(file, 12345, 54321)
    replace_file(str(file), OLD, NEW)
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 54321)


@posix
def test_an_owner_that_we_may_not_give_is_no_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.chmod(0o4755)
    inject(monkeypatch, fchown=_raising(PermissionError(errno.EPERM, "Operation not permitted")))
    replace_file(str(file), OLD, NEW)
    assert file.read_bytes() == NEW
    assert stat.S_IMODE(file.stat().st_mode) == 0o755


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="extended attributes are asked for on Linux only")
def test_attributes_stay(file: Path) -> None:
    try:
        os.setxattr(file, "user.origin", b"notebook")
    except OSError as error:
        pytest.skip(f"this file system has no extended attributes: {error}")
    replace_file(str(file), OLD, NEW)
    assert os.getxattr(file, "user.origin") == b"notebook"


@posix
def test_links_are_followed_and_stay(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "train.py"
    target.write_bytes(OLD)
    (tmp_path / "one.py").symlink_to(Path("real") / "train.py")
    (tmp_path / "two.py").symlink_to("one.py")
    replace_file(str(tmp_path / "two.py"), OLD, NEW)
    assert target.read_bytes() == NEW
    assert not target.is_symlink()
    assert os.readlink(tmp_path / "two.py") == "one.py"
    assert (tmp_path / "one.py").is_symlink()
    assert _alone(target)


@posix
def test_other_hard_links_keep_the_old_text(file: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("elsewhere") / "cached.py"
    os.link(file, other)
    replace_file(str(file), OLD, NEW)
    assert (file.read_bytes(), other.read_bytes()) == (NEW, OLD)


def test_a_file_that_has_changed_is_left_to_whoever_changed_it(file: Path) -> None:
    file.write_bytes(b"theirs")
    assert "changed by someone else" in _refusal(file)
    assert file.read_bytes() == b"theirs"
    assert _alone(file)


def test_a_file_that_changes_during_the_write(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def meanwhile(descriptor: int) -> None:
        file.write_bytes(b"theirs")
        real(descriptor)

    inject(monkeypatch, fsync=meanwhile)
    assert "changed by someone else" in _refusal(file)
    assert file.read_bytes() == b"theirs"
    assert _alone(file)


def test_a_vanished_file_is_not_made_again(file: Path) -> None:
    file.unlink()
    assert _refusal(file) == "it has vanished meanwhile"
    assert os.listdir(file.parent) == []


def test_a_file_that_vanishes_during_the_write(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inject(monkeypatch, fsync=lambda descriptor: file.unlink())
    assert _refusal(file) == "it has vanished meanwhile"
    assert os.listdir(file.parent) == []


def test_a_file_without_write_permission_is_protected_even_from_root(file: Path) -> None:
    file.chmod(0o444)
    assert _refusal(file) == "it is read-only"
    file.chmod(0o644)
    assert file.read_bytes() == OLD
    assert _alone(file)


@pytest.mark.parametrize(("refused", "reason"), [("train.py", "it is read-only"), ("", "its folder is read-only")])
def test_what_the_system_says_of_permissions_counts(
    file: Path, monkeypatch: pytest.MonkeyPatch, refused: str, reason: str
) -> None:
    """As root, or on a read-only disk, the mode bits do not tell: the system is asked."""
    forbidden = os.path.realpath(file.parent / refused)
    inject(monkeypatch, access=lambda path, mode: os.fspath(path) != forbidden)
    assert _refusal(file) == reason
    assert file.read_bytes() == OLD
    assert _alone(file)


@posix
def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert _refusal(tmp_path / "pipe.py") == "it is not a regular file"
    assert stat.S_ISFIFO((tmp_path / "pipe.py").stat().st_mode)


def _raising(error: BaseException) -> Callable[..., Any]:
    def raising(*_: object, **__: object) -> None:
        raise error

    return raising


FULL = OSError(errno.ENOSPC, "No space left on device")
STEPS = ["open", "write", "fchmod", "fsync", "replace"]


@posix
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt(), MemoryError()], ids=["full", "interrupt", "memory"])
def test_whatever_fails_the_file_is_whole(
    file: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    with monkeypatch.context() as patch:
        inject(patch, **{step: _raising(error)})
        with pytest.raises(WriteError if error is FULL else type(error)) as caught:
            replace_file(str(file), OLD, NEW)
    assert error is not FULL or str(caught.value) == "No space left on device"
    assert file.read_bytes() == OLD
    assert _alone(file)


@posix
@pytest.mark.parametrize("step", STEPS)
def test_an_interrupt_right_after_a_step(file: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """The hard moments: the temporary file has just come to be, or has just become the file."""
    real = getattr(os, step)

    def then_interrupted(*arguments: Any) -> None:
        real(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        inject(patch, **{step: then_interrupted})
        with pytest.raises(KeyboardInterrupt):
            replace_file(str(file), OLD, NEW)
    assert file.read_bytes() == (NEW if step == "replace" else OLD)
    assert _alone(file)


def test_a_disk_that_is_full_only_when_the_file_is_closed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.close

    def failing(descriptor: int) -> None:
        real(descriptor)
        raise FULL

    with monkeypatch.context() as patch:
        inject(patch, close=failing)
        assert _refusal(file) == "No space left on device"
    assert file.read_bytes() == OLD
    assert _alone(file)


@posix
def test_a_folder_that_cannot_be_synced_is_no_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        real(descriptor)

    inject(monkeypatch, fsync=files_only)
    replace_file(str(file), OLD, NEW)
    assert file.read_bytes() == NEW


@posix
@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_control_c_waits_until_the_file_is_whole(file: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    real = getattr(os, step)
    seen: list[int] = []

    def signalled(*arguments: Any) -> Any:
        seen.append(1)
        if len(seen) == 1:
            signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    with monkeypatch.context() as patch:
        inject(patch, **{step: signalled})
        with pytest.raises(KeyboardInterrupt):
            replace_file(str(file), OLD, NEW)
    assert file.read_bytes() == NEW
    assert _alone(file)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@posix
def test_control_c_counts_even_if_the_write_fails(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(descriptor: int) -> None:
        signal.raise_signal(signal.SIGINT)
        raise FULL

    with monkeypatch.context() as patch:
        inject(patch, fsync=failing)
        with pytest.raises(KeyboardInterrupt):
            replace_file(str(file), OLD, NEW)
    assert file.read_bytes() == OLD
    assert _alone(file)


@posix
def test_a_request_to_terminate_waits_as_well(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[bytes] = []
    usual = signal.signal(signal.SIGTERM, lambda number, frame: came.append(file.read_bytes()))
    try:
        real = os.fsync

        def signalled(descriptor: int) -> None:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                signal.raise_signal(signal.SIGTERM)
            real(descriptor)

        inject(monkeypatch, fsync=signalled)
        replace_file(str(file), OLD, NEW)
    finally:
        signal.signal(signal.SIGTERM, usual)
    assert came == [NEW]


def test_it_works_in_a_thread_where_no_signal_can_be_held_back(file: Path) -> None:
    thread = threading.Thread(target=replace_file, args=(str(file), OLD, NEW))
    thread.start()
    thread.join()
    assert file.read_bytes() == NEW
