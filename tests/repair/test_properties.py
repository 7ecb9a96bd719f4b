"""Whatever is fixed still parses, is better than before, and is otherwise as it was: on drawn and on real files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import Phase, given, settings

from benchmarks.recall import LOOPS
from gradlint.engine import fix
from tests.repair.properties import DEFAULT, PATH, PROPERTIES, fixed, linted
from tests.repair.strategies import Drawn, right_files, training_files
from tests.sampling import spread
from tests.searching import examples

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = [*sorted(LOOPS.glob("*.py")), *sorted((ROOT / "fixtures").glob("*/bad*.py"))]
#: with many findings in one file
LONG = [pytest.param(path, marks=pytest.mark.slow) for path in sorted((ROOT / "examples").glob("*.py"))]

#: not shrunk, because a file is short and each try costs a second
QUICK = settings(examples(5), phases=(Phase.explicit, Phase.generate))
MANY = settings(examples(10), phases=QUICK.phases)

#: drawn once, and wrong then
ONCE_WRONG = {
    "step in a helper before the backward": """
class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")
    def train(self, loader):
        for x in loader:
            self.optimizer.zero_grad()
            self.update()
            loss = self.model(x).mean()
            self.scaler.scale(loss).backward()
    def update(self):
        self.scaler.unscale_(self.optimizer)
        self.scaler.step(self.optimizer)
        self.scaler.update()
""",
    "advice that is uncovered": """
optimizer = torch.optim.AdamW(model.parameters())
opt_r = torch.optim.SGD(rival.parameters(), lr=0.1)
for epoch in range(10):
    model.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / accum
        loss.backward()
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            optimizer.step()
            opt_r.zero_grad()
            criterion(rival(x), y).backward()
            opt_r.step()
            loss.backward()
            model.zero_grad()
""",
    "bare suppression of a rule that is off": """
for epoch in range(10):
    for k in range(accum):
        scaler.scale(loss).backward()  # gradlint: ignore
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()  # gradlint: ignore[GL4]
""",
}

# lint raises the recursion limit, and hypothesis says so
pytestmark = pytest.mark.filterwarnings("ignore:The recursion limit will not be reset")


def _check_all(source: bytes) -> None:
    """All on one file, because each needs the same fixes; the traceback names the one that fails."""
    for holds in PROPERTIES:
        holds(source)


@pytest.mark.parametrize("path", [*spread(FILES, 3, 24), *LONG], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_files(path: Path) -> None:
    _check_all(path.read_bytes())


@pytest.mark.parametrize("source", ONCE_WRONG.values(), ids=ONCE_WRONG)
def test_what_was_once_wrong(source: str) -> None:
    _check_all(source.encode())


@pytest.mark.slow
@pytest.mark.parametrize("unsafe", [False, True])
def test_the_engine_does_what_is_tested_here(unsafe: bool) -> None:
    source = (ROOT / "examples" / "train_with_mistakes.py").read_bytes()
    assert fix(source, PATH, DEFAULT, unsafe=unsafe) == fixed(source, unsafe)


@QUICK
@given(drawn=training_files())
def test_drawn_files(drawn: Drawn) -> None:
    _check_all(drawn.source)


@pytest.mark.slow
@MANY
@given(drawn=training_files())
def test_many_drawn_files(drawn: Drawn) -> None:
    _check_all(drawn.source)


@QUICK
@given(drawn=right_files())
def test_right_files_stay_as_they_are(drawn: Drawn) -> None:
    assert [(f.span.start.row, f.code, f.message) for f in linted(drawn.source).findings] == []
    assert fixed(drawn.source, True).source == drawn.source
