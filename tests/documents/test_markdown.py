"""Fenced blocks of Markdown: each a program of its own, in rows of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradlint.config import Settings
from gradlint.documents import fix, lint
from gradlint.documents.markdown import blocks
from tests.documents.notebooks import CLIP_LATE, CLIP_RIGHT

NAME = "README.md"
DEFAULT = Settings()


def page(code: str, fence: str = "```", info: str = "python", indent: str = "") -> str:
    inside = "".join(f"{indent}{line}\n" if line else "\n" for line in code.split("\n"))
    return f"# Clip\n\nSome *text*.\n\n{indent}{fence}{info}\n{inside}{indent}{fence}\n\nMore text.\n"


def found(text: str) -> list[tuple[str, int, int]]:
    return [(f.code, f.span.start.row, f.span.start.column) for f in lint(text.encode(), NAME, DEFAULT).findings]


@pytest.mark.parametrize("fence", ["```", "````", "~~~"])
@pytest.mark.parametrize(
    "info", ["python", "py", " python3", "{.python .input}", "{python}", 'Python title="x"', "{code-block} python"]
)
def test_blocks_of_python_are_linted(fence: str, info: str) -> None:
    assert found(page(CLIP_LATE, fence, info)) == [("GL101", 11, 5)]


@pytest.mark.parametrize("info", ["", "text", "pycon", "bash", "python-repl", "diff"])
def test_other_blocks_are_not(info: str) -> None:
    assert found(page(CLIP_LATE, info=info)) == []


@pytest.mark.parametrize("indent", ["   ", "\t", "      "])
def test_blocks_in_lists_are_told_where_they_stand(indent: str) -> None:
    assert found(page(CLIP_LATE, indent=indent)) == [("GL101", 11, 5 + len(indent))]


def test_excerpts_that_do_not_parse_are_silent() -> None:
    assert found(page(CLIP_LATE + "\n    ...more code here...")) == []
    assert found(page(">>> loss.backward()")) == []


def test_each_block_is_a_program_of_its_own() -> None:
    """A page shows the wrong way and the right way, and pieces of one loop after the other."""
    right = page("optimizer.step()") + page("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)")
    assert found(right) == []


def test_an_open_fence_is_no_block() -> None:
    assert list(blocks("```python\nx = 1\n")) == []


def test_a_fence_ends_with_one_as_long() -> None:
    inner = "````python\ns = '''\n```\n'''\n````\n"
    assert [block.text for block in blocks(inner)] == ["s = '''\n```\n'''\n"]


@pytest.mark.parametrize("indent", ["", "   "])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_fixes_stay_inside_their_block(indent: str, newline: str) -> None:
    before = (page(CLIP_LATE, indent=indent) + page("x = 1")).replace("\n", newline)
    after = (page(CLIP_RIGHT, indent=indent) + page("x = 1")).replace("\n", newline)
    fixed = fix(before.encode(), NAME, DEFAULT, unsafe=False)
    assert fixed.source.decode() == after
    assert fixed.result.findings == ()


def test_byte_order_marks_stay_and_binaries_are_told() -> None:
    marked = b"\xef\xbb\xbf" + page(CLIP_LATE).encode()
    assert fix(marked, NAME, DEFAULT, unsafe=False).source == b"\xef\xbb\xbf" + page(CLIP_RIGHT).encode()
    assert lint(b"a\0b", NAME, DEFAULT).unreadable is not None
    assert lint(b"\xff\xfe", NAME, DEFAULT).unreadable is not None


def test_a_heading_is_no_coding_line() -> None:
    assert found("# Decoding: how it works\n" + page(CLIP_LATE)) == [("GL101", 12, 5)]


@pytest.mark.parametrize(
    ("arguments", "config", "seen"),
    [
        ([], "", False),
        (["--include-markdown"], "", True),
        ([], "include-markdown = true\n", True),
        (["--no-include-markdown"], "include-markdown = true\n", False),
    ],
)
def test_folders_are_searched_for_markdown_only_if_asked(
    tmp_path: Path, arguments: list[str], config: str, seen: bool
) -> None:
    from click.testing import CliRunner

    from gradlint.cli.check import check

    (tmp_path / "gradlint.toml").write_text(config)
    (tmp_path / "page.md").write_text(page(CLIP_LATE))
    ran = CliRunner().invoke(check, [str(tmp_path), "--no-cache", *arguments], standalone_mode=False)
    assert ("GL101" in ran.output) is seen
    named = CliRunner().invoke(check, [str(tmp_path / "page.md"), "--no-cache", *arguments], standalone_mode=False)
    assert "GL101" in named.output  # a file that is named is always checked


def test_the_grammar_of_a_newer_python_is_no_excerpt() -> None:
    assert found(page("type Row[T] = dict[str, T]\n" + CLIP_LATE)) == [("GL101", 12, 5)]
