"""The loops of `tests/loops`, run: of the right ones a run shows nothing; of broken ones it shows what was broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradlint.config import Settings
from gradlint.config.selectors import known_codes
from gradlint.engine import lint
from gradlint.runtime.health import symptoms
from gradlint.runtime.measure import Spot, all_measures
from gradlint.runtime.recording import Recording
from gradlint.runtime.verdicts import Linted, Side, Verdicts, seen_only_in_run
from tests.patience import PATIENCE
from tests.runtime.drivers.running import LOOPS, WORLD, Text, recordings
from tests.sampling import sample
from tests.sharing import once

pytestmark = pytest.mark.slow
RIGHT = sorted(LOOPS.glob("*.py"))
#: what these measure is no mistake by itself (how large gradients are, who is clipped), or is said by the text alone
MEASURES = frozenset({"GL105", "GL107", "GL108", "GL109", "GL112", "GL405"})

#: a few seconds of runs, however many loops there are; `python -m benchmarks.verified` runs them all
each_loop = pytest.mark.parametrize("path", sample(RIGHT, 8), ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, list[Recording]]:
    """The recordings of the loops that the chosen tests ask for, made at once."""
    pytest.importorskip("torch")
    return once(tmp_path_factory, "loops", lambda _: _recorded(request))


def _recorded(request: pytest.FixtureRequest) -> dict[Path, list[Recording]]:
    functions = [item for item in request.session.items if isinstance(item, pytest.Function)]
    mine = [item for item in functions if item.module.__name__ == __name__ and hasattr(item, "callspec")]
    wanted = sorted({path for item in mine if isinstance(path := item.callspec.params.get("path"), Path)})
    made = recordings([Text(path.stem, path.read_text(encoding="utf-8")) for path in wanted], limit=PATIENCE)
    return dict(zip(wanted, made, strict=True))


def test_a_run_confirms_what_was_broken_and_cures_what_was_mended() -> None:
    """One of each code, from one loop or another; `python -m benchmarks.verified` asks of all mutants."""
    pytest.importorskip("torch")
    from benchmarks.verified import Table, one_of_each, verify

    found = one_of_each([path.stem for path in RIGHT])
    seen = verify(found, limit=PATIENCE)
    table = Table(found)
    said = "\n".join([*table.complaints(), *table.lines()])
    assert len({mutant.code for mutant in found}) > 30, said
    assert table.columns["reached"].total() >= 0.9 * len(found), said
    assert table.share_confirmed >= 0.95, said
    assert table.share_cured >= 0.97, said
    assert [m.name for m in found if m.slander] == [], said
    assert [m.name for m in found if m.alarms] == [], said
    assert seen == []


def case_of(path: Path, run: list[Recording]) -> Verdicts:
    return Verdicts(Side(run, 0.0, {str(path): path.read_text(encoding="utf-8")}))


def test_every_loop_has_a_driver() -> None:
    pytest.importorskip("torch")
    from tests.runtime.drivers import drivers

    assert list(drivers()) == [path.stem for path in RIGHT]


@each_loop
def test_a_right_loop_runs(path: Path, runs: dict[Path, list[Recording]]) -> None:
    run = runs[path]
    assert len(run) == (WORLD if path.stem.startswith("ddp_") else 1)
    for recording in run:
        assert recording.steps >= 3
        assert recording.end is not None
        assert recording.end.how in ("enough", "finished")
        assert [note for note in recording.notes if "failed" in note] == []


@each_loop
def test_nothing_is_seen_in_a_right_loop(path: Path, runs: dict[Path, list[Recording]]) -> None:
    """With all rules on, those that are off by default, too."""
    settings = Settings()
    text = path.read_text(encoding="utf-8")
    linted = Linted(str(path), settings, lint(text.encode(), str(path), settings), text, known_codes())
    case = case_of(path, runs[path])
    found = seen_only_in_run(case, {str(path): linted})
    assert [(j.code, j.line, j.message, j.evidence) for j in found] == []
    assert symptoms(case.run) == []


@each_loop
def test_the_rules_say_nothing_of_a_right_loop(path: Path, runs: dict[Path, list[Recording]]) -> None:
    """Not even where the numbers would have refuted them."""
    case = case_of(path, runs[path])
    words = case.objections(Settings())
    assert case.crashes == []
    assert [(w.code, w.line, w.message) for w in words] == []


@each_loop
def test_no_evidence_holds_of_a_right_loop(path: Path, runs: dict[Path, list[Recording]]) -> None:
    """Whatever is asked of it, at whichever statement: no check is there that always agrees."""
    case = case_of(path, runs[path])
    settings = Settings()
    functions = {line.start: line.function for line in case.files[str(path)].lines.values()}
    spots = [Spot(str(path), None, name) for name in sorted(set(functions.values()))]
    spots += [Spot(str(path), line, name) for line, name in functions.items()]
    held = {
        (code, spot.line, shown.text)
        for code in all_measures()
        for spot in spots
        if code not in MEASURES and (shown := case.look(code, spot, settings)).holds
    }
    assert held == set()
