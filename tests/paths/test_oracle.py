"""The oracle: one answer per question and path, and the paths next to it."""

from __future__ import annotations

import pytest

from gradlint.paths.oracle import Oracle, alternatives


def test_the_first_answer_is_the_usual_one_and_it_stays() -> None:
    oracle = Oracle()
    assert oracle.decide("fast", True)
    assert oracle.decide("fast", False), "asked again with another usual answer, it is still the same path"
    assert not oracle.decide("slow", False)
    assert oracle.asked == {"fast": True, "slow": False}


def test_a_forced_answer_wins() -> None:
    oracle = Oracle({"fast": False})
    assert not oracle.decide("fast", True)
    assert oracle.asked == {"fast": True}, "what is usual is remembered all the same"


def test_a_question_that_does_not_matter_is_not_remembered() -> None:
    oracle = Oracle()
    assert oracle.decide("verbose", True, fork=False)
    assert oracle.asked == {}


def test_a_thing_equals_one_constant_only() -> None:
    oracle = Oracle()
    assert oracle.decide_equal("mode", '"a"', True)
    assert not oracle.decide_equal("mode", '"b"', True)
    assert oracle.decide_equal("mode", '"a"', False)
    assert oracle.decide_equal("other", '"b"', True)


def test_after_a_no_the_next_constant_is_open() -> None:
    oracle = Oracle()
    assert not oracle.decide_equal("mode", '"a"', False)
    assert oracle.decide_equal("mode", '"b"', True)


def test_a_forced_equality_excludes_the_others_even_before_it_is_asked() -> None:
    oracle = Oracle({'mode == "late"': True})
    assert not oracle.decide_equal("mode", '"early"', True)
    assert oracle.decide_equal("mode", '"late"', False)


def test_alternatives_differ_by_one_decision() -> None:
    oracle = Oracle()
    oracle.decide("a", True)
    oracle.decide("b", False)
    assert alternatives(oracle, 0) == [{"a": False}, {"b": True}]


def test_alternatives_keep_what_was_forced() -> None:
    oracle = Oracle({"a": False})
    oracle.decide("a", True)
    oracle.decide("b", False)
    assert alternatives(oracle, 0) == [{"a": False, "b": True}]


def test_what_matters_to_later_events_is_tried_if_there_are_some() -> None:
    oracle = Oracle()
    oracle.decide("clip", True)
    oracle.decide("wrapped", True, since=5)
    oracle.decide_equal("mode", '"late"', False, since=7)
    assert alternatives(oracle, 4) == [{"clip": False}]
    assert alternatives(oracle, 5) == [{"clip": False}, {"wrapped": False}]
    oracle.decide("wrapped", True)
    assert alternatives(oracle, -1) == [{"clip": False}, {"wrapped": False}], "it was asked before events, too"


@pytest.mark.parametrize(
    ("known", "asked", "answer"),
    [
        ([(">", 1, True)], ("==", 1), False),
        ([(">", 1, True)], (">=", 1), True),
        ([(">", 1, True)], (">", 4), None),
        ([(">", 1, False)], ("==", 1), None),
        ([(">", 1, False), ("==", 1, True)], ("<", 2), True),
        ([("==", 1, False)], ("==", 2), None),
        ([("!=", 0, False)], (">", 0), False),
        ([], ("==", 1), None),
    ],
)
def test_what_was_answered_of_a_number_holds(
    known: list[tuple[str, float, bool]], asked: tuple[str, float], answer: bool | None
) -> None:  # fmt: skip
    oracle = Oracle()
    for op, number, yes in known:
        oracle.note("n", op, number, yes)
    assert oracle.implied("n", *asked) is answer
    assert oracle.implied("another", *asked) is None
