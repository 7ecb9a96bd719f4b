"""Reading bytes: every encoding that Python allows, and every failure as a value."""

from __future__ import annotations

import codecs

import pytest

from gradlint.config import Settings
from gradlint.engine import lint
from gradlint.model import Unreadable
from gradlint.python.lower import Lowering
from gradlint.python.source import Broken, Source, read


def _source(data: bytes) -> Source:
    text = read(data)
    assert isinstance(text, Source), text
    return text


def _reason(data: bytes) -> str:
    text = read(data)
    assert isinstance(text, Unreadable), text
    return text.reason


def test_plain_text_is_utf8() -> None:
    assert _source("name = 'Ünïcödé'\n".encode()).text == "name = 'Ünïcödé'\n"


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8", "iso-8859-15"])
def test_a_declared_encoding_is_used(encoding: str) -> None:
    text = f"# -*- coding: {encoding} -*-\nname = 'é'\n"
    assert _source(text.encode(encoding)).text == text


def test_the_declaration_may_stand_on_the_second_line() -> None:
    text = "#!/usr/bin/env python\n# vim: set fileencoding=latin-1 :\nname = 'é'\n"
    assert _source(text.encode("latin-1")).text == text


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    source = _source(codecs.BOM_UTF8 + b"x = 1\n")
    assert source.text == "x = 1\n"
    assert source.data.startswith(codecs.BOM_UTF8)


def test_a_byte_order_mark_does_not_move_positions() -> None:
    assert _first_row_and_column(codecs.BOM_UTF8 + b"loss.backward()\n") == (1, 1)


def test_a_byte_order_mark_against_another_declaration_is_unreadable() -> None:
    assert "decoded" in _reason(codecs.BOM_UTF8 + b"# coding: latin-1\nx = 1\n")


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_newlines_stay_and_rows_are_right(newline: str) -> None:
    data = newline.join(["x = 1", "", "loss.backward()", ""]).encode()
    assert _source(data).text == data.decode()
    assert _first_row_and_column(data, statement=1) == (3, 1)


@pytest.mark.parametrize("data", [b"", b"\n", b"# only a comment", b"\r\n\r\n", b"\x0c\n"])
def test_nearly_nothing_is_a_program_too(data: bytes) -> None:
    assert Lowering(_source(data).tree).body == []


@pytest.mark.parametrize(
    ("data", "row", "column"),
    [
        (b"def add(a, b:\n    return a\n", 1, 8),
        (b"x = 1\ny = = 2\n", 2, 5),
        (b"if True:\nprint()\n", 2, 1),
        (b"print 'hello'\n", 1, 1),
    ],
)
def test_broken_source_says_where(data: bytes, row: int, column: int) -> None:
    text = read(data)
    assert isinstance(text, Broken)
    assert (text.row, text.column) == (row, column)
    assert text.message.startswith("This file does not parse: ")


def test_mixed_tabs_and_spaces_are_broken() -> None:
    assert isinstance(read(b"if x:\n        a = 1\n\tb = 2\n"), Broken)


@pytest.mark.parametrize("data", [b"\x00", b"x = 1\n\x00", b"\x7fELF\x00\x01", "x = 1\n".encode("utf-16")])
def test_zero_bytes_are_binary(data: bytes) -> None:
    assert _reason(data) == "it is a binary file"


@pytest.mark.parametrize(
    "data",
    [
        b"name = '\xe9'\n",  # latin-1 without saying so
        b"# coding: utf-9\nx = 1\n",  # no such encoding
        b"# coding: rot13\nk = 1\n",  # an encoding, but not one of text
    ],
)
def test_undecodable_bytes_are_unreadable(data: bytes) -> None:
    assert _reason(data).startswith("it cannot be decoded")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500 + ")" * 500,
        "x = " + "-" * 50_000 + "1",
        "".join(" " * depth + "if x:\n" for depth in range(150)) + " " * 150 + "pass\n",
        "x" + ".y" * 20_000 + "\n",
        "x = " + " + ".join(["1"] * 20_000) + "\n",
    ],
    ids=["brackets", "minus", "blocks", "attributes", "sum"],
)
def test_too_deep_nesting_is_a_value(text: str) -> None:
    assert isinstance(read(text.encode()), Unreadable | Broken | Source)


@pytest.mark.parametrize("depth", [10, 60])
def test_usual_nesting_is_read(depth: int) -> None:
    source = _source(("x = " + "(" * depth + "1" + ")" * depth + "\n").encode())
    assert len(Lowering(source.tree).body) == 1


def test_warnings_of_the_parser_are_not_shown(recwarn: pytest.WarningsRecorder) -> None:
    _source(b"x = '\\d'\ny = 1 is 1\n")
    assert [str(warning.message) for warning in recwarn] == []


def _first_row_and_column(data: bytes, statement: int = 0) -> tuple[int, int]:
    source = _source(data)
    row, column = source.lines().position(source.lines().stretch(source.tree.body[statement])[0])
    return row, column + 1


LONG_CHAINS = {
    "sum": "x = " + " + ".join(["1"] * 600) + "\n",
    "attributes": "x" + ".y" * 600 + "\n",
    "calls": "x" + ".f()" * 400 + "\n",
    "elif": "if x:\n    pass\n" + "elif y:\n    pass\n" * 400,
}


@pytest.mark.parametrize("name", LONG_CHAINS)
def test_long_chains_are_linted_or_unreadable_but_no_crash(name: str) -> None:
    """What `read` lets through, the rest must be able to walk."""
    data = f"loss.backward()\noptimizer.step()\n{LONG_CHAINS[name]}".encode()
    assert lint(data, "long.py", Settings()).crashes == ()


LOOP = """
def train(model, loader, optimizer, params):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "deep",
    ["a" + " + a" * 2500, "a" + ".add(1)" * 800, "a" + "[0]" * 2000, "- " * 1500 + "a", "a if a else " * 900 + "a"],
    ids=["sum", "calls", "entries", "signs", "choices"],
)
def test_a_deep_expression_costs_only_what_is_deep_inside_it(deep: str) -> None:
    result = lint(f"import torch\n\n\ndef deep(a):\n    return {deep}\n\n{LOOP}".encode(), "deep.py", Settings())
    assert (result.crashes, result.unreadable) == ((), None)
    assert [f.code for f in result.findings] == ["GL101"]
    assert result.findings[0].fix is not None
    assert "an expression is nested too deeply to be read to its end" in result.exhausted


def test_a_deep_expression_beside_a_finding_costs_its_fix() -> None:
    source = LOOP.replace("model(x).mean()", f"({' + '.join(['x'] * 2500)})")
    result = lint(f"import torch\n{source}".encode(), "deep.py", Settings())
    assert (result.crashes, result.unreadable) == ((), None)
    assert [(f.code, f.fix) for f in result.findings] == [("GL101", None)]
    assert "GL101 has no fix here" in result.notes[0]
