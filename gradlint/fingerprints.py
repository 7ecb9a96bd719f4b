"""Names findings so that they are known again when lines move: for SARIF, GitLab and the baseline.

A fingerprint is made from the rule, the function round the finding, the text of its first line without comment and
spaces, and which of several such findings of the file it is. Neither path nor row nor message takes part: who compares
files puts the path beside it.
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections import Counter
from typing import NamedTuple

from gradlint.model import FileResult, split_lines

#: all of a line in front of its comment; a string that goes on in the next line takes the rest
_CODE = re.compile(r"""(?:'(?:\\.?|[^'\\])*(?:'|$)|"(?:\\.?|[^"\\])*(?:"|$)|[^#'"])*""")
#: a line of a notebook that is not Python
_MAGIC = re.compile(r"^([ \t]*)[%!?][^\r\n]*", re.MULTILINE)
_SCOPE = re.compile(r"(?:async\s+def|def|class)\s+(\w+)")


class Print(NamedTuple):
    """A fingerprint, and what people may be told of it."""

    value: str
    function: str
    line: str


class _Scope(NamedTuple):
    first: int
    last: int
    name: str


def fingerprints(result: FileResult, text: str | None) -> list[Print]:
    """One for each finding, in reading order; `text` is the program that was linted, None if it is gone."""
    if not result.findings:
        return []
    lines = [] if text is None else split_lines(text)
    scopes = None if text is None else _scopes(text)
    if scopes is None and text is not None:
        scopes = _scopes(_MAGIC.sub(r"\1pass", text))
    seen: Counter[tuple[str, str, str]] = Counter()
    prints = []
    for finding in result.ordered():
        row = finding.span.start.row
        line = normalised(lines[row - 1]) if row <= len(lines) else ""
        function = _indented_name(lines, row) if scopes is None else _name(scopes, row)
        key = finding.code, function, "".join(line.split())
        described = "\0".join((*key, str(seen[key]))).encode("utf-8", "surrogatepass")
        seen[key] += 1
        prints.append(Print(hashlib.blake2b(described, digest_size=16).hexdigest(), function, line))
    return prints


def normalised(line: str) -> str:
    """A line with single spaces and without its comment, unless it is nothing else."""
    found = _CODE.match(line)
    code = "" if found is None else found.group()
    return " ".join((code if code.strip() else line).split())


def _scopes(text: str) -> list[_Scope] | None:
    """Functions and classes with their full names, outer ones first; None if Python cannot read the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pending: list[tuple[ast.AST, str]] = [(ast.parse(text), "")]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    scopes = []
    while pending:
        node, outer = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            outer = f"{outer}.{node.name}" if outer else node.name
            scopes.append(_Scope(node.lineno, node.end_lineno or node.lineno, outer))
        if not isinstance(node, ast.expr):
            pending.extend((child, outer) for child in ast.iter_child_nodes(node))
    return sorted(scopes, key=lambda scope: (scope.first, -scope.last))


def _name(scopes: list[_Scope], row: int) -> str:
    """The innermost scope's; nothing at the level of the module."""
    names = [scope.name for scope in scopes if scope.first <= row <= scope.last]
    return max(names, key=lambda name: name.count("."), default="")


def _indented_name(lines: list[str], row: int) -> str:
    """What indentation tells of the scope, for text that does not parse: half typed, or too new for this Python."""
    names: list[str] = []
    margin = None
    for line in reversed(lines[:row]):
        code = line.strip()
        if not code or code.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip())
        if margin is None or indent < margin:
            found = _SCOPE.match(code)
            names += [found.group(1)] if found else []
            margin = indent
    return ".".join(reversed(names))
