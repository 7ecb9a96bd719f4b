"""What the server asks of the process that lints, and what it is answered; all of it crosses a pipe."""

from __future__ import annotations

import enum
import pickle
import struct

from gradlint.config.settings import Settings
from gradlint.documents.notebook import CodeCell
from gradlint.model import FileResult
from gradlint.records import dataclass

#: the name of what has no file, where rules are chosen by path
UNNAMED = "untitled.py"
#: in front of each message: its length
HEADER = struct.Struct("!I")


class Task(enum.Enum):
    """The findings; or the text with all fixes applied."""

    LINT = "lint"
    FIX = "fix"


@dataclass(frozen=True, slots=True)
class Job:
    """A program to read: that of a file, or of a notebook's cells."""

    number: int
    task: Task
    path: str
    settings: Settings
    source: bytes = b""
    cells: tuple[CodeCell, ...] | None = None
    unsafe: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    """Nobody waits for this job any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a job gave; `texts` are those that fixing has changed, by cell, or at 0 for a file."""

    number: int
    result: FileResult
    texts: dict[int, str]
    #: why all findings are told although some are said to be known
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that was given up: because it was cancelled (no reason is told), or because it broke."""

    number: int
    reason: str | None = None


def packed(message: Job | Cancel | Answer | Failure) -> bytes:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return HEADER.pack(len(body)) + body
