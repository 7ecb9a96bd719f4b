"""Our `dataclass` must do what the standard library's does: every class of both kinds is compared."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from gradlint import records


def _plain(library: Any) -> Any:
    @library.dataclass(slots=True, eq=False)
    class Base:
        node: int
        text: str | None = library.field(default=None, init=False, repr=False)

    @library.dataclass(slots=True, eq=False)
    class Plain(Base):
        name: str
        items: list[int] = library.field(default_factory=list)
        kind: str = "tuple"

    return Plain


def _frozen(library: Any) -> Any:
    @library.dataclass(frozen=True, slots=True, order=True)
    class Frozen:
        row: int
        column: int = 1

    return Frozen


@records.dataclass(frozen=True, slots=True)
class Place:
    """Can be pickled, as it is not defined inside a function."""

    row: int
    name: str = ""


both = pytest.mark.parametrize("library", [dataclasses, records])


@both
def test_fields_come_from_annotations_and_bases(library: Any) -> None:
    plain = _plain(library)
    made = plain(3, "x", kind="list")
    assert (made.node, made.text, made.name, made.items, made.kind) == (3, None, "x", [], "list")
    assert repr(made).endswith("Plain(node=3, name='x', items=[], kind='list')")
    assert plain.__match_args__ == ("node", "name", "items", "kind")


@both
def test_every_record_has_a_list_of_its_own(library: Any) -> None:
    plain = _plain(library)
    plain(1, "a").items.append(1)
    assert plain(1, "a").items == []


@both
def test_slots_leave_no_room_for_other_attributes(library: Any) -> None:
    made = _plain(library)(1, "a")
    with pytest.raises(AttributeError):
        made.nmae = "b"
    made.name = "b"
    assert made.name == "b"


@both
def test_a_wrong_call_is_refused(library: Any) -> None:
    plain = _plain(library)
    wrong: list[tuple[list[Any], dict[str, Any]]] = [([1], {}), ([1, "a"], {"text": "t"}), ([1, "a", [], "k", 5], {})]
    for args, kwargs in wrong:
        with pytest.raises(TypeError):
            plain(*args, **kwargs)


@both
def test_without_eq_records_are_equal_to_themselves_only(library: Any) -> None:
    plain = _plain(library)
    made = plain(1, "a")
    assert made == made
    assert made != plain(1, "a")
    assert hash(made) == hash(made)


@both
def test_frozen_records_compare_by_value(library: Any) -> None:
    frozen = _frozen(library)
    assert frozen(1, 2) == frozen(1, 2) != frozen(1, 3)
    assert len({frozen(1), frozen(1, 1), frozen(2)}) == 2
    assert frozen(1, 2) != (1, 2)
    assert sorted([frozen(2), frozen(1, 5), frozen(1)]) == [frozen(1), frozen(1, 5), frozen(2)]
    assert frozen(1) <= frozen(1)
    assert frozen(2) >= frozen(1, 9)
    assert frozen(2) > frozen(1)


@both
def test_frozen_records_cannot_be_changed(library: Any) -> None:
    made = _frozen(library)(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.row = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.row


@both
def test_records_that_compare_and_change_have_no_hash(library: Any) -> None:
    @library.dataclass(slots=True)
    class Changing:
        value: int

    changing: Any = Changing
    assert changing(1) == changing(1)
    with pytest.raises(TypeError):
        hash(changing(1))


@both
def test_methods_of_the_class_stay(library: Any) -> None:
    @library.dataclass(frozen=True, slots=True)
    class Site:
        node: int
        text: str

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Site) and other.node == self.node

    site: Any = Site
    assert site(1, "a") == site(1, "b")
    assert hash(site(1, "a")) == 7


@both
def test_replace(library: Any) -> None:
    frozen = _frozen(library)
    assert library.replace(frozen(1, 2), row=5) == frozen(5, 2)
    assert dataclasses.replace(frozen(1, 2), row=5) == frozen(5, 2)
    with pytest.raises(TypeError):
        library.replace(frozen(1, 2), rwo=5)


@both
def test_the_standard_library_sees_a_dataclass(library: Any) -> None:
    plain = _plain(library)
    assert [field.name for field in dataclasses.fields(plain)] == ["node", "text", "name", "items", "kind"]
    assert dataclasses.asdict(plain(1, "a"))["items"] == []


def test_frozen_records_are_pickled() -> None:
    place = Place(3, "here")
    assert pickle.loads(pickle.dumps(place)) == place
