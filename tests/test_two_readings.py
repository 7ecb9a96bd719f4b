"""What the scout hears on Python's tree is what libcst's reading says, in small files and in large ones."""

from __future__ import annotations

import ast
from pathlib import Path

import libcst
import pytest

from gradlint.config import Settings
from gradlint.engine import lint
from gradlint.frontend import scout
from gradlint.frontend.lower import Lowering
from gradlint.frontend.paths import Explorer
from gradlint.frontend.program import Program
from gradlint.frontend.quick import QuickLowering
from tests.sampling import spread

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.slow
BAD = sorted(ROOT.glob("fixtures/*/bad*.py"))
#: functions without gradients, long enough together that the scout empties them
PADDING = "\n\n" + "\n\n".join(
    f"def helper_{n}(a, b):\n    total = a + b\n    return total * {n}\n" for n in range(150)
)


assert len(PADDING) > scout._SMALL


def _found(source: str) -> list[tuple[int, str, str]]:
    result = lint(source.encode(), "train.py", Settings())
    assert result.crashes == ()
    return [(f.span.start.row, f.code, f.message) for f in result.findings]


@pytest.mark.parametrize("path", spread(BAD, 4, 24), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_that_is_emptied_in_parts_says_the_same(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert _found(source + PADDING) == _found(source)


@pytest.mark.parametrize("path", spread(BAD, 4, 24), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_path_is_come_by_again_on_the_other_tree(path: Path) -> None:
    source = path.read_text(encoding="utf-8") + PADDING
    tree = ast.parse(source)
    first = list(Explorer(Program(QuickLowering(tree, scout.unread(tree, source)).body)).paths())
    again = Explorer(Program(Lowering(libcst.parse_module(source)).body)).again({p.recipe for p in first})
    texts = {p.recipe: [e.text for e in p.events] for p in again}
    assert texts == {p.recipe: [e.text for e in p.events] for p in first}
