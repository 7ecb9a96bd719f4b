"""Tracebacks as the script's author would see them: without the frames that only the recording put there."""

from __future__ import annotations

import importlib
import os
import re
import traceback
from types import TracebackType

_OWN = os.path.normcase(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep)
#: a package is imported by hand before its script runs
_IMPORTLIB = os.path.normcase(os.path.abspath(importlib.__file__))
_FRAME = re.compile(r'^(?P<indent>[ |+]*)File "(?P<file>.*)", line \d+')
_SOURCE = re.compile(r"^(?P<indent>[ |+]*)")


def is_ours(filename: str) -> bool:
    return os.path.normcase(filename).startswith(_OWN)


def tell(error: BaseException) -> str:
    """The whole traceback, with causes, as Python prints it."""
    found = traceback.TracebackException(type(error), error, trimmed(error.__traceback__))
    return without_our_frames("".join(found.format()))


def trimmed(trace: TracebackType | None) -> TracebackType | None:
    """Without our frames, nor those by which we came to the script; nothing is left of a syntax error in it."""
    while trace is not None and _leads_to_the_script(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    frames = []
    while trace is not None:
        if not is_ours(trace.tb_frame.f_code.co_filename):
            frames.append(trace)
        trace = trace.tb_next
    for frame in reversed(frames):
        trace = TracebackType(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return trace


def without_our_frames(text: str) -> str:
    """Cuts frames of this package out of the text of a traceback, also of one that is quoted inside a message."""
    kept: list[str] = []
    cut_below = -1  # the indentation of the frame that is being cut
    for line in text.splitlines(keepends=True):
        indent = _width(line)
        if frame := _FRAME.match(line):
            cut_below = indent if is_ours(frame["file"]) else -1
        elif indent <= cut_below:
            cut_below = -1
        if cut_below < 0:
            kept.append(line)
    return "".join(kept)


def _leads_to_the_script(filename: str) -> bool:
    return is_ours(filename) or filename.startswith("<frozen ") or os.path.normcase(filename) == _IMPORTLIB


def _width(line: str) -> int:
    found = _SOURCE.match(line)
    return len(found["indent"]) if found else 0
