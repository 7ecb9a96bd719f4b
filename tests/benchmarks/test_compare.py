"""Two checkouts are told apart by what they say, and a checkout runs its own rules."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.compare import compared, differences, findings
from tests.rules.expectations import ROOT
from tests.sources import CLIP_AFTER_STEP

ROW = {"filename": "a.py", "code": "GL101", "severity": "error", "message": "old", "location": {"row": 1, "column": 1}}
KEY = ("a.py", "GL101", 1, 1, 0)


def test_what_differs_is_named() -> None:
    assert list(differences({KEY: ROW}, {KEY: ROW})) == []
    assert [kind for kind, _ in differences({KEY: ROW}, {})] == ["GL101 gone"]
    assert [kind for kind, _ in differences({}, {KEY: ROW})] == ["GL101 new"]
    assert [kind for kind, _ in differences({KEY: ROW}, {KEY: {**ROW, "message": "new"}})] == ["GL101 message"]


@pytest.mark.slow
def test_a_checkout_runs_its_own_rules(tmp_path: Path) -> None:
    """Though another one is installed."""
    other, code = tmp_path / "other", tmp_path / "code"
    for folder in ("gradlint", "rules"):
        shutil.copytree(ROOT / folder, other / folder, ignore=shutil.ignore_patterns("__pycache__"))
    rule = other / "rules" / "clip_after_step.py"
    rule.write_text(rule.read_text("utf-8").replace("runs after `{step}`", "COMES after `{step}`"), "utf-8")
    code.mkdir()
    (code / "train.py").write_text(CLIP_AFTER_STEP, "utf-8")
    assert ["COMES" in row["message"] for row in findings(other, code).values()] == [True]
    assert {kind for kind, _ in compared(ROOT, other, code)} == {"GL101 message"}
