"""The same program as other people would write it down: what changes no meaning, mostly."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

COMMENTS = (
    "# gradlint: ignore", "# gradlint: ignore[GL4]", "# gradlint: ignore[GL101, nosuch", "# gradlint: ignore[]",
    "# noqa", "# noqa: GL101", "# type: ignore", "# gradlint: disable-file", "# fmt: off",
    "# -*- coding: latin-1 -*-", "#\x0c", "#\u202e", "# gradlint: ignore-file", "# gradlint: ignore-file[GL1]", "#!",
    "# größer \U0001f525", "#: the scaler", "# %%", "# optimizer.zero_grad()", "# region",
)  # fmt: skip
#: in front of a file
_HEADS = (
    "\ufeff", "# -*- coding: latin-1 -*-\n", "\x0c", "\n\n", '"""Doc."""\n', "\\\n", "#!/usr/bin/env python\n# why\n",
    '"""Doc,\n\n    on several rows.\n"""\nfrom __future__ import annotations\n', "from __future__ import annotations;",
    "import os, sys; import torch\n", "if True:\n    import torch\nelse:\n    torch = None\n", "x = 1;",
    "try:\n    import torch.optim as optim\nexcept ImportError:\n    optim = None\n", "# why\n\n# as well\n\n",
)  # fmt: skip
#: where one more space or line may stand, in brackets
_GAPS = (" \\\n ", "\n  ", "  ", "\n# why\n", "\t", "\n\n\n", "  # why\n        ", " \\\n\\\n")
_SIMPLE = re.compile(
    r"^( *)(?!(?:if|for|while|with|try|else|elif|except|finally|def|class|async|match|case|@|#)\b)\S.*$"
)


def restyled(text: str, rng: random.Random) -> str:
    """The same text with one change of that kind."""
    lines = text.split("\n")
    return rng.choice(_STYLES)(lines, rng.randrange(len(lines)), rng)


def _comment_behind(lines: list[str], at: int, rng: random.Random) -> str:
    lines[at] += "  " + rng.choice(COMMENTS)
    return "\n".join(lines)


def _comments_behind(lines: list[str], at: int, rng: random.Random) -> str:
    return "\n".join(line + "  # why" if line.strip() else line for line in lines)


def _comment_above(lines: list[str], at: int, rng: random.Random) -> str:
    """Mostly as far in as the row below it, but people do otherwise."""
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    lines.insert(at, rng.choice((indent, indent, indent, "", indent + "    ", indent[4:])) + rng.choice(COMMENTS))
    return "\n".join(lines)


def _rows(lines: list[str], at: int, rng: random.Random) -> str:
    return rng.choice(("\r\n", "\r", "\n\n", "\n\x0c", "\n \t\n", "\r\n\r\n")).join(lines)


def _one_row(lines: list[str], at: int, rng: random.Random) -> str:
    """One that ends otherwise than the others."""
    lines[at] += rng.choice(("\r", "\x0c", "  ", "\t", ";"))
    return "\n".join(lines)


def _indents(lines: list[str], at: int, rng: random.Random) -> str:
    return "\n".join(lines).replace("    ", rng.choice(("\t", "  ", " ", "        ", "   ")))


def _one_indent(lines: list[str], at: int, rng: random.Random) -> str:
    """Of one block, otherwise than the others."""
    width = len(lines[at]) - len(lines[at].lstrip())
    end = at
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) >= width):
        lines[end] = lines[end][:width].replace("    ", "\t") + lines[end][width:] if end > at else lines[end]
        end += 1
    return "\n".join(lines)


def _head(lines: list[str], at: int, rng: random.Random) -> str:
    return rng.choice(_HEADS) + "\n".join(lines)


def _tail(lines: list[str], at: int, rng: random.Random) -> str:
    return "\n".join(lines).rstrip("\n") + rng.choice(
        ("", "", "  # why", "\n\n\n", "\n    ", "\n    # why", "\\\n", "\x1a")
    )


def _gaps(lines: list[str], at: int, rng: random.Random) -> str:
    lines[at] = re.sub(r"(?<=[(,=\[]) ?", rng.choice(_GAPS), lines[at], count=rng.choice((1, 2, 9)))
    return "\n".join(lines)


def _behind_colon(lines: list[str], at: int, rng: random.Random) -> str:
    ends = (" pass;", " \\\n ", "  # why", " ...\n", " return\n")
    lines[at] = re.sub(r"(?<=:) *$", rng.choice(ends), lines[at])
    return "\n".join(lines)


def _on_one_row(lines: list[str], at: int, rng: random.Random) -> str:
    """`if full: step(); zero()`: simple statements go behind the colon, or behind one another."""
    made: list[str] = []
    while lines:
        row, inside = lines.pop(0), 0
        while inside < len(lines) and _width(lines[inside]) > _width(row):
            inside += 1
        block = lines[:inside]
        if row.endswith(":") and block and all(map(_SIMPLE.match, block)) and len({*map(_width, block)}) == 1:
            if rng.random() < 0.6:
                row += " " + "; ".join(line.strip() for line in block)
                del lines[:inside]
        elif made and _SIMPLE.match(made[-1]) and _SIMPLE.match(row) and _width(made[-1]) == _width(row):
            if rng.random() < 0.4:
                row = f"{made.pop()}; {row.strip()}"
        made.append(row)
    return "\n".join(made)


def _width(line: str) -> int:
    return len(line) - len(line.lstrip())


def _parentheses(lines: list[str], at: int, rng: random.Random) -> str:
    """Round what stands on the right, or what a `with` or an `if` holds; over several rows perhaps."""
    inside = rng.choice(("({})", "(\n    {}\n)", "(({}))", "(  # why\n{})", "( {},)[0]"))
    lines[at] = re.sub(r"(= |return |\bif )(.*?)(?=:?$)", lambda x: x[1] + inside.format(x[2]), lines[at], count=1)
    return "\n".join(lines)


def _wide(lines: list[str], at: int, rng: random.Random) -> str:
    """Characters that take more than one byte, or one unit of what editors count, in front of the code."""
    width = len(lines[at]) - len(lines[at].lstrip())
    first = rng.choice(('"é"; ', '"\U0001f525"; ', "é = 1; ", '"\t"; ', '"e\u0301"; ', '"""\n"""; '))
    lines[at] = lines[at][:width] + first + lines[at][width:]
    return "\n".join(lines)


def _other_letters(lines: list[str], at: int, rng: random.Random) -> str:
    """A name as Python would read it, too: it takes compatible letters for the same ones."""
    text = "\n".join(lines)
    names = re.findall(r"[A-Za-z]\w{3,}", text)
    if not names:
        return text
    name = rng.choice(names)
    wide = "".join(chr(ord(c) + 0xFEE0) if c.isascii() and c.isalpha() else c for c in name)
    other = rng.choice((wide, name[:-1] + "é", "größe", "损失", "ﬁ" + name, "\u2113", "_" + name, "__" + name))
    return re.sub(rf"\b{name}\b", other, text, count=rng.choice((0, 0, 1, 2)))


def _far_in(lines: list[str], at: int, rng: random.Random) -> str:
    """All of it in blocks, as deep as people and machines go."""
    kinds = ("if True:", "with torch.no_grad():", "class A:", "def f(self):", "for x in y:", "try:", "while True:")
    depth = rng.choice((1, 2, 3, 12, 18, 40))
    heads = rng.choices(kinds, k=depth) if depth < 4 else [rng.choice(("if x:", "for x in x:", "with x:"))] * depth
    made = [f"{'    ' * n}{head}" for n, head in enumerate(heads)]
    made += ["    " * depth + line if line.strip() else line for line in lines]
    made += [f"{'    ' * n}finally:\n{'    ' * n}    pass" for n in reversed(range(depth)) if heads[n] == "try:"]
    return "\n".join(made)


def _long_row(lines: list[str], at: int, rng: random.Random) -> str:
    """What a generator writes."""
    size = rng.choice((300, 3_000))
    lines.insert(at, rng.choice(("x = ({})", "x = [{}]", "x = {{{}}}", "x = f({})")).format("1, " * size))
    return "\n".join(lines)


_STYLES: tuple[Callable[[list[str], int, random.Random], str], ...] = (
    _comment_behind, _comment_above, _rows, _indents, _head, _gaps, _behind_colon, _comments_behind, _one_row,
    _one_indent, _tail, _on_one_row, _on_one_row, _parentheses, _wide, _other_letters, _far_in, _long_row,
)  # fmt: skip
