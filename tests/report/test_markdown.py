"""The comment for a pull request, also as it is rendered."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gradlint.model import FileResult, Position, Severity, Span
from gradlint.registry import rule_url
from gradlint.report.document import Report
from gradlint.report.markdown import LONGEST, as_markdown, code, escaped
from tests.report.samples import ODD_PATHS, finding, notebook, one_file, report, troubled

HERE = Span(Position(1, 1), Position(1, 2))


def _comment(given_report: Report) -> str:
    return "\n".join(as_markdown(given_report))


class _Page(HTMLParser):
    """The words of a page, and the elements they are in."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.words = ""
        self.tags: list[str] = []
        self.links: list[str | None] = []
        self.feed(MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(markdown))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.words += data


def test_a_comment() -> None:
    url = rule_url("GL101")
    assert (
        _comment(one_file())
        == f"""\
**gradlint**: Found 1 error (1 file checked)

#### `train.py`

- **error** line 3: [GL101 clip-after-step]({url}): `clip()` runs after `step()`. *Fix: Move the clip*

  <details><summary>the story</summary>

  - line 2: `x = '\N{GRINNING FACE}é'; step()` used here
  - line 3: `y = '\N{GRINNING FACE}\N{GRINNING FACE}'; clip(` **here**

  </details>
"""
    )


def test_it_is_rendered_as_a_list_with_the_story_folded_away() -> None:
    page = _Page(_comment(one_file()))
    assert page.links == [rule_url("GL101")]
    assert page.tags.count("details") == page.tags.count("summary") == 1
    assert page.tags.count("ul") == 2
    assert "**" not in page.words
    inside = page.tags[page.tags.index("details") :]
    assert inside.count("li") == 2


def test_clean_code_is_told_in_one_line() -> None:
    assert list(as_markdown(report([FileResult("a.py")]))) == ["**gradlint**: All checks passed! (1 file checked)"]


def test_what_was_left_out_is_told() -> None:
    (line,) = as_markdown(report([FileResult("a.py")])._replace(asides=["2 silenced by the baseline"]))
    assert line == "**gradlint**: All checks passed! (1 file checked, 2 silenced by the baseline)"


def test_files_that_could_not_be_checked_are_told() -> None:
    (line,) = as_markdown(troubled())
    assert line.endswith("(2 files checked). 2 files could not be checked; the log of the run says why.")


def test_cells() -> None:
    text = _comment(notebook())
    assert "- **error** cell 4, line 2: " in text
    assert "  - cell 2, line 3: `step()` used here" in text
    assert "*Fix: Move the clip (unsafe)*" in text


@pytest.mark.parametrize("path", ODD_PATHS)
def test_odd_paths_mean_themselves(path: str) -> None:
    page = _Page(_comment(one_file(path)))
    assert path in page.words
    assert page.links == [rule_url("GL101")]


@pytest.mark.parametrize(
    "message",
    [
        "a | b",
        "<b>not bold</b> & *not emphasised* _nor this_",
        "[no](link) ![no](image) ~~not struck~~ $not$ maths",
        "@nobody # no heading",
        "two\nlines",
        "a lone ` backtick <i>",
        "```",
        "\\",
    ],
)
def test_messages_mean_themselves(message: str) -> None:
    page = _Page(escaped(message))
    assert page.words.strip() == " ".join(message.split())
    assert set(page.tags) <= {"p"}


def test_code_stays_code() -> None:
    page = _Page(escaped("`x[0] * <y>` is not `z_`"))
    assert page.words.strip() == "x[0] * <y> is not z_"
    assert page.tags.count("code") == 2


@pytest.mark.parametrize("text", ["a", "`", "``a`", "a`", "`` `", "a  b"])
def test_any_text_can_be_code(text: str) -> None:
    page = _Page(code(text))
    assert page.words.strip() == " ".join(text.split())
    assert page.tags == ["p", "code"]


def test_a_long_comment_drops_the_least_severe_before_github_refuses_it() -> None:
    rows = range(1, 2000)
    kinds = {row: Severity.ERROR if row % 100 == 0 else Severity.ADVICE for row in rows}
    findings = tuple(finding(Span(Position(row, 1), Position(row, 2)), severity=kinds[row]) for row in rows)
    text = _comment(report([FileResult("a.py", findings)]))
    assert LONGEST / 2 < len(text) < 65_536
    told = [int(row) for row in re.findall(r"^- \*\*\w+\*\* line (\d+)", text, flags=re.MULTILINE)]
    assert told == sorted(told)
    assert {row for row in rows if kinds[row] is Severity.ERROR} < set(told)
    (left,) = re.findall(r"… and (\d+) more", text)
    assert len(told) + int(left) == len(findings)


@given(st.text())
def test_no_message_makes_elements(message: str) -> None:
    page = _Page(f"- x: {escaped(message)}")
    assert set(page.tags) <= {"ul", "li", "p", "code"}
    assert page.tags.count("li") == 1
