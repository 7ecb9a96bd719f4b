"""Every node of Python's tree has its libcst node, at the same place and with the same code; texts are cut whole."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import libcst as cst
import pytest

from gradlint.config import Settings
from gradlint.engine import lint
from gradlint.python.anchor import Anchors
from gradlint.python.lower import Lowering
from gradlint.python.source import Source
from gradlint.repair.document import Document
from tests.sampling import spread

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*ROOT.glob("fixtures/*/*.py"), *ROOT.glob("tests/loops/*.py"), *ROOT.glob("gradlint/**/*.py")])

CORNERS = {
    "strings": "x = 'a' \"b\" + r'\\d' + b'c' + f'{y!r:>{w}}' 'tail'\n",
    "numbers": "x = 1_000 + 0x1f + 1e-3 + 2j + 0o17 + -3\n",
    "slices": "x[1:2, ::3, ...] = y[a:b][c][...]\nz[a, b] = z[(c, d)]\n",
    "stars": "f(*a, *b, k=1, **c, **d)\nx = [*a, *b]\ny = {**a, 'k': 1}\na, *b = c\n",
    "chained": "a = b = c < d <= e != f\n",
    "booleans": "x = a and (b and c) or not d and e or (f or g)\ny = ((a)) and ((b) or c)\n",
    "lambdas": "f = lambda a, *b, c=1, **d: (yield a)\n",
    "comprehensions": "x = {k: v for k, v in p for q in v if q if k}\ny = (a for b in c)\nz = {a for a in b}\n",
    "a generator alone": "f(x for x in y)\ng( # why\n  (a, b) for a, b in c)\nh((x for x in y), 1)\n",
    "tuples": "x = (1, 2)\ny = ( # why\n    (a, b), (c))\nz = 1, (2, 3)\nfor a, (b, c) in d: pass\ne = ((), (1,)), 2\n",
    "walrus": "if (n := f()) > 1: pass\n",
    "defaults": "def f(a, /, b=1, *, c, d=2, **e): return\ndef g(*args, k): yield from x\n",
    "decorated": "# above\n@a.b(c)\n# between\n@d\nclass A(B, metaclass=C):\n    @property\n    def x(self): ...\n",
    "imports": "import a.b.c\nimport a.b as d\nfrom . import e\nfrom ..f import g as h\nfrom i.j import *\n",
    "flow": "for a in b:\n    continue\nelse:\n    raise\nwhile c: break\nelse: del x, y\n",
    "try": "try:\n    a\nexcept (B, C) as d:\n    e\nelse:\n    f\nfinally:\n    g\n",
    "match": "match a:\n    case 1: b()\n    case _: c()\n",
    "patterns": "match a, b:\n    case 'x', [*y]: c()\n    case {'k': v} | A(b='c'): d()\n    case ( _ ): e()\n",
    "patterns in brackets": "match a:\n    case (f, g): h()\n    case (1 | 2): i()\n",
    "async": "async def f():\n    async with a as b, c: await d\n    async for e in g: pass\n",
    "scopes": "def f():\n    global a, b\n    def g():\n        nonlocal_ = 1\n",
    "one-liners": "if a: b(); c = 1\nclass D: x = 1; y: int = 2; z: str\n",
    "several on a line": "a; b = (c, d); del e\nf(); g()",
    "assert": "assert f(x), 'message'\n",
    "no newline at the end": "x = (1)\ny = f(a,\n      b)",
    "carriage returns": "if a:\r\n\tb\r\nelse:\r\n\tc\r\n",
    "old carriage returns": "if a:\r\tb\relse:\r\tc\r",
    "other letters": "größe = 'é😀'; f(größe)\nx = f'{größe} é😀 {f(größe)}'\n",
    "strings in strings": "x = f'{a} {a.b(a)} {a[\"k\"]!r:>{a}}' f\"{f(x=a, y={1: a}) if a else b}\"\n",
    "comments between": "# first\n\nx = 1  # behind\n# above y\n\n# near\ny = 2\ndef f():\n  a\n  # in f\n\n# below\n",
    "half indented comments": "if a:\n    b\n    # in\n\n  # half\n# out\nc\n  # odd\nd\n",
    "two indents": "if a:\n  b\n\ndef f():\n    c\n    if d:\n            e\n",
    "elif": "if a:\n    b\nelif c:\n    d\n    # in the elif\nelse:\n    e\n    # in the else\nf\n",
    "form feeds": "a = 1\n\x0c\ndef f():\n    b\n",
    "backslashes": "x = 1 + \\\n    f(2)\nassert x, \\\n    y\n",
}  # fmt: skip


def _anchors(text: str) -> tuple[Anchors, Lowering]:
    source = Source.of(text)
    return Anchors(source.text, source.tree, source.lines()), Lowering(source.tree)


def _dump(code: str) -> str:
    return ast.dump(ast.parse(f"(\n{code}\n)"))


def _compare(text: str) -> None:
    anchors, lowering = _anchors(text)
    frame = cst.Module([], default_indent=anchors.layout.indent, default_newline=anchors.layout.newline)
    for origin in lowering.origins:
        node = anchors.node(origin)
        assert node is not None, ast.dump(origin)
        place = anchors.place(node)
        assert place is not None
        assert anchors.span(origin) == place
        if isinstance(origin, ast.expr) and not isinstance(origin, ast.Starred | ast.JoinedStr):
            assert _dump(frame.code_for_node(node)) == ast.dump(ast.parse(ast.unparse(origin))), ast.dump(origin)
        if isinstance(origin, ast.stmt):
            assert text[slice(*place)].split() == (ast.get_source_segment(text, origin) or "").rstrip(";").split()


def _is_whole(text: str) -> None:
    anchors, _ = _anchors(text)
    cut = [chunk.text for chunk in anchors.chunks]
    assert anchors.header + "".join(cut) + anchors.footer == text
    document = Document(anchors)
    for item in document.root.items:
        item.touch()  # each is written anew
    assert document.text() == text


@pytest.mark.parametrize("name", CORNERS)
def test_corners(name: str) -> None:
    _compare(CORNERS[name])
    _is_whole(CORNERS[name])


@pytest.mark.parametrize("path", spread(FILES, 5, 30), ids=lambda p: str(p.relative_to(ROOT)))
def test_files(path: Path) -> None:
    text = path.read_bytes().decode()
    _compare(text)
    _is_whole(text)


@pytest.mark.parametrize("text", ["", "\n", "# nothing", "\r\n\r\n", "\x0c\n"])
def test_a_text_without_statements(text: str) -> None:
    anchors, _ = _anchors(text)
    assert (anchors.chunks, anchors.header, anchors.footer) == ([], text, "")


def test_only_what_is_asked_for_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    parse = cst.parse_module

    def noted(text: str, *more: Any) -> cst.Module:
        read.append(text)
        return parse(text, *more)

    monkeypatch.setattr(cst, "parse_module", noted)
    anchors, lowering = _anchors("import a\n\n\ndef f():\n    b()\n\n\ndef g():\n    c()\n")
    call = next(x for x in lowering.origins if isinstance(x, ast.Call) and ast.unparse(x) == "c()")
    anchors.node(call)
    (only,) = read
    assert "c()" in only
    assert "b()" not in only


REFUSED = {
    "tabs behind spaces": "def f():\n  if x:\n \t  {}\n",
    "spaces instead of a tab": "def f():\n\tif x:\n        \t{}\n",
    "a lone backslash": "def f():\n    a\n    \\\n    {}\n",
    "a form feed": "def f():\n    x = 1\n\x0c    {}\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_libcst_refuses_or_changes_has_no_node_but_its_place(name: str) -> None:
    text = REFUSED[name].format("g(1)")
    anchors, lowering = _anchors(text)
    call = next(x for x in lowering.origins if isinstance(x, ast.Call))
    assert anchors.node(call) is None
    assert text[slice(*anchors.span(call))] == "g(1)"


@pytest.mark.parametrize("name", REFUSED)
def test_its_findings_are_told_without_a_fix(name: str) -> None:
    loop = "optimizer.zero_grad(); loss.backward(); optimizer.step(); torch.nn.utils.clip_grad_norm_(p, 1.0)"
    text = "import torch\n" + REFUSED[name].format(loop)
    result = lint(text.encode(), "train.py", Settings())
    assert result.crashes == ()
    (found,) = result.findings
    assert (found.code, found.fix) == ("GL101", None)
    line = text.split("\n")[found.span.start.row - 1]
    assert line[found.span.start.column - 1 :].startswith("torch.nn.utils.clip_grad_norm_(")
    assert "no fix here" in result.notes[0]
