"""Grammar that is newer than the Python that runs: what only libcst understands is blanked, place for place.

Type parameters, `type` statements, the star of `except*`, strings with braces that this Python cannot read, and
`except A, B` without brackets: none of it has anything to do with gradients. The text keeps its rows and columns, so
that whatever is found in the rest stands where it stood. Blanked strings are not looked into.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from gradlint.python.anchor import has_deep_pattern
from gradlint.python.source import Lines

_ROW = re.compile(r"[^\r\n]*")


def masked(text: str) -> str | None:
    """The text as far as this Python may know it; None if libcst does not understand it either."""
    if has_deep_pattern(text):
        return None
    try:
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        places = wrapper.resolve(PositionProvider)
    except Exception:  # it has many ways to refuse a text
        return None
    lines = Lines(text)

    def stretch(first: cst.CSTNode, last: cst.CSTNode) -> tuple[int, int]:
        start, end = _range(places[first]).start, _range(places[last]).end
        return lines.start(start.line) + start.column, lines.start(end.line) + end.column

    pieces = sorted({(*stretch(first, last), head) for first, last, head in _unknown(wrapper.module)}, reverse=True)
    for start, end, head in pieces:
        if end <= start:
            continue
        text = text[:start] + _blank(text[start:end], head) + text[end:]
    return text


def _range(found: Any) -> CodeRange:
    assert isinstance(found, CodeRange)
    return found


def _unknown(module: cst.Module) -> Iterator[tuple[cst.CSTNode, cst.CSTNode, str]]:
    """(first node, last node, what takes their place) of all that some Python does not know."""
    pending: list[cst.CSTNode] = [module]
    while pending:
        node = pending.pop()
        inner: list[cst.CSTNode] = list(node.children)
        match node:
            case cst.FunctionDef() | cst.ClassDef() if node.type_parameters is not None:
                yield node.type_parameters, node.type_parameters, ""
                inner = [x for x in inner if x is not node.type_parameters]
            case cst.TypeAlias():
                yield node, node, "pass"
                inner = []
            case cst.ExceptStarHandler():
                yield node.whitespace_after_except, node.whitespace_after_star, ""
            case cst.ExceptHandler() if isinstance(node.type, cst.Tuple) and not node.type.lpar:
                yield node.type.elements[0].comma, node.type, ""  # type: ignore[misc]  # two elements have a comma
            case _ if _is_odd_string(node, module):
                yield node, node, "''"
                inner = []
            case _:
                pass
        pending.extend(inner)


def _is_odd_string(node: cst.CSTNode, module: cst.Module) -> bool:
    """A string with expressions in it that this Python refuses."""
    if type(node).__name__ not in ("FormattedString", "TemplatedString"):
        return False
    try:
        ast.parse(module.code_for_node(node), mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return True
    return False


def _blank(text: str, head: str) -> str:
    """Spaces in the place of a text; rows that end inside of it go on behind a backslash."""
    rows = list(_ROW.finditer(text))
    plain = [row for row in rows if row.end() > row.start() or row.start() == len(text)]
    last = max((row.end() for row in plain), default=0)
    out = list(text)
    for row in rows:
        for at in range(row.start(), row.end()):
            out[at] = " "
        if row.end() < last and row.end() > row.start():
            out[row.end() - 1] = "\\"
    out[: len(head)] = head
    return "".join(out)
