"""A rule's example, and what the fixer makes of it: computed, never written by hand."""

from __future__ import annotations

import difflib
import io
import itertools
import re
import tokenize
from collections.abc import Iterator

from gradlint.config import Layer, Settings
from gradlint.docs.pages import page, record, sections
from gradlint.engine import fix
from gradlint.model import FixSafety
from gradlint.records import dataclass
from gradlint.rule import Rule

#: comments that tools act on; all others of an example are remarks on the mistake
_PRAGMA = re.compile(r"gradlint:|noqa")


@dataclass(frozen=True, slots=True)
class Row:
    """Two lines that stand beside each other; None where only the other side has one."""

    bad: str | None
    fixed: str | None
    changed: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """An example and its fix, line by line."""

    bad: str
    fixed: str
    command: str

    @property
    def rows(self) -> list[Row]:
        """Lines that differ in a remark only are not changed; lines that were indented stand beside themselves."""
        shown, bad, fixed = self.bad.splitlines(), _without_remarks(self.bad).splitlines(), self.fixed.splitlines()
        found: list[Row] = []
        for same, old, new in _aligned(bad, fixed):
            if same:
                found.extend(Row(left, right, False) for left, right in zip(shown[old], fixed[new], strict=True))
                continue
            for _, some, others in _aligned([x.strip() for x in bad[old]], [x.strip() for x in fixed[new]]):
                pairs = itertools.zip_longest(shown[old][some], fixed[new][others])
                found.extend(Row(left, right, True) for left, right in pairs)
        return found

    def diff(self) -> Iterator[str]:
        """The whole example as one hunk, without its head."""
        for changed, rows in itertools.groupby(self.rows, lambda row: row.changed):
            group = list(rows)
            if changed:
                yield from (f"-{row.bad}" for row in group if row.bad is not None)
                yield from (f"+{row.fixed}" for row in group if row.fixed is not None)
            else:
                yield from (f" {row.bad}" for row in group)


def example(rule: type[Rule]) -> str:
    """The code under `## Example`."""
    return "\n".join(re.findall(r"```python\n(.*?)```", sections(rule)["Example"], flags=re.DOTALL))


def comparison(rule: type[Rule]) -> Comparison | None:
    """None for a rule that fixes nothing."""
    if rule.meta.fix is FixSafety.NONE:
        return None
    code, bad = rule.meta.code, example(rule)
    unsafe = rule.meta.fix is FixSafety.UNSAFE
    alone = Settings(layers=(Layer(extend_select=(code,), fixable=(code,)),))
    outcome = fix(_without_remarks(bad).encode(), "example.py", alone, unsafe=unsafe)
    if not outcome.applied:
        return None
    return Comparison(bad, outcome.source.decode(), f"gradlint check --fix{' --unsafe-fixes' if unsafe else ''}")


def page_with_fix(rule: type[Rule]) -> str:
    """The page in Markdown, with what the fix does to the example."""
    text, compared = page(rule), comparison(rule)
    if compared is None:
        return text
    diff = "\n".join(compared.diff())
    shown = f"## What the fix does\n`{compared.command}` changes the example like this:\n\n```diff\n{diff}\n```\n"
    return text.replace("\n## Fix safety\n", f"\n{shown}\n## Fix safety\n", 1)


def record_with_fix(rule: type[Rule]) -> dict[str, object]:
    """What programs may want to know of a rule, with the code that it is explained by."""
    compared = comparison(rule)
    return {**record(rule), "example": example(rule), "fixed": None if compared is None else compared.fixed}


def _aligned(old: list[str], new: list[str]) -> Iterator[tuple[bool, slice, slice]]:
    """Stretches of two texts that belong together, and whether they are the same."""
    for kind, low, high, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        yield kind == "equal", slice(low, high), slice(first, last)


def _without_remarks(code: str) -> str:
    """A remark behind a line (`# too late`) speaks of the mistake: it would be a lie in the fixed code."""
    lines = code.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip() and not _PRAGMA.search(token.string):
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    return "".join(lines)
