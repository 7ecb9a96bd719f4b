"""`gradlint trace`: what rules are shown, for those who write them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.sources import CLIP_AFTER_STEP, NO_GRADIENTS

ROOT = Path(__file__).parents[2]

FLAGGED = """\
def train(model, optimizer, loader, args):
    for x in loader:
        if args.clear:
            optimizer.zero_grad()
        model(x).mean().backward()
        update(optimizer)


def update(optimizer):
    optimizer.step()


def tune(model, g_opt, d_opt, loader):
    for x in loader:
        g_opt.zero_grad()
        d_opt.zero_grad()
        model(x).mean().backward()
        g_opt.step()
        d_opt.step()
"""


def _cells(line: str) -> list[str]:
    return re.split(r"  +", line.strip())


def test_the_example_of_the_guide(gradlint: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = re.search(r"^\$ gradlint (trace .*)\n((?:.*\n)+?)```", guide, re.MULTILINE)
    assert shown is not None
    outcome = gradlint(*shown[1].split())
    assert outcome.code == 0
    assert outcome.out.rstrip().splitlines() == shown[2].splitlines()


def test_events_with_the_state_before_them(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    lines = gradlint("trace", "train.py").out.splitlines()
    assert lines[0] == "train: the usual path"
    rows = [_cells(line) for line in lines[2:] if re.match(r" +\d+  0 ", line)]
    clip = next(row for row in rows if row[3] == "Clip")
    assert clip[1:5] == ["0", "1", "Clip", "consumed"]
    source = CLIP_AFTER_STEP.splitlines()[int(clip[0]) - 1]
    assert clip[5].rstrip("…") in source


def test_the_usual_paths_alone_unless_all_are_asked_for(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(FLAGGED)
    usual = gradlint("trace", "train.py").out
    assert re.findall(r"(?m)^\w.* path$", usual) == ["train: the usual path", "tune: the usual path"]
    assert "1 unusual path not shown (--all).\n" in usual
    every = gradlint("trace", "train.py", "--all").out
    assert "train: an unusual path\n  no  args.clear\n" in every
    assert "not shown" not in every


def test_lines_fit_a_terminal(gradlint: Command) -> None:
    files = [ROOT / "examples" / "train_with_mistakes.py", *sorted((ROOT / "fixtures").glob("*/bad_several*.py"))[:8]]
    for file in files:
        assert max(map(len, gradlint("trace", str(file), "--all").out.splitlines())) <= 80


def test_several_optimizers_are_named(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(FLAGGED)
    rows = gradlint("trace", "train.py", "--function", "tune").out.splitlines()
    assert not any(row.startswith("train") for row in rows)
    backward = [_cells(row)[1:6] for row in rows if "Backward" in row]
    assert ["0", "0", "Backward", "empty", "g_opt"] in backward
    assert ["0", "0", "Backward", "empty", "d_opt"] in backward


def test_as_json(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(FLAGGED)
    paths = gradlint("trace", "train.py", "--all", "--function", "train", "--output-format", "json").json()
    assert [(path["entry"], path["unusual"], path["decisions"]) for path in paths] == [
        ("train", False, {"args.clear": True}),
        ("train", True, {"args.clear": False}),
    ]
    step = next(event for event in paths[0]["events"] if event["event"] == "Step")
    assert (step["line"], step["via"], step["turns"], step["text"]) == (10, [6], [0], "optimizer.step()")
    assert step["before"] == {"optimizer": "optimizer", "phase": "filled", "window": 0}
    assert step["fields"]["optimizer"] == "optimizer"


def test_a_file_without_events(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(NO_GRADIENTS)
    outcome = gradlint("trace", "train.py")
    assert (outcome.code, outcome.out) == (0, "Nothing happens to gradients here.\n")
    assert gradlint("trace", "train.py", "--output-format", "json").json() == []


def test_what_was_not_followed_is_told(
    gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("gradlint.paths.explorer.PATH_BUDGET", 60)
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    out = gradlint("trace", "train.py").out
    assert "… it was not followed any further\n" in out
    assert "Note: `train` is too long to be followed to its end.\n" in out


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (None, [], "File 'train.py' does not exist"),
        (b"\0", [], "train.py cannot be read: it is a binary file"),
        (b"def f(:\n", [], "train.py:1:7: This file does not parse"),
        (FLAGGED.encode(), ["--function", "update"], "no path starts with 'update'"),
        (NO_GRADIENTS.encode(), ["--function", "update"], "nothing happens to gradients in this file"),
    ],
)
def test_what_cannot_be_traced(
    gradlint: Command, project: Path, content: bytes | None, options: list[str], said: str
) -> None:  # fmt: skip
    if content is not None:
        (project / "train.py").write_bytes(content)
    outcome = gradlint("trace", "train.py", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
