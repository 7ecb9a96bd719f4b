"""The parts of a model, and whether all of them are known."""

from __future__ import annotations

import pytest

from gradlint.facts.parts import Build, Parts
from gradlint.python.scope import Scopes
from tests.paths.tracing import program

HEAD = "import torch\nimport torchvision\nfrom torch import nn\n"
ATTENTION_BY_HAND = """
class Block(nn.Module):
    def __init__(self):
        self.query = nn.Linear(4, 4)
        self.key = nn.Linear(4, 4)
model = Block()
"""


def _build(code: str) -> Build:
    scopes = Scopes(program(HEAD + code))
    return Parts(scopes).of_owner("model", [scopes.module])


def _kinds(code: str) -> list[str]:
    return [part.kind.name for part in _build(code).parts]


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("model = nn.LSTM(4, 4)", ["RECURRENT"]),
        ("model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))", ["CONVOLUTION", "BATCH_NORM"]),
        ("a = [nn.Linear(1, 1)]\na.append(nn.GRU(1, 1))\nmodel = nn.Sequential(*a)", ["PLAIN", "RECURRENT"]),
        ("model = nn.ModuleList([nn.GRU(1, 1) for _ in range(3)])", ["RECURRENT"]),
        ("model = nn.GRU(1, 1) if deep else nn.Linear(1, 1)", ["RECURRENT", "PLAIN"]),
        ("model = torchvision.models.resnet50()", ["CONVOLUTION"]),
        (ATTENTION_BY_HAND, ["ATTENTION", "PLAIN", "PLAIN"]),
    ],
)  # fmt: skip
def test_parts(code: str, kinds: list[str]) -> None:
    assert _kinds(code) == kinds


@pytest.mark.parametrize(
    ("code", "whole"),
    [
        ("model = nn.Sequential(nn.Linear(1, 1), nn.ReLU())", True),
        ("model = nn.Sequential(nn.Linear(1, 1), make())", False),
        ("class Net(nn.Module):\n    def __init__(self):\n        self.a = nn.Linear(1, 1)\nmodel = Net()", True),
        ("class Net(Other):\n    def __init__(self):\n        self.a = nn.Linear(1, 1)\nmodel = Net()", False),
    ],
)
def test_whether_all_is_known(code: str, whole: bool) -> None:
    assert _build(code).whole is whole


def test_the_models_of_a_file_are_those_that_are_no_part_of_another() -> None:
    code = """
class Part(nn.Module): ...
class Whole(nn.Module):
    def __init__(self):
        self.part = Part()
class BaseLoss(nn.Module): ...
class Focal(BaseLoss): ...
class Data: ...
"""
    scopes = Scopes(program(HEAD + code))
    assert [cls.name for cls, _ in Parts(scopes).roots()] == ["Whole"]


SHADOWED = """
class Net(nn.Module):
    def __init__(self):
        self.rnn = nn.LSTM(1, 1)
def build():
    return Net()
"""


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("model = Net()", ["RECURRENT"]),
        ("model = build()", ["RECURRENT"]),
        ("def f(Net):\n    return Net()\nmodel = f(other)", []),
        ("def f():\n    from elsewhere import Net\n    return Net()\nmodel = f()", []),
        ("def f():\n    Net = other\n    return Net()\nmodel = f()", []),
        ("model = elsewhere.Net()", []),
        ("model = helper.build()", []),
    ],
)
def test_a_namesake_is_another_class(code: str, kinds: list[str]) -> None:
    assert _kinds(SHADOWED + code) == kinds


def test_two_functions_import_one_name_from_two_modules() -> None:
    layers = "def f():\n    from torch.nn import Cell\n    return Cell()\n"
    others = "def g():\n    from elsewhere import Cell\n    return Cell()\n"
    assert _kinds(f"{layers}{others}model = f()") == ["PLAIN"]
    assert _kinds(f"{layers}{others}model = g()") == []
