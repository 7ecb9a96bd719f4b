"""A rule's page for the terminal: what was measured as a table, the example and its fix side by side if they fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich import box
from rich.markdown import Markdown
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from gradlint.docs.example import Comparison, comparison
from gradlint.docs.pages import COLUMNS, HEADING, Facts, facts, page_without_facts
from gradlint.rule import Rule

if TYPE_CHECKING:
    from rich.console import RenderableType

#: narrower terminals get one column
_TWO_COLUMNS = 100
_GAP = 2
#: that of rich's code blocks, so that the page is of one piece
_THEME = "monokai"
_BACKGROUND = {" ": "on #272822", "-": "on #4a2229", "+": "on #1f4230"}
_MARK = {" ": "", "-": "bold #ff6b7f", "+": "bold #8fe388"}


def terminal_page(rule: type[Rule], width: int) -> Iterator[RenderableType]:
    """The parts of the page, from above."""
    measured, compared = facts(rule.meta.code), comparison(rule)
    head, _, rest = page_without_facts(rule).partition("\n## Example\n")
    yield Markdown(head)
    yield Text()
    if measured is not None:
        yield from _measured(measured)
        yield Text()
    if compared is None:
        yield Markdown(f"## Example\n{rest}")
        return
    _, _, rest = rest.partition("\n## Use instead\n")
    advice, _, tail = rest.partition("\n## Fix safety\n")
    yield from _columns(compared, width) if width >= _TWO_COLUMNS else _stacked(compared, width)
    yield Text()
    # said already, if the fixer follows it to the letter
    if advice.strip() != f"```python\n{compared.fixed}```":
        yield Markdown(f"## Use instead\n{advice}")
        yield Text()
    yield Markdown(f"## Fix safety\n{tail}")


def _measured(measured: Facts) -> Iterator[RenderableType]:
    yield Markdown(f"## {HEADING}\n{measured.setting}")
    table = Table(*COLUMNS, header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False)
    table.columns[1].style, table.columns[2].style = "red", "green"
    for row in measured.rows:
        table.add_row(*map(_with_code, row.cells))
    yield table
    yield Markdown(measured.origin)


def _with_code(cell: str) -> Text:
    """What stands between backticks is code."""
    parts = cell.split("`")
    return Text.assemble(*((part, "markdown.code" if n % 2 else "") for n, part in enumerate(parts)))


def _columns(compared: Comparison, width: int) -> Iterator[Text]:
    left = (width - _GAP) // 2
    right = width - _GAP - left
    yield _beside(_title("Example", left), _title(_made_by(compared), right))
    yield Text()
    for row in compared.rows:
        ours = _lines(row.bad, "-" if row.changed and row.bad is not None else " ", left)
        theirs = _lines(row.fixed, "+" if row.changed and row.fixed is not None else " ", right)
        height = max(len(ours), len(theirs))
        ours += [_line("", " ", left)] * (height - len(ours))
        theirs += [_line("", " ", right)] * (height - len(theirs))
        for one, other in zip(ours, theirs, strict=True):
            yield _beside(one, other)


def _stacked(compared: Comparison, width: int) -> Iterator[Text]:
    yield _title("Example", width)
    yield Text()
    for row in compared.rows:
        if row.bad is not None:
            yield from _lines(row.bad, "-" if row.changed else " ", width)
    yield Text()
    yield _title(_made_by(compared), width)
    yield Text()
    for row in compared.rows:
        if row.fixed is not None:
            yield from _lines(row.fixed, "+" if row.changed else " ", width)


def _made_by(compared: Comparison) -> str:
    return f"After {compared.command}"


def _title(words: str, width: int) -> Text:
    return Text.assemble((words, "markdown.h2"), " " * (width - len(words)), no_wrap=True, overflow="crop")


def _beside(left: Text, right: Text) -> Text:
    return Text.assemble(left, " " * _GAP, right, no_wrap=True, overflow="crop")


def _lines(code: str | None, mark: str, width: int) -> list[Text]:
    """A line of code in its colours, folded to the width."""
    if code is None:
        return []
    return [_line(part, mark, width) for part in _folded(code, width - 2)]


def _line(code: str, mark: str, width: int) -> Text:
    shown = Syntax("", "python", theme=_THEME).highlight(code)
    shown.rstrip()
    line = Text.assemble((mark, _MARK[mark]), " ", shown, no_wrap=True, overflow="crop")
    line.pad_right(width - line.cell_len)
    line.stylize(_BACKGROUND[mark])
    return line


def _folded(code: str, width: int) -> list[str]:
    """Broken in front of a remark, else behind a space or a bracket; the rest is indented further."""
    indent = " " * (len(code) - len(code.lstrip()) + 4)
    parts = []
    while len(code) > width:
        cuts = (code.rfind(end, len(indent), width) + len(end) for end in ("  ", " ", "("))
        cut = next((cut for cut in cuts if cut > len(indent) + 2), width)
        parts.append(code[:cut].rstrip())
        code = indent + code[cut:].lstrip()
    return [*parts, code]
