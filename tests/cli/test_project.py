"""Mistakes that span files: small trees, checked whole and file by file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradlint.config import Settings
from gradlint.engine import lint
from tests.cli.conftest import Command
from tests.sources import CLIP_AFTER_STEP

ENGINE = """\
def train_one_epoch(model, optimizer, loader, n):
    for i, x in enumerate(loader):
        loss = model(x).mean() / n
        loss.backward()
        if (i + 1) % n == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""
MAIN = """\
import torch
from engine import train_one_epoch


def main(net, loader):
    model = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters())
    train_one_epoch(model, optimizer, loader, 4)
"""
PLAIN_MAIN = MAIN.replace("torch.nn.parallel.DistributedDataParallel(net)", "net.cuda()")


def _write(project: Path, **files: str) -> None:
    for name, text in files.items():
        (project / f"{name}.py").write_text(text)


def _told(gradlint: Command, *arguments: str, stdin: str = "") -> list[tuple[str, str, int]]:
    found = gradlint("check", "--project", "--output-format", "json", *arguments, stdin=stdin).json()
    return [(Path(f["filename"]).name, f["code"], f["location"]["row"]) for f in found]


def test_a_callee_is_told_what_its_caller_knows(gradlint: Command, project: Path) -> None:
    _write(project, engine=ENGINE, main=MAIN)
    (finding,) = gradlint("check", "--project", "--output-format", "json").json()
    assert (Path(finding["filename"]).name, finding["code"], finding["location"]["row"]) == ("engine.py", "GL501", 4)
    here, there = finding["related"]
    assert "filename" not in here
    assert there == {
        "message": "it is called from here",
        "filename": str(project / "main.py"),
        "location": {"row": 8, "column": 5},
        "end_location": {"row": 8, "column": 49},
    }
    assert "  ::: main.py:8:5: it is called from here" in gradlint("check", "--project").out


@pytest.mark.parametrize("asked", [[], ["."], ["engine.py"], ["engine.py", "main.py"]], ids=str)
@pytest.mark.parametrize("options", [[], ["--no-cache"], ["-j", "1"]], ids=str)
def test_it_is_the_same_whatever_is_asked_for(
    gradlint: Command, project: Path, asked: list[str], options: list[str]
) -> None:  # fmt: skip
    _write(project, engine=ENGINE, main=MAIN)
    assert _told(gradlint, *options, *asked) == [("engine.py", "GL501", 4)]


def test_a_hook_does_not_fail_on_a_neighbour(gradlint: Command, project: Path) -> None:
    _write(project, engine=ENGINE.replace("loss.backward()", "loss.backward()\n        1 / 0"), main=PLAIN_MAIN)
    _write(project, other="import torch\nclip = torch.nn.utils.clip_grad_norm\nfrom main import main\n")
    assert gradlint("check", "--project", "main.py").code == 0


def test_what_a_neighbour_has_of_its_own_is_not_told(gradlint: Command, project: Path) -> None:
    """Nothing crosses from one file to the other: the importer was looked at, and nobody asked for it."""
    layers = ", ".join(["nn.Linear(4, 4), nn.Tanh()"] * 5)
    model = f"from helper import differentiate\nfrom torch import nn\n\nmodel = nn.Sequential({layers})\n"
    _write(project, helper="def differentiate(loss):\n    loss.backward()\n", model=model)
    assert _told(gradlint, "helper.py") == []
    assert _told(gradlint, "model.py") == [("model.py", "GL701", 4)]


def test_a_story_with_a_line_in_the_asked_file_is_told(gradlint: Command, project: Path) -> None:
    _write(project, engine=ENGINE, main=MAIN)
    assert _told(gradlint, "main.py") == [("engine.py", "GL501", 4)]


def test_it_can_be_switched_off_and_on(gradlint: Command, project: Path) -> None:
    _write(project, engine=ENGINE, main=MAIN)

    def codes(*options: str) -> list[str]:
        return gradlint("check", "--output-format", "json", *options).codes()

    assert codes() == ["GL501"]
    assert codes("--isolated") == ["GL501"]
    assert codes("--no-project") == []
    (project / "pyproject.toml").write_text("[tool.gradlint]\nproject = false\n")
    assert codes() == []
    assert codes("--isolated") == ["GL501"]
    assert codes("--project") == ["GL501"]
    (project / "gradlint.toml").write_text("project = true\n")
    assert codes() == ["GL501"]
    assert codes("--no-project") == []
    (project / "gradlint.toml").write_text('extend = "pyproject.toml"\n')
    assert codes() == []
    (project / "gradlint.toml").write_text("project = 3\n")
    assert gradlint("check").code == 2


def test_src_names_further_roots(gradlint: Command, project: Path) -> None:
    lib = project / "lib"
    lib.mkdir()
    (lib / "engine.py").write_text(ENGINE)
    (project / "main.py").write_text(MAIN)
    assert _told(gradlint) == []
    (project / "gradlint.toml").write_text('src = ["lib"]\n')
    assert _told(gradlint) == [("engine.py", "GL501", 4)]
    (project / "gradlint.toml").write_text("src = 3\n")
    assert gradlint("check").code == 2


def test_nothing_is_stale(gradlint: Command, project: Path) -> None:
    _write(project, engine=ENGINE, main=MAIN)
    assert _told(gradlint) == [("engine.py", "GL501", 4)]
    _write(project, main=PLAIN_MAIN)
    assert _told(gradlint) == []
    _write(project, main=MAIN)
    assert _told(gradlint) == [("engine.py", "GL501", 4)]
    (project / "engine.py").unlink()
    assert _told(gradlint) == []
    _write(project, engine=ENGINE)
    assert _told(gradlint) == [("engine.py", "GL501", 4)]


def test_a_comment_in_the_callee_silences_it_and_is_of_use(gradlint: Command, project: Path) -> None:
    silent = ENGINE.replace("loss.backward()", "loss.backward()  # gradlint: ignore[GL501]")
    _write(project, engine=silent, main=MAIN)
    assert _told(gradlint) == []
    _write(project, main=PLAIN_MAIN)
    assert _told(gradlint) == [("engine.py", "GL901", 4)]


def test_a_caller_that_knows_better_is_believed(gradlint: Command, project: Path) -> None:
    engine = ENGINE.replace(" or i + 1 == len(loader)", "").replace("n)", "cfg)", 1).replace(" n", " cfg.accum")
    run = "from engine import train_one_epoch\n\n\nclass C:\n    accum = {}\n\n\ndef main(m, optimizer, loader):\n"
    run += "    train_one_epoch(m, optimizer, loader, C)\n"
    _write(project, engine=engine)
    assert _told(gradlint) == [("engine.py", "GL304", 6)]
    _write(project, run=run.format(1))
    assert _told(gradlint) == []
    assert _told(gradlint, "engine.py") == []
    _write(project, run=run.format(4))
    assert _told(gradlint) == [("engine.py", "GL304", 6)]


CLIPS = """\
from torch.nn.utils import clip_grad_norm_

def train(model, optimizer, loader, most=None):
    for x in loader:
        model(x).mean().backward()
        optimizer.step()
        if most is not None:
            clip_grad_norm_(model.parameters(), most)
        optimizer.zero_grad()
"""


def test_a_caller_that_leaves_an_option_out_knows_nothing_of_it(gradlint: Command, project: Path) -> None:
    main = "from engine import train\n\ndef main(m, optimizer, loader):\n    train(m, optimizer, loader)\n"
    _write(project, engine=CLIPS, main=main)
    assert _told(gradlint) == [("engine.py", "GL101", 8)]


def test_a_caller_whose_files_are_not_all_read_is_not_believed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(project, engine=CLIPS, other="def clear(optimizer):\n    optimizer.zero_grad()\n")
    main = "from engine import train\nfrom other import clear\n\ndef main(m, optimizer, loader):\n"
    main += "    clear(optimizer)\n    train(m, optimizer, loader)\n"

    def believed() -> set[bool]:
        result = lint(main.encode(), str(project / "main.py"), Settings(project=True, root=str(project)))
        return {whole for _, _, whole in result.reached}

    assert believed() == {True}
    monkeypatch.setattr("gradlint.python.surroundings.MOST_READ", len(CLIPS))
    assert believed() == {False}


@pytest.fixture
def both(project: Path) -> Path:
    _write(project, engine=ENGINE, main=MAIN)
    return project


def test_stdin_is_a_file_of_the_project(gradlint: Command, project: Path) -> None:
    """What comes through it counts instead of what is on the disk, for the files that import it as well."""
    _write(project, engine="", main=MAIN)

    def told(text: str) -> list[tuple[str, str, int]]:
        return _told(gradlint, "--stdin-filename", "engine.py", "-", stdin=text)

    assert told(ENGINE) == [("engine.py", "GL501", 4)]
    assert told(ENGINE.replace("/ n", "").replace("(i + 1) % n == 0 or", "True or")) == []
    assert told(f"\n{ENGINE}") == [("engine.py", "GL501", 5)]


def test_a_notebook_is_followed_into_modules_and_knows_what_it_hands_them(gradlint: Command, project: Path) -> None:
    lines = MAIN.splitlines(keepends=True)
    cells = [{"cell_type": "code", "source": part, "metadata": {}, "outputs": []} for part in (lines[:2], lines[2:])]
    (project / "main.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    _write(project, engine=ENGINE)
    for asked in (".", "engine.py", "main.ipynb"):
        assert _told(gradlint, asked) == [("engine.py", "GL501", 4)]


def test_a_baseline_knows_what_callers_know(gradlint: Command, both: Path) -> None:
    assert gradlint("check", "--project", "main.py", "--write-baseline", "known.json").code == 0
    assert [entry["path"] for entry in json.loads((both / "known.json").read_text())["findings"]] == ["engine.py"]
    for asked in ("engine.py", "main.py", "."):
        outcome = gradlint("check", "--project", "--baseline", "known.json", asked)
        assert (outcome.code, "gone" in outcome.out + outcome.err) == (0, False)
    _write(both, engine=ENGINE.replace("loss.backward()", "(2 * loss).backward()"))
    assert _told(gradlint, "--baseline", "known.json", "main.py") == [("engine.py", "GL501", 4)]


def test_verbose_names_what_is_imported_and_not_there(gradlint: Command, project: Path) -> None:
    pkg = project / "pkg"
    pkg.mkdir()
    _write(pkg, __init__="", here="def a(): ...\n", engine=ENGINE)
    _write(pkg, train=f"from .gone import make\nfrom .here import a\n{MAIN.replace('from engine', 'from .engine')}")
    with (pkg / "train.py").open("a") as file:
        file.write("    make()\n    a()\n")
    said = gradlint("check", "--project", "-v").err
    assert f"{pkg / 'gone.py'} is imported, and is not there" in said
    assert "here.py" not in said
    assert "is not there" not in gradlint("check", "--project").err


def test_verbose_says_when_enough_was_read(gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradlint.python.surroundings.MOST_READ", len(ENGINE))
    clear = "def clear(optimizer):\n    optimizer.zero_grad()\n"
    _write(project, engine=ENGINE, other=clear, main=f"from other import clear\n{MAIN}    clear(optimizer)\n")
    assert "was not read to its end: enough other files were" in gradlint("check", "--project", "-v", "--no-cache").err


def test_the_root_is_found(gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a configuration, or the mark of a checkout; without one it is the folder that we are in, or the file's own."""
    inner, elsewhere = project / "tools" / "deep", project / "elsewhere"
    inner.mkdir(parents=True)
    elsewhere.mkdir()
    _write(project, engine=ENGINE)
    _write(inner, main=MAIN)
    assert _told(gradlint, "tools/deep/main.py") == [("engine.py", "GL501", 4)]
    monkeypatch.chdir(elsewhere)
    assert _told(gradlint, "../tools/deep/main.py") == []
    for mark in (".git", "pyproject.toml", "gradlint.toml"):
        (project / mark).write_text("")
        assert _told(gradlint, "../tools/deep/main.py") == [("engine.py", "GL501", 4)]
        (project / mark).unlink()


def test_a_repository_may_hold_projects(gradlint: Command, project: Path) -> None:
    """A script finds the modules of the folder that its own project is run from, and not those of the one beside."""
    (project / ".git").mkdir()
    for name, text in (("one", ENGINE), ("two", "def train_one_epoch(model, optimizer, loader, n): ...\n")):
        (project / name / "lib").mkdir(parents=True)
        (project / name / "tools").mkdir()
        _write(project / name / "lib", engine=text)
        _write(project / name / "tools", main=MAIN.replace("from engine", "from lib.engine"))
    assert _told(gradlint) == [("engine.py", "GL501", 4)]
    assert _told(gradlint, "one/lib") == [("engine.py", "GL501", 4)]
    assert _told(gradlint, "two") == []


@pytest.mark.parametrize("options", [(), ("--isolated",)], ids=str)
def test_the_configuration_of_a_neighbour_may_be_wrong(
    gradlint: Command, project: Path, options: tuple[str, ...]
) -> None:
    """Nobody asked for its folder, though its files are searched for callers."""
    beside = project / "beside"
    beside.mkdir()
    _write(beside, main=MAIN)
    _write(project, engine=ENGINE, main=MAIN)
    for text in ("[tool.gradlint]\nbogus = 1\n", "#" * 2_000_000):
        (beside / "pyproject.toml").write_text(text)
        assert _told(gradlint, *options, "engine.py") == [("engine.py", "GL501", 4)]
    assert gradlint("check", "beside").code == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("folder", ["", "beside"])
def test_what_git_ignores_near_by_may_be_no_file(gradlint: Command, project: Path, folder: str) -> None:
    """Nobody asked for that folder, though its files, or those below it, are searched for callers."""
    (project / "beside").mkdir()
    (project / ".git").mkdir()
    _write(project, engine=ENGINE, main=MAIN)
    os.mkfifo(project / folder / ".gitignore")
    assert _told(gradlint, "engine.py") == [("engine.py", "GL501", 4)]
    assert gradlint("check", ".").code == 2


ASKED = """\
def train(model, optimizer, loader, criterion, n):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()
        if (i + 1) % n == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""
DIVIDES = """\
import torch.nn.functional as F
from engine import train


def main(model, optimizer, loader):
    train(model, optimizer, loader, lambda out, y: F.cross_entropy(out, y) / 8, 8)
"""
ADDS_UP = DIVIDES.replace("lambda out, y: F.cross_entropy(out, y) / 8", "F.cross_entropy")
DIVIDED = ASKED.replace("loss.backward()", "(loss / n).backward()")


@pytest.mark.parametrize(
    ("callers", "options", "wanted"),
    [
        ({}, [], DIVIDED),
        ({"wrong": ADDS_UP}, [], DIVIDED),
        ({"right": DIVIDES}, [], ASKED),
        ({"right": DIVIDES}, ["--unsafe-fixes"], ASKED),
        ({"right": DIVIDES, "wrong": ADDS_UP}, [], ASKED),
        ({"right": DIVIDES, "wrong": ADDS_UP}, ["--unsafe-fixes"], DIVIDED),
    ],
    ids=["alone", "wrong caller", "right caller", "right caller, unsafe", "both", "both, unsafe"],
)
def test_a_fix_is_as_safe_as_all_callers_let_it_be(
    gradlint: Command, project: Path,
    callers: dict[str, str], options: list[str], wanted: str,
) -> None:  # fmt: skip
    _write(project, engine=ASKED, **callers)
    on_stdin = [*options, "--fix", "--stdin-filename", "engine.py", "-"]
    assert gradlint("check", "--project", "--no-cache", *on_stdin, stdin=ASKED).out == wanted
    shown = gradlint("check", "--project", "--diff", *options).out
    assert ("(loss / n)" in shown) == (wanted == DIVIDED)
    fixed = gradlint("check", "--project", "--fix", *options)
    assert (project / "engine.py").read_text() == wanted
    assert fixed.code == (1 if gradlint("check", "--project", "--output-format", "json").json() else 0)


def test_a_file_that_was_fixed_is_not_known_by_what_it_was(gradlint: Command, project: Path) -> None:
    """A moved line leaves the size of a file as it was."""
    path = project / "train.py"
    path.write_text(CLIP_AFTER_STEP)
    os.utime(path, (1_700_000_000, 1_700_000_000))  # results of files that were written just now are not kept
    assert gradlint("check").code == 1
    fixed = gradlint("check", "--fix")
    assert (fixed.code, fixed.out) == (0, "Found 1 error (1 fixed, 0 remaining)\n")


def test_what_callers_say_is_told_of_a_file_that_was_fixed(gradlint: Command, project: Path) -> None:
    undivided = ENGINE.replace(" / n", "")
    _write(project, engine=undivided, main=MAIN)
    assert gradlint("check", "--project", "--fix").code == 1
    assert "(loss / n).backward()" in (project / "engine.py").read_text()
    assert _told(gradlint) == [("engine.py", "GL501", 4)]
    _write(project, engine=undivided)
    assert "GL501" in gradlint("check", "--project", "--fix").out


def test_the_search_for_callers_ends_in_a_folder_of_very_many_things(
    gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may lie in somebody's home: callers right beside it are found, and nothing below is gone through."""
    monkeypatch.setattr("gradlint.runner.importers.MOST_ENTRIES", 20)
    _write(project, engine=ENGINE, main=PLAIN_MAIN)
    (project / "setup.py").touch()
    below = project / "below"
    below.mkdir()
    (below / "caller.py").write_text(MAIN)
    assert _told(gradlint, "engine.py") == [("engine.py", "GL501", 4)]
    for number in range(30):
        (below / f"{number}.txt").write_text("")
    listed: list[str] = []
    scandir = os.scandir

    def noted(folder: str) -> Iterator[os.DirEntry[str]]:
        listed.append(str(folder))
        return scandir(folder)

    monkeypatch.setattr("os.scandir", noted)
    assert _told(gradlint, "--no-cache", "engine.py") == []
    assert listed.count(str(below)) <= 1
    _write(project, main=MAIN)
    assert _told(gradlint, "--no-cache", "engine.py") == [("engine.py", "GL501", 4)]


def test_what_comes_by_a_file_through_several_that_hand_it_on_is_told_of_it(gradlint: Command, project: Path) -> None:
    tidy = "import torch\n\n\ndef tidy(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    loop = ENGINE.replace("step()\n", "step()\n            tidy(model)\n")
    _write(project, tools=tidy, a="from tools import tidy\n", b="from a import *\n", c="from b import tidy\n")
    _write(project, train=f"import torch\nfrom c import tidy\n\n\n{loop}")
    wanted = ("train.py", "GL101", 11)
    assert wanted in _told(gradlint, "--no-cache")
    assert _told(gradlint, "--no-cache", "tools.py") == [wanted]
