"""Bases of bases, in Python's order as far as the file shows it, and what objects have by their classes."""

from __future__ import annotations

import pytest

from gradlint.python import syntax as s
from gradlint.python.classes import Classes, MemberKind
from gradlint.python.module import Module
from tests.paths.tracing import program


def _class(read: Module, name: str) -> s.Class:
    """The last one of this name, wherever it stands."""
    return [stmt for stmt in read.statements() if isinstance(stmt, s.Class) and stmt.name == name][-1]


def _line(code: str, name: str) -> list[str]:
    read = program(code)
    return [cls.name for cls in Classes(read).lineage(_class(read, name))]


def test_a_base_comes_with_its_own_before_the_next_one() -> None:
    code = "class A: ...\nclass B(A): ...\nclass C: ...\nclass D(B, elsewhere.Base, C): ..."
    assert _line(code, "D") == ["D", "B", "A", "C"]


def test_each_class_comes_once() -> None:
    assert _line("class A: ...\nclass B(A): ...\nclass C(A): ...\nclass D(B, C): ...", "D") == ["D", "B", "A", "C"]


def test_a_circle_ends() -> None:
    assert _line("class A(B): ...\nclass B(A): ...", "A") == ["A", "B"]


@pytest.mark.parametrize(
    "code",
    [
        "class Base: ...\nclass Net(models.Base): ...",
        "class Net(models.Net): ...",
        "class Base: ...\ndef make(Base):\n    class Net(Base): ...",
        "class Base: ...\ndef make():\n    from elsewhere import Base\n    class Net(Base): ...",
        "def one():\n    class Base: ...\ndef other():\n    class Net(Base): ...",
    ],
)
def test_a_namesake_is_no_base(code: str) -> None:
    assert _line(code, "Net") == ["Net"]


def test_the_class_that_is_nearest_is_meant() -> None:
    code = "class Base:\n    a = 1\ndef make():\n    class Base:\n        b = 1\n    class Net(Base): ..."
    read = program(code)
    classes, net = Classes(read), _class(read, "Net")
    assert classes.member(net, "b") is not None
    assert classes.member(net, "a") is None


def test_a_class_inside_of_another_and_one_with_a_parameter() -> None:
    assert _line("class Outer:\n    class Inner: ...\nclass Net(Outer.Inner): ...", "Net") == ["Net", "Inner"]
    assert _line("class Base: ...\nclass Net(Base[int]): ...", "Net") == ["Net", "Base"]


def test_full_names_of_bases_from_elsewhere() -> None:
    read = program("from torch import nn\nclass Base(nn.Module): ...\nclass Net(Base, Mixin): ...")
    assert Classes(read).foreign(_class(read, "Net")) == {"torch.nn.Module", "Mixin"}


MEMBERS = """
class Base:
    limit = 1
    def forward(self): ...
    def train(self): ...
class Net(Base):
    @property
    def loss(self): ...
    @loss.setter
    def loss(self, value): ...
    @staticmethod
    def mean(x): ...
    @classmethod
    def make(cls): ...
    @torch.no_grad()
    def forward(self): ...
"""


@pytest.mark.parametrize(
    ("name", "kind", "owner"),
    [
        ("limit", MemberKind.VALUE, "Base"),
        ("train", MemberKind.METHOD, "Base"),
        ("forward", MemberKind.METHOD, "Net"),
        ("loss", MemberKind.PROPERTY, "Net"),
        ("mean", MemberKind.STATIC, "Net"),
        ("make", MemberKind.OF_CLASS, "Net"),
    ],
)
def test_members(name: str, kind: MemberKind, owner: str) -> None:
    read = program(MEMBERS)
    found = Classes(read).member(_class(read, "Net"), name)
    assert found is not None
    assert (found.kind, found.owner.name) == (kind, owner)


def test_what_super_finds() -> None:
    read = program(MEMBERS)
    classes, net = Classes(read), _class(read, "Net")
    found = classes.member(net, "forward", behind=net)
    assert found is not None
    assert found.owner.name == "Base"
    assert classes.member(net, "mean", behind=net) is None
