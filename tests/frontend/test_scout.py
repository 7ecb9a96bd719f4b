"""What the scout leaves of a large file, and that its lines stay where they are."""

from __future__ import annotations

import ast

import pytest

from gradlint.config import Settings
from gradlint.engine import fix, lint
from gradlint.frontend import scout

HELPER = "def helper_{n}(a):\n    total = a + {n}\n    return total\n\n\n"
PADDING = "".join(HELPER.format(n=n) for n in range(250))
LOSS = '''class Loss:
    """What it is for."""

    @staticmethod
    def forward(x, y):
        return -(torch.log(torch.softmax(x, dim=-1)) * y).sum()


'''
SOURCE = f"import torch\n\n\n{PADDING}{LOSS}{PADDING}"


def _unread(source: str) -> list[str]:
    tree = ast.parse(source)
    unread = scout.unread(tree, source)
    return [d.name for d in scout._definitions(tree.body) if id(d) in unread]


def test_small_files_are_left_whole() -> None:
    assert _unread("def helper(a):\n    return a\n") == []


def test_functions_without_anything_of_interest_are_unread() -> None:
    unread = _unread(SOURCE)
    assert len(unread) == 500
    assert "forward" not in unread


def test_what_a_function_of_interest_calls_is_kept() -> None:
    source = SOURCE.replace("torch.softmax(x, dim=-1)", "helper_7(torch.softmax(x, dim=-1))")
    assert "helper_7" not in _unread(source)
    assert "helper_8" in _unread(source)


def test_every_line_that_is_left_keeps_its_number() -> None:
    tree = ast.parse(SOURCE)
    unread = scout.unread(tree, SOURCE)
    for spoken_of in (None, {SOURCE[: SOURCE.index("torch.log")].count("\n") + 1}):
        short = scout.abridged(tree, SOURCE, unread, spoken_of)
        ast.parse(short)
        old, new = SOURCE.splitlines(), short.splitlines()
        assert len(old) == len(new)
        assert {line.strip() for line, before in zip(new, old, strict=True) if line != before} == {"", "pass"}
        assert LOSS in short


def test_a_class_that_nobody_spoke_of_is_blanked_whole() -> None:
    source = f"{SOURCE}class Other:\n    size = 3\n\n    @property\n    def area(self):\n        return self.size\n"
    tree = ast.parse(source)
    unread = scout.unread(tree, source)
    line = source[: source.index("torch.log")].count("\n") + 1
    short = scout.abridged(tree, source, unread, {line})
    ast.parse(short)
    assert "area" not in short
    assert "size = 3" in scout.abridged(tree, source, unread)


def test_findings_and_edits_of_a_large_file_hold_for_the_whole_of_it() -> None:
    small = lint(f"import torch\n\n\n{LOSS}".encode(), "small.py", Settings())
    large = lint(SOURCE.encode(), "large.py", Settings())
    assert [(f.code, f.message) for f in large.findings] == [(f.code, f.message) for f in small.findings]
    assert large.findings
    row = large.findings[0].span.start.row
    assert "torch.log(" in SOURCE.splitlines()[row - 1]
    fixed = fix(SOURCE.encode(), "large.py", Settings(), unsafe=False).source.decode()
    assert fixed == SOURCE.replace("torch.log(torch.softmax(x, dim=-1))", "torch.log_softmax(x, dim=-1)")


@pytest.mark.slow
@pytest.mark.parametrize(
    "newlines",
    [("\n", "\r\n"), ("\n", "\r"), ("return total\n", "return total\r"), ("    ", "\t"), ('for."""', 'f\x85r."""')],
    ids=["windows", "old mac", "mixed", "tabs", "unicode"],
)
def test_all_kinds_of_lines_keep_their_numbers(newlines: tuple[str, str]) -> None:
    source = SOURCE.replace(*newlines)
    result = lint(source.encode(), "large.py", Settings())
    assert result.crashes == ()
    assert [f.code for f in result.findings] == ["GL605"]
    fixed = fix(source.encode(), "large.py", Settings(), unsafe=False).source.decode()
    assert fixed in (source, source.replace("torch.log(torch.softmax(x, dim=-1))", "torch.log_softmax(x, dim=-1)"))


def test_a_function_called_forward_has_no_class() -> None:
    """It was looked for by an empty name, and found everywhere, for ever."""
    filler = "".join(f"def helper_{n}(x):\n    return [x for x in range({n})]\n\n\n" for n in range(150))
    loop = "    for x in loader:\n        model(x).mean().backward()\n        optimizer.step()\n"
    source = f"def forward(x):\n    return x / 2\n\n\n{filler}def train(model, loader, optimizer):\n{loop}"
    assert [f.code for f in lint(source.encode(), "large.py", Settings()).findings] == ["GL401"]
