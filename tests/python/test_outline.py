"""What is seen at the top of a text without parsing it: the same that Python's own parser sees."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import gradlint
from gradlint.python.outline import Outline, import_lines, imported, modules_in, without_strings

OURS = sorted(Path(gradlint.__file__).parent.glob("python/*.py"))
TEXT = b'''\
"""Strings do not count:
def no(): ...
"""
import torch.nn as nn
from . import engine, \\
    helpers
from .losses import (
    focal as loss,  # (a comment
    dice,
)
try:
    from apex import amp
except ImportError:
    amp = None

@decorated
@twice
def train(model):
    text = "# no comment"
    return """
def inner(): ...
"""

class Net(nn.Module):
    pass
N, M = 4, 2
parser.add_argument("--n")
'''


def test_pieces_have_names_and_imports() -> None:
    outline = Outline.of(TEXT)
    assert set(outline.defined) == {b"train", b"Net"}
    assert set(outline.names) >= {b"N", b"M", b"amp", b"parser"}
    assert outline.imports == {
        b"nn": ["torch.nn"],
        b"engine": [".engine"],
        b"helpers": [".helpers"],
        b"loss": [".losses.focal"],
        b"dice": [".losses.dice"],
        b"amp": ["apex.amp"],
    }


def test_a_decorated_function_is_one_piece() -> None:
    outline = Outline.of(TEXT)
    (number,) = outline.defined[b"train"]
    tree = ast.parse(outline.without(frozenset({number}), TEXT))
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    assert len(function.decorator_list) == 2
    assert function.lineno == next(x.lineno for x in ast.parse(TEXT).body if isinstance(x, ast.FunctionDef))


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_it_sees_what_the_parser_sees(path: Path) -> None:
    source = path.read_bytes()
    outline, tree = Outline.of(source), ast.parse(source)
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    assert set(outline.defined) == {x.name.encode() for x in tree.body if isinstance(x, kinds)}
    for part in (0, 1):
        kept = frozenset(range(part, len(outline.pieces), 2))
        alone = ast.parse(outline.without(kept, source))
        whole = {ast.dump(x, include_attributes=True) for x in tree.body}
        assert {ast.dump(x, include_attributes=True) for x in alone.body} <= whole


def test_a_long_line_of_blanks_takes_no_time() -> None:
    assert not Outline.of(b"x = (\n" + b" " * 100_000 + b"\n)\nif y:\n" + b" " * 100_000 + b"z\n").defined


@pytest.mark.parametrize(
    ("line", "modules"),
    [
        (b"from . import engine", [".", ".engine"]),
        (b"from .x.y import (", [".x.y"]),
        (b"from pkg import part, Class", ["pkg", "pkg.part"]),
        (b"from m import *", ["m"]),
        (b"import a.b, c as d", ["a.b", "c"]),
    ],
)
def test_modules_of_a_line(line: bytes, modules: list[str]) -> None:
    assert list(import_lines(b"x = 1\n    " + line + b"\n")) == [line]
    assert list(modules_in(line)) == modules


def test_what_only_looks_like_an_import_is_none() -> None:
    assert not list(imported(b"raise Error from error\nyield from names\n"))


@pytest.mark.parametrize(
    ("source", "left"),
    [
        (b"x = 'a' + rb\"b\"  # c\r\ny\n", b"x = + y"),
        (b"buf# 'not a string\nz", b"buf z"),
        (b"f('it\\'s', '''a\n\"\"\" # b''', z)", b"f( , , z)"),
        (b'a = """never ended\nb = 1', b"a ="),
        (b"a = 'never ended\nb = 1", b"a = 'never ended b = 1"),
    ],
)
def test_strings_and_comments_become_blanks(source: bytes, left: bytes) -> None:
    code = without_strings(source)
    assert code.split() == left.split()
    assert list(map(len, code.splitlines(keepends=True))) == list(map(len, source.splitlines(keepends=True)))
