"""Edits say exactly what changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gradlint.repair.edits import applied, difference
from tests.searching import examples

LINES = st.lists(st.sampled_from(["a\n", "b\n", "    c\n", "\n", "d\r\n", "\x0c\n", "e"]), max_size=12).map("".join)


@examples(200)
@given(old=LINES, new=LINES)
def test_edits_make_the_new_text_of_the_old(old: str, new: str) -> None:
    assert applied(old, difference(old, new, exact=True)) == new


def test_empty_lines_alone_are_no_fix() -> None:
    old = "a = 1\n\n\nb = 2\nc = 3\n"
    assert difference(old, "a = 1\n\nb = 2\nc = 3\n") == ()
    assert applied(old, difference(old, "a = 1\n\nb = 2\nc = 4\n")) == "a = 1\n\n\nb = 2\nc = 4\n"
    assert applied(old, difference(old, "a = 1\n\n\nc = 3\n")) == "a = 1\n\n\nc = 3\n"
    text = 's = """x\n\ny"""\n'
    assert applied(text, difference(text, 's = """x\ny"""\n')) == 's = """x\ny"""\n'


def test_an_edit_inside_a_line_names_only_what_changes() -> None:
    (edit,) = difference("x = 1\nloss.backward\n", "x = 1\nloss.backward()\n")
    assert (edit.span.start.row, edit.span.start.column, edit.span.end.column, edit.content) == (2, 14, 14, "()")
