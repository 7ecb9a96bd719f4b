"""Units of lines, and places that move with the text, compared with counting by hand and with the text itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from gradlint.lsp.texts import WIDTHS, Shift, Spot, Text, characters

LINE = 'x = "é😀"  # 名'


@pytest.mark.parametrize(
    ("encoding", "units"), [("utf-8", 11), ("utf-16", 8), ("utf-32", 7)], ids=["utf-8", "utf-16", "utf-32"]
)
def test_units_of_a_line_with_all_widths(encoding: str, units: int) -> None:
    width = WIDTHS[encoding]
    assert width(LINE, 7) == units
    assert characters(LINE, units, width) == 7


def test_half_a_character_is_none() -> None:
    assert characters(LINE, 7, WIDTHS["utf-16"]) == 6  # between the halves of the emoji


@pytest.mark.parametrize("encoding", WIDTHS)
def test_beyond_the_end_is_the_end(encoding: str) -> None:
    assert characters(LINE, 99, WIDTHS[encoding]) == len(LINE)
    assert WIDTHS[encoding](LINE, 99) == WIDTHS[encoding](LINE, len(LINE))


@given(st.text(max_size=12), st.sampled_from(sorted(WIDTHS)), st.integers(0, 12))
def test_there_and_back(line: str, encoding: str, count: int) -> None:
    width = WIDTHS[encoding]
    count = min(count, len(line))
    assert characters(line, width(line, count), width) == count


# -- places that move

TEXT = st.text(alphabet="ab😀\n", max_size=14)


def _spot(text: str, offset: int) -> Spot:
    lines = text[:offset].split("\n")
    return Spot(len(lines) - 1, WIDTHS["utf-16"](lines[-1], len(lines[-1])))


@given(TEXT, TEXT, st.data())
def test_what_is_outside_of_a_change_still_names_the_same_text(text: str, new: str, data: st.DataObject) -> None:
    low, high = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    after = text[:low] + new + text[high:]
    shift = Shift.of(_spot(text, low), _spot(text, high), new, WIDTHS["utf-16"])
    moved = shift.moved(_spot(text, start), _spot(text, end))
    grown = len(new) - (high - low)
    if start < end <= low:
        assert moved == (_spot(after, start), _spot(after, end))
    elif high <= start < end:
        assert moved == (_spot(after, start + grown), _spot(after, end + grown))
    elif low <= start < end <= high:
        assert moved is None
    elif start < low and high < end:
        assert moved == (_spot(after, start), _spot(after, end + grown))


def test_an_empty_range_moves_with_what_is_put_in_front_of_it() -> None:
    shift = Shift.of(Spot(0, 0), Spot(0, 0), "# x\n", WIDTHS["utf-16"])
    assert shift.moved(Spot(0, 0), Spot(0, 0)) == (Spot(1, 0), Spot(1, 0))


# -- texts


def _change(start: tuple[int, int], end: tuple[int, int], text: str) -> types.TextDocumentContentChangePartial:
    return types.TextDocumentContentChangePartial(types.Range(types.Position(*start), types.Position(*end)), text)


def _text(text: str, encoding: str = "utf-16") -> Text:
    return Text("file:///a.py", 1, text, WIDTHS[encoding])


@pytest.mark.parametrize(
    ("text", "change", "after"),
    [
        ("a\nb\n", _change((1, 0), (1, 1), "c"), "a\nc\n"),
        ("a\r\nb\r\n", _change((0, 1), (1, 0), "; "), "a; b\r\n"),
        ("a\rb", _change((1, 0), (1, 0), "x"), "a\rxb"),
        ("😀 = 1\n", _change((0, 2), (0, 3), ""), "😀= 1\n"),
        ("a", _change((0, 99), (0, 99), "b"), "ab"),
        ("a\n", _change((99, 0), (99, 0), "b"), "a\nb"),
        ("", _change((0, 0), (0, 0), "b"), "b"),
        ("a\x0cb\nc", _change((1, 0), (1, 1), "d"), "a\x0cb\nd"),  # a form feed ends no line
        ("a\u2028b\nc", _change((1, 0), (1, 1), "d"), "a\u2028b\nd"),
        ("a\nb", _change((1, 1), (0, 0), "c"), "a\nbc"),  # an end before its start
    ],
)
def test_a_change_is_made_where_the_editor_means_it(
    text: str, change: types.TextDocumentContentChangePartial, after: str
) -> None:
    made = _text(text)
    made.change(2, [change])
    assert (made.content, made.version) == (after, 2)
    assert "\n".join(made.lines) == after.replace("\r\n", "\n").replace("\r", "\n")


@given(TEXT, TEXT, st.data())
def test_any_change_is_made_as_in_the_text_itself(text: str, new: str, data: st.DataObject) -> None:
    low, high = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    made = _text(text)
    made.change(2, [_change(_spot(text, low), _spot(text, high), new)])
    assert made.content == text[:low] + new + text[high:]


def test_changes_follow_each_other() -> None:
    made = _text("a\n")
    shifts = made.change(5, [_change((0, 0), (0, 0), "x\n"), _change((1, 1), (1, 1), "!")])
    assert made.content == "x\na!\n"
    assert [shift.now for shift in shifts] == [Spot(1, 0), Spot(1, 2)]


@given(TEXT, TEXT)
def test_a_whole_text_sent_anew_is_taken_over_and_lines_that_stay_are_known(old: str, new: str) -> None:
    made = _text(old)
    made.change(2, [types.TextDocumentContentChangeWholeDocument(new)])
    assert made.content == new


def test_a_place_on_a_line_that_stays_moves_when_the_whole_text_is_sent_anew() -> None:
    made = _text("import a\nuse(a)\nlast\n")
    (shift,) = made.change(2, [types.TextDocumentContentChangeWholeDocument("# new\nimport a\nuse(a)\nlast\n")])
    assert shift.moved(Spot(1, 0), Spot(1, 6)) == (Spot(2, 0), Spot(2, 6))
