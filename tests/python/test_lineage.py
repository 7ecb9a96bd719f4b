"""Bases of bases, in Python's order as far as the file shows it."""

from __future__ import annotations

from gradlint.python.lineage import bases, lineage
from tests.paths.tracing import program


def _line(code: str, name: str) -> list[str]:
    read = program(code)
    return [cls.name for cls in lineage(read.classes[name], read)]


def test_a_base_comes_with_its_own_before_the_next_one() -> None:
    code = "class A: ...\nclass B(A): ...\nclass C: ...\nclass D(B, elsewhere.Base, C): ..."
    assert _line(code, "D") == ["D", "B", "A", "C"]


def test_each_class_comes_once() -> None:
    assert _line("class A: ...\nclass B(A): ...\nclass C(A): ...\nclass D(B, C): ...", "D") == ["D", "B", "A", "C"]


def test_a_circle_ends() -> None:
    assert _line("class A(B): ...\nclass B(A): ...", "A") == ["A", "B"]


def test_a_namesake_from_elsewhere_is_no_base() -> None:
    read = program("class Net(models.Net): ...")
    assert bases(read.classes["Net"], read) == []
