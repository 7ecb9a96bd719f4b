"""Which definition a dotted name means in the files of a project; nothing else of the disk is touched."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from gradlint.config.settings import Settings
from gradlint.engine import worth_reading
from gradlint.python import surroundings
from gradlint.python import syntax as s
from gradlint.python.lower import Lowering
from gradlint.python.module import Module
from gradlint.python.named import Asked
from gradlint.python.project import Project
from gradlint.python.roots import root_of


def _tree(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__in__', '/').replace('INIT', '__init__')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _meant(folder: Path, importer: str, name: str) -> str:
    """The file and the row of what a name that a file imports stands for."""
    path = folder / importer
    lowered = Lowering(ast.parse(path.read_text()))
    project = Project.on_disk([str(folder)])
    project.begin(str(path), path.read_bytes())
    project.main = Module(lowered.body, None, "", project, str(path))
    found = project.main.elsewhere(project.main.imports[name]) or project.main.of_star(name)
    if found is None:
        return "nothing"
    node = found.node if found.node is not None else found.value
    other = project.file(found.program.path)
    assert other is not None
    assert node is not None
    row = other.lowering.origin(node.node).lineno
    return f"{os.path.relpath(found.program.path, folder).replace(os.sep, '/')}:{row}"


STEP = "import torch\n\ndef step(loss):\n    loss.backward()\n"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from steps import step", "step"),
        ("from steps import step as go", "go"),
        ("from pkg.steps import step", "step"),
        ("from pkg import step", "step"),
        ("from pkg import renamed", "renamed"),
        ("from plain.steps import step", "step"),
        ("from everything import step", "step"),
    ],
)
def test_ways_to_import_a_function(tmp_path: Path, line: str, name: str) -> None:
    _tree(
        tmp_path, steps=STEP, pkg__in__steps=STEP, plain__in__steps=STEP, everything="from steps import *\n",
        pkg__in__INIT="from .steps import step, step as renamed\n", train=f"{line}\n",
    )  # fmt: skip
    found = _meant(tmp_path, "train.py", name)
    assert found.endswith("steps.py:3")
    assert found.startswith(("pkg/", "plain/")) == ("pkg" in line or "plain" in line)


def test_relative_imports_go_by_folders(tmp_path: Path) -> None:
    _tree(
        tmp_path, a__in__INIT="", a__in__steps=STEP, a__in__b__in__INIT="", a__in__train="from .steps import step",
        a__in__b__in__train="from ..steps import step", steps="def step(): ...\n",
    )  # fmt: skip
    assert _meant(tmp_path, "a/b/train.py", "step") == "a/steps.py:3"
    assert _meant(tmp_path, "a/train.py", "step") == "a/steps.py:3"


def test_a_src_folder_is_a_root(tmp_path: Path) -> None:
    _tree(tmp_path, src__in__pkg__in__INIT="", src__in__pkg__in__steps=STEP, train="from pkg.steps import step\n")
    assert _meant(tmp_path, "train.py", "step") == "src/pkg/steps.py:3"


def test_the_nearest_module_of_a_name_is_meant(tmp_path: Path) -> None:
    _tree(tmp_path, utils="def f(): ...\n", sub__in__utils="\ndef f(): ...\n", sub__in__train="from utils import f\n")
    assert _meant(tmp_path, "sub/train.py", "f") == "sub/utils.py:2"


def test_constants_and_classes_are_found(tmp_path: Path) -> None:
    _tree(tmp_path, config="N = 4\n\nclass C:\n    def m(self): ...\n", train="from config import N, C\n")
    assert _meant(tmp_path, "train.py", "N") == "config.py:1"
    assert _meant(tmp_path, "train.py", "C") == "config.py:3"


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ("", "from steps import step"),
        ("step = 1\nstep = 2\n", "from steps import step"),
        ("from train import step\n", "from steps import step"),
        ("def broken(:\n", "from steps import step"),
        ("def step(): ...\n", "from missing import step"),
        ("def step(): ...\n", "from torch import step"),
        ("def step(): ...\n", "from ..... import step"),
    ],
    ids=["no such name", "bound twice", "in a circle", "broken", "no such module", "another library", "above the disk"],
)
def test_what_cannot_be_found_is_nothing(tmp_path: Path, steps: str, line: str) -> None:
    _tree(tmp_path, steps=steps, train=f"{line}\n")
    assert _meant(tmp_path, "train.py", "step") == "nothing"


def test_every_file_that_was_asked_for_is_remembered(tmp_path: Path) -> None:
    _tree(tmp_path, steps=STEP, train="from steps import step\nfrom missing import other\n")
    project = Project.on_disk([str(tmp_path)])
    train = str(tmp_path / "train.py")
    project.begin(train, (tmp_path / "train.py").read_bytes())
    assert project.resolve("steps.step", train) is not None
    assert project.resolve("missing.other", train) is None
    assert project.probes[str(tmp_path / "steps.py")]
    assert project.probes[f"{tmp_path}{os.sep}"]  # where another file would be
    assert not project.changed
    (tmp_path / "results.txt").write_text("no module")
    assert not project.changed
    _tree(tmp_path, missing="def other(): ...\n")
    assert project.changed


@pytest.mark.parametrize("folders", ["", "pkg", "pkg/missing"])
@pytest.mark.parametrize("name", ["pkg/missing", "pkg/missing/__init__", "pkg/missing/deep"])
def test_what_is_not_there_is_missed_as_soon_as_it_comes(tmp_path: Path, name: str, folders: str) -> None:
    dotted = name.removesuffix("/__init__").replace("/", ".")
    _tree(tmp_path, train=f"from {dotted} import step\n")
    (tmp_path / folders).mkdir(parents=True, exist_ok=True)
    project = _begun(tmp_path, (tmp_path / "train.py").read_text())
    assert not project.changed
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / f"{name}.py").write_text(STEP)
    assert project.changed


def test_nothing_outside_of_the_roots_is_read(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    _tree(outside, steps=STEP)
    _tree(inside, train="from steps import step\nfrom linked import step as other\n")
    try:
        (inside / "linked.py").symlink_to(outside / "steps.py")
    except OSError:
        pytest.skip("links cannot be made here")
    assert _meant(inside, "train.py", "step") == "nothing"
    assert _meant(inside, "train.py", "other") == "nothing"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name here")
def test_a_pipe_is_no_module(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "steps.py")
    _tree(tmp_path, train="from steps import step\n")
    assert _meant(tmp_path, "train.py", "step") == "nothing"


def _begun(folder: Path, text: str) -> Project:
    _tree(folder, train=text)
    project = Project.on_disk([str(folder)])
    project.begin(str(folder / "train.py"), text.encode())
    return project


def test_enough_is_enough_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "MOST_READ", len(STEP))
    _tree(tmp_path, one=STEP, two=STEP)
    project = _begun(tmp_path, "from one import step\nfrom two import step as other\n")
    assert project.resolve("one.step", str(tmp_path / "train.py")) is not None
    assert project.resolve("two.step", str(tmp_path / "train.py")) is None
    (said,) = project.exhausted
    assert said.endswith("two.py was not read to its end: enough other files were")


def test_no_name_is_looked_for_once_there_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "MOST_READ", 100)
    long = STEP + "    x = 1\n" * 20
    _tree(tmp_path, a=long, b=STEP)
    project = _begun(tmp_path, "from a import step\nfrom b import step as other\n")
    assert [os.path.basename(path) for path in project.probes if path.endswith(".py")] == ["a.py"]
    assert project.is_empty
    assert project.exhausted


def test_a_second_name_of_what_is_read_is_known_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "MOST_READ", 100)
    long = STEP.replace("step", "long") + "    x = 1\n" * 20
    train = "from a import step\nfrom b import long\nfrom pkg import renamed\n"
    _tree(tmp_path, train=train, a=STEP, b=long, pkg__in__INIT="from a import step as renamed\n")
    assert _meant(tmp_path, "train.py", "renamed") == "a.py:3"


def test_words_of_what_is_read_are_known_unparsed(tmp_path: Path) -> None:
    _tree(tmp_path, steps=STEP + "    getattr(loss, 'data')\n    # scale\n")
    project = _begun(tmp_path, "from steps import step\n")
    assert project.has_words({"backward"})
    assert project.has_words({"data"})
    assert not project.has_words({"scale", "wards"})


def test_files_that_a_text_names_are_found_from_each_folder(tmp_path: Path) -> None:
    _tree(tmp_path, pkg__in__a="import steps\n", other__in__b="import steps\n", steps=STEP, other__in__steps=STEP)
    around = surroundings.Surroundings([str(tmp_path)])
    for path, found in (("pkg/a.py", "steps.py"), ("other/b.py", "other/steps.py")):
        asked = Asked()
        file = tmp_path / path
        assert around.named.in_text(str(file), file.read_bytes(), asked) == {str(tmp_path / found)}
        assert f"{file.parent}{os.sep}" in asked.paths  # where it would be found first


@pytest.mark.parametrize(
    ("steps", "worth"),
    [
        (STEP + "    optimizer.step()\n", True),
        ('"""loss.backward(), optimizer.step()"""\ndef step(loss): ...\n', False),
        ("def step(loss): ...\n# loss.backward()\n# optimizer.step()\n", False),
        (STEP + "    optimizer.step()\n" + "    x = 1\n" * 8_000, False),  # no analysis reads so much
    ],
)
def test_a_text_is_followed_into_files_that_train_in_code(tmp_path: Path, steps: str, worth: bool) -> None:
    _tree(tmp_path, steps=steps)
    train, text = str(tmp_path / "train.py"), b"from steps import step\nstep(model(x))\n"
    settings = Settings(project=True, root=str(tmp_path))
    assert worth_reading(text, settings, train, Project.on_disk([str(tmp_path)])) == worth


def test_nodes_of_two_files_have_different_numbers(tmp_path: Path) -> None:
    _tree(tmp_path, one=STEP, two=STEP)
    project = _begun(tmp_path, "import one, two\none.step()\ntwo.step()\n")
    one, two = (project.file(str(tmp_path / name)) for name in ("one.py", "two.py"))
    assert one is not None
    assert two is not None
    numbers = [{node.node for node in s.walk_stmts(file.lowering.body)} for file in (one, two)]
    assert numbers[0].isdisjoint(numbers[1])
    assert {project.at(n) for n in numbers[0]} == {one}


def test_the_root_of_a_project_has_a_mark(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("")
    assert root_of(str(inner), str(tmp_path)) == str(tmp_path / "a")


def test_without_a_mark_the_folder_that_we_are_in_is_the_root(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert root_of(str(inner), str(tmp_path / "a")) == str(tmp_path / "a")
    assert root_of(str(inner), str(inner)) == str(inner)
    assert root_of(str(inner), str(tmp_path / "elsewhere")) == str(inner)
    assert root_of(str(inner), str(tmp_path / "a" / "bb")) == str(inner)
