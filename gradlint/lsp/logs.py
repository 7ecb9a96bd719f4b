"""What the server has to say of itself goes to the editor's log, and only there."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcContentModified

_LEVELS = {
    logging.CRITICAL: types.MessageType.Error,
    logging.ERROR: types.MessageType.Error,
    logging.WARNING: types.MessageType.Warning,
    logging.INFO: types.MessageType.Info,
}

logger = logging.getLogger("gradlint.lsp")


class EditorHandler(logging.Handler):
    """Sends records as `window/logMessage`; sending is itself logged by the library, so it listens to no echo."""

    def __init__(self, send: Callable[[types.LogMessageParams], None]) -> None:
        super().__init__()
        self._send = send
        self._sending = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(self._sending, "now", False) or _expected(record):
            return
        self._sending.now = True
        try:
            kind = _LEVELS.get(record.levelno, types.MessageType.Log)
            self._send(types.LogMessageParams(kind, self.format(record)))
        except Exception:  # the editor is gone; there is nobody left to tell
            pass
        finally:
            self._sending.now = False


def _expected(record: logging.LogRecord) -> bool:
    """The library reports every answer that is an error; that a text has changed meanwhile is none of ours."""
    return record.exc_info is not None and isinstance(record.exc_info[1], JsonRpcContentModified)


def tell_the_editor(send: Callable[[types.LogMessageParams], None]) -> None:
    handler = EditorHandler(send)
    handler.setFormatter(logging.Formatter("%(message)s"))
    for name, level in (("gradlint.lsp", logging.INFO), ("pygls", logging.WARNING)):
        named = logging.getLogger(name)
        named.setLevel(level)
        named.addHandler(handler)
        named.propagate = False


def told_if_failed(task: asyncio.Task[Any]) -> None:
    """For tasks that nobody waits for: their failure must not be lost, nor take anything with it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s: %s", type(error).__name__, error, exc_info=error)
