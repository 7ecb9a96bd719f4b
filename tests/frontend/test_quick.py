"""The scout's lowering and libcst's agree on every program we have, and on the odd corners of the grammar."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import libcst
import pytest

from gradlint.frontend import syntax as s
from gradlint.frontend.lower import Lowering
from gradlint.frontend.quick import QuickLowering
from tests.sampling import spread

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*ROOT.glob("fixtures/*/*.py"), *ROOT.glob("tests/loops/*.py"), *ROOT.glob("gradlint/**/*.py")])

CORNERS = {
    "strings": "x = 'a' \"b\" + r'\\d' + b'c' + f'{y!r:>{w}}' 'tail'\n",
    "numbers": "x = 1_000 + 0x1f + 1e-3 + 2j + 0o17\n",
    "slices": "x[1:2, ::3, ...] = y[a:b][c][...]\n",
    "stars": "f(*a, *b, k=1, **c, **d)\nx = [*a, *b]\ny = {**a, 'k': 1}\na, *b = c\n",
    "chained": "a = b = c < d <= e != f\n",
    "booleans": "x = a and (b and c) or not d and e or (f or g)\n",
    "lambdas": "f = lambda a, *b, c=1, **d: (yield a)\n",
    "comprehensions": "x = {k: v for k, v in p for q in v if q if k}\ny = (a for b in c)\nz = {a for a in b}\n",
    "walrus": "if (n := f()) > 1: pass\n",
    "defaults": "def f(a, /, b=1, *, c, d=2, **e): return\ndef g(*args, k): yield from x\n",
    "decorated": "@a.b(c)\nclass A(B, metaclass=C):\n    @property\n    def x(self): ...\n",
    "imports": "import a.b.c\nimport a.b as d\nfrom . import e\nfrom ..f import g as h\nfrom i.j import *\n",
    "flow": "for a in b:\n    continue\nelse:\n    raise\nwhile c: break\nelse: del x, y\n",
    "try": "try:\n    a\nexcept (B, C) as d:\n    e\nelse:\n    f\nfinally:\n    g\n",
    "match": "match a:\n    case 1: b()\n    case _: c()\n",
    "patterns": "match a, b:\n    case 'x', [*y]: c()\n    case {'k': v} | A(b='c'): d()\n    case ( _ ): e()\n",
    "bytes": "x = f(rb'a' rb'b' b'c')\nb'd' b'e'\n'f' 'g'\n'h' f'{i}'\nb'j'\n",
    "async": "async def f():\n    async with a as b, c: await d\n    async for e in g: pass\n",
    "scopes": "def f():\n    global a, b\n    def g():\n        nonlocal_ = 1\n",
    "one-liners": "if a: b(); c = 1\nclass D: x = 1; y: int = 2; z: str\n",
    "assert": "assert f(x), 'message'\n",
}


def _lines(body: list[s.Stmt], depth: int = 0) -> Iterator[str]:
    for stmt in body:
        extra = stmt.name if isinstance(stmt, s.Def | s.Class) else ""
        if isinstance(stmt, s.Def):
            extra += str([(p.name, s.render(p.default), s.render(p.annotation), p.star) for p in stmt.params])
            extra += str(stmt.generator)
        if isinstance(stmt, s.Import):
            extra = f"{stmt.bindings}{stmt.star_from}"
        if isinstance(stmt, s.Jump | s.Scope):
            extra = stmt.kind if isinstance(stmt, s.Jump) else str(stmt.names)
        shown = " | ".join(_shape(e) for e in s.expressions(stmt))
        yield f"{' ' * depth}{type(stmt).__name__} {shown} {extra}"
        for number, block in enumerate(s.blocks(stmt)):
            yield f"{' ' * depth}block {number}"
            yield from _lines(block, depth + 1)


def _shape(expr: s.Expr) -> str:
    """Text and kinds: two trees of one text may still differ."""
    return s.render(expr) + " " + " ".join(type(p).__name__ for p in s.walk_expr(expr))


def _both(text: str) -> tuple[list[str], list[str]]:
    quick = QuickLowering(ast.parse(text)).body
    slow = Lowering(libcst.parse_module(text)).body
    return list(_lines(quick)), list(_lines(slow))


@pytest.mark.parametrize("name", CORNERS)
def test_corners_agree(name: str) -> None:
    quick, slow = _both(CORNERS[name])
    assert quick == slow
    assert quick


@pytest.mark.parametrize("path", spread(FILES, 50, 250), ids=lambda p: str(p.relative_to(ROOT)))
def test_files_agree(path: Path) -> None:
    quick, slow = _both(path.read_text(encoding="utf-8"))
    assert quick == slow
