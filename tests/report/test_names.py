"""Names of files that no encoding can write: told with escapes, in every format and on the terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given

from gradlint.cli.output import rendered
from gradlint.config.schema import FOR_PROGRAMS
from gradlint.model import FileResult, Position, Related, RuleCrash, Span, Unreadable, harmless
from gradlint.records import replace
from gradlint.report.diff import painted, unified
from gradlint.report.document import Report
from gradlint.report.paths import as_bytes, file_uri, writable
from gradlint.report.text import Paint, concise, enumeration, full
from gradlint.runner.write import FixedFile
from tests.report.samples import ANY_PATH, UNWRITABLE_PATHS, finding, report
from tests.sources import strings_in

PLAIN = Paint(False)
MADE = finding(Span(Position(1, 1), Position(1, 2)))


def _report(path: str) -> Report:
    """One with a finding, one that was not read, and one at which a rule failed."""
    results = [
        FileResult(path, (MADE,)),
        FileResult(path, unreadable=Unreadable("it is a binary file")),
        FileResult(path, crashes=(RuleCrash("GL101", "KeyError: 'x'", ""),)),
    ]
    return report(results, {path: "x\n"})


@pytest.mark.parametrize("format_", FOR_PROGRAMS)
@pytest.mark.parametrize("path", UNWRITABLE_PATHS, ids=ascii)
def test_every_format_can_be_written(path: str, format_: str) -> None:
    lines = list(rendered(format_, _report(path)))
    "\n".join(lines).encode("utf-8")  # strictly
    if format_ in ("json", "jsonl", "sarif", "gitlab", "lsp"):
        for line in lines:
            told = list(strings_in(json.loads(line)))
            "\n".join(told).encode("utf-8")  # an escape of half a character is no string for strict readers of JSON
            assert told


@pytest.mark.parametrize("format_", FOR_PROGRAMS)
@given(path=ANY_PATH)
def test_any_name_in_any_format(format_: str, path: str) -> None:
    text = "\n".join(rendered(format_, _report(path)))
    assert MADE.code.encode() in text.encode("utf-8")  # strictly


@pytest.mark.parametrize("format_", ["json", "github", "gitlab", "junit", "markdown"])
def test_the_escape_says_what_stood_there(format_: str) -> None:
    text = "\n".join(rendered(format_, _report("caf\udce9.py")))
    assert (r"caf\\udce9.py" if format_ in ("json", "gitlab") else r"caf\udce9.py") in text


@pytest.mark.skipif(sys.getfilesystemencoding() != "utf-8" or os.name == "nt", reason="names are bytes on POSIX")
def test_an_address_holds_the_bytes_themselves() -> None:
    assert file_uri("/caf\udce9.py") == "file:///caf%E9.py"
    assert unquote_to_bytes(file_uri("/\ud800.py")) == rb"file:///\ud800.py"


@pytest.mark.parametrize("path", UNWRITABLE_PATHS, ids=ascii)
def test_terminals(path: str) -> None:
    lines = [
        *concise([FileResult(path, (MADE,))], PLAIN),
        *full([FileResult(path, (MADE,))], lambda name: b"x\n", PLAIN),
        *enumeration([FixedFile(path, b"a\n", b"b\n", (MADE,))], PLAIN),
        *painted(FixedFile(path, b"a\n", b"b\n", (MADE,)), PLAIN),
    ]
    "\n".join(lines).encode("utf-8")
    assert not [line for line in lines if re.search(r"[\x00-\x1f\x7f]", line)]
    assert sum(harmless(path) in line for line in lines) >= 3


@pytest.mark.parametrize("path", UNWRITABLE_PATHS, ids=ascii)
def test_diffs(path: str) -> None:
    made = unified(FixedFile(path, b"a\n", b"b\n", (MADE,)))
    assert made.startswith(b"--- " + as_bytes(path))


@given(ANY_PATH)
def test_only_what_cannot_be_written_is_escaped(path: str) -> None:
    assert writable(path) == path.encode("utf-8", "backslashreplace").decode()


@pytest.mark.parametrize("sign", ["\x1b", "\x9b", "\u202e", "\u2066", "\u200f", "\u061c"], ids=ascii)
def test_no_sign_that_steers_a_terminal_is_sent(sign: str) -> None:
    text = f"x{sign}y"
    span = Span(Position(1, 1), Position(1, 2))
    steering = replace(MADE, message=text, related=(Related(span, text),))
    fixed = FixedFile(text, f"a{sign}\n".encode(), f"b{sign}\n".encode(), (steering,))
    lines = [
        *concise([FileResult(text, (steering,))], PLAIN),
        *full([FileResult(text, (steering,))], lambda name: f"{text}\n".encode(), PLAIN),
        *enumeration([fixed], PLAIN),
        *painted(fixed, PLAIN),
    ]
    assert not [line for line in lines if sign in line]
    shown = sign.encode("unicode_escape").decode()
    assert sum(shown in line for line in lines) >= 4
