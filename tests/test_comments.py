"""Suppression comments: what they silence, and what is said about useless ones."""

from __future__ import annotations

import pytest

from gradlint.comments import apply
from gradlint.model import Finding, Position, Severity, Span
from gradlint.registry import default_codes
from gradlint.repair.edits import applied

ENABLED = default_codes()


def _finding(row: int, code: str = "GL101", *, end_row: int | None = None, end_column: int = 9) -> Finding:
    span = Span(Position(row, 1), Position(end_row or row, end_column))
    return Finding(code, "clip-after-step", Severity.ERROR, "message", span)


def _apply(text: str, *findings: Finding, enabled: frozenset[str] = ENABLED) -> tuple[list[str], int]:
    kept, silenced = apply(text, findings, enabled)
    return [f"{finding.code}:{finding.span.start.row}" for finding in kept], silenced


@pytest.mark.parametrize(
    "comment",
    [
        "# gradlint: ignore",
        "# gradlint: ignore[GL101]",
        "# gradlint: ignore[ GL101 ]",
        "# gradlint:ignore[GL1]",
        "# gradlint: ignore[GL]",
        "# gradlint: ignore[clip-after-step]",
        "# gradlint: ignore[gl101] because the norm is only logged",
        "# noqa",
        "#noqa",
        "# NOQA: GL101",
        "# noqa: E501, GL101",
        "# noqa:GL101 E501",
        "# noqa: GL1",
        "# type: ignore # gradlint: ignore[GL101]",
        "# gradlint: ignore-file",
        "# gradlint: ignore-file[clip-after-step]",
        # as people write it who come from elsewhere
        "# gradlint: ignore GL101",
        "# gradlint: ignore GL101 because the norm is only logged",
        "# gradlint: ignore: GL101",
        "# gradlint: ignore=gl101",
        "# gradlint: ignore (GL101)",
        "# gradlint: ignore[GL101",
        "# gradlint: ignore clip-after-step",
        "# gradlint: ignore because the norm is only logged",
        "# gradlint: disable=GL101",
        "# gradlint: disable",
        "# gradlint: skip-file",
        "# gradlint: file-ignore[GL101]",
    ],
)
def test_silenced(comment: str) -> None:
    assert _apply(f"clip()  {comment}\n", _finding(1)) == ([], 1)


@pytest.mark.parametrize(
    "comment",
    ["# noqa: E501", "# noqa: F401,E501", "# a remark", "# gradlint", "# gradlint: this is meant, see GL101"],
)
def test_not_silenced(comment: str) -> None:
    assert _apply(f"clip()  {comment}\n", _finding(1)) == (["GL101:1"], 0)


@pytest.mark.parametrize(
    ("comment", "told"),
    [
        # the code that it names, and nothing else
        ("# gradlint: ignore GL202", ["GL101:1", "GL901:1"]),
        ("# gradlint: ignore GL202, GL203 for now", ["GL101:1", "GL901:1", "GL901:1"]),
        ("# gradlint: disable=GL202", ["GL101:1", "GL901:1"]),
        ("# gradlint: ignore GL199", ["GL101:1", "GL902:1"]),
        ("# gradlint: ignore F401", ["GL101:1", "GL902:1"]),
        ("# gradlint: ignore clip-afer-step", ["GL101:1", "GL902:1"]),
        ("# gradlint: ignore[]", ["GL101:1", "GL902:1"]),
        ("# gradlint: disable-next-line=GL101", ["GL101:1", "GL902:1"]),
        ("# gradlint: ignore-next-line[GL101]", ["GL101:1", "GL902:1"]),
        ("# gradlint: noqa", ["GL101:1", "GL902:1"]),
        ("# gradlint: noqa: GL101", ["GL101:1", "GL902:1"]),
        ("# gradlint: off", ["GL101:1", "GL902:1"]),
        ("# gradlint: GL101", ["GL101:1", "GL902:1"]),
    ],
)
def test_nothing_else_is_silenced_in_silence(comment: str, told: list[str]) -> None:
    assert _apply(f"clip()  {comment}\n", _finding(1)) == (told, 0)


def test_a_directive_that_is_none_is_told_with_what_to_write() -> None:
    text = "# gradlint: disable=GL101, GL202\nclip()\n"
    (finding, told), silenced = apply(text, [_finding(2)], ENABLED)
    assert (finding.code, silenced) == ("GL101", 0)
    assert told.message == (
        "unknown directive `disable` in a suppression: write `# gradlint: ignore[GL101, GL202]` behind the line, "
        "or `# gradlint: ignore-file[GL101, GL202]` for the file"
    )
    assert told.span == Span(Position(1, 1), Position(1, 33))


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("# gradlint: ignore GL101, GL202 for now", "# gradlint: ignore GL101 for now"),
        ("# gradlint: ignore GL202 GL101", "# gradlint: ignore GL101"),
        ("# gradlint: disable=GL202,GL101", "# gradlint: disable=GL101"),
    ],
)
def test_an_unused_code_without_brackets_is_dropped(comment: str, left: str) -> None:
    text = f"clip()  {comment}\n"
    (unused,), silenced = apply(text, [_finding(1)], ENABLED)
    assert (unused.code, silenced) == ("GL901", 1)
    assert unused.fix is not None
    assert applied(text, unused.fix.edits) == f"clip()  {left}\n"


def test_one_of_several_codes() -> None:
    text = "clip()  # gradlint: ignore[GL101, GL401]\n"
    assert _apply(text, _finding(1), _finding(1, "GL401")) == ([], 2)
    assert _apply(text, _finding(1)) == (["GL901:1"], 1)


def test_the_other_rules_of_the_line_still_speak() -> None:
    assert _apply("clip()  # gradlint: ignore[GL101]\n", _finding(1), _finding(1, "GL201")) == (["GL201:1"], 1)


def test_another_line_is_not_silenced() -> None:
    assert _apply("step()  # gradlint: ignore\nclip()\n", _finding(2)) == (["GL101:2", "GL901:1"], 0)


@pytest.mark.parametrize("row", [1, 2, 3])
def test_any_line_of_a_call_will_do(row: int) -> None:
    lines = ["clip(", "    params,", ")"]
    lines[row - 1] += "  # gradlint: ignore[GL101]"
    assert _apply("\n".join(lines), _finding(1, end_row=3, end_column=2)) == ([], 1)


def test_the_line_after_a_span_does_not_count() -> None:
    text = "clip()\nstep()  # noqa\n"
    assert _apply(text, _finding(1, end_row=2, end_column=1)) == (["GL101:1"], 0)


@pytest.mark.parametrize("quote", ['"', "'''"])
def test_a_string_is_no_comment(quote: str) -> None:
    assert _apply(f"clip({quote}# gradlint: ignore{quote})\n", _finding(1)) == (["GL101:1"], 0)


def test_ignore_file_holds_for_every_line() -> None:
    text = "import torch\nclip()\nstep()\n# gradlint: ignore-file[GL1]\n"
    assert _apply(text, _finding(2), _finding(3, "GL401")) == (["GL401:3"], 1)


@pytest.mark.parametrize(
    ("comment", "told"),
    [
        ("# gradlint: ignore", ["GL901:1"]),
        ("# gradlint: ignore[GL101]", ["GL901:1"]),
        ("# gradlint: ignore[GL1]", ["GL901:1"]),
        ("# gradlint: ignore-file", ["GL901:1"]),
        ("# gradlint: ignore-file[GL101]", ["GL901:1"]),
        ("# noqa: GL101", ["GL901:1"]),
        ("# gradlint: ignore[GL101, GL401]", ["GL901:1", "GL901:1"]),
        ("# noqa", []),
        ("# noqa: E501", []),
        ("# noqa: GLI001", []),
        # off by default: the comment is right again as soon as the rule is on
        ("# gradlint: ignore[missing-clip]", []),
        # a comment may silence the complaint about itself, when it says so
        ("# gradlint: ignore[GL101, GL901]", []),
        ("# gradlint: ignore[GL9]", []),
    ],
)
def test_unused(comment: str, told: list[str]) -> None:
    assert _apply(f"clip()  {comment}\n") == (told, 0)


@pytest.mark.parametrize(
    ("comment", "told"),
    [
        ("# gradlint: ignore[GL199]", ["GL902:1"]),
        ("# gradlint: ignore[clip-afer-step]", ["GL902:1"]),
        ("# gradlint: ignore[E501]", ["GL902:1"]),
        ("# noqa: GL199", ["GL902:1"]),
        ("# noqa: E999, PLR0913", []),
        ("# gradlint: ignore[GL199, GL902]", []),
    ],
)
def test_unknown(comment: str, told: list[str]) -> None:
    assert _apply(f"clip()  {comment}\n") == (told, 0)


def test_the_unknown_code_is_underlined_and_the_nearest_named() -> None:
    (finding,), _ = apply("clip()  # gradlint: ignore[clip-afer-step]\n", [], ENABLED)
    assert (finding.span.start.column, finding.span.end.column) == (28, 42)
    assert "did you mean `clip-after-step`?" in finding.message


def test_the_meta_rules_can_be_off() -> None:
    text = "clip()  # gradlint: ignore[GL101, GL199]\n"
    assert _apply(text, enabled=frozenset({"GL101"})) == ([], 0)


@pytest.mark.parametrize(
    "text", ["x = (\n# gradlint: ignore\n", "'''\n# noqa\n", "  x\n y # gradlint: ignore\n", "\x00"]
)
def test_code_that_cannot_be_tokenized_is_no_trouble(text: str) -> None:
    kept, _ = apply(text, [_finding(1, "GL900")], ENABLED)
    assert [finding.code for finding in kept] == ["GL900"]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_python_counts_them(newline: str) -> None:
    text = newline.join(["import torch", "\x0c", "clip()  # noqa: GL101", ""])
    assert _apply(text, _finding(3)) == ([], 1)
