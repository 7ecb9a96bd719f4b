"""Loops are read off the order of lines."""

from __future__ import annotations

import textwrap

from gradlint.runtime.recording import Place
from gradlint.runtime.turns import Files, Turns

FILE = "train.py"


def _walk(source: str, *steps: tuple[str, tuple[tuple[int, str, int], ...]]) -> list[tuple[int, ...]]:
    """The turns of each step: what happened, and the lines (with function and call), the innermost first."""
    turns = Turns(Files({FILE: textwrap.dedent(source).lstrip()}))
    frames = [turns.frames(tuple(Place(FILE, *place) for place in places), what) for what, places in steps]
    return [tuple(f.turn for f in turns.lasting(found)) for found in frames]


def _at(line: int, function: str = "", call: int = 1) -> tuple[tuple[int, str, int], ...]:
    return ((line, function, call),)


LOOP = """
for x in data:
    loss = model(x)
    loss.backward()
    optimizer.step()
"""


def test_an_earlier_line_begins_a_new_turn() -> None:
    walked = _walk(LOOP, ("forward", _at(2)), ("backward", _at(3)), ("step", _at(4)), ("forward", _at(2)))
    assert walked == [(0,), (0,), (0,), (1,)]


def test_the_same_at_the_same_line_begins_a_new_turn() -> None:
    assert _walk(LOOP, ("backward", _at(3)), ("backward", _at(3)), ("step", _at(4))) == [(0,), (1,), (1,)]


def test_two_things_on_one_line_are_one_turn() -> None:
    walked = _walk("for x in data:\n    loss.backward(); optimizer.step()\n", ("backward", _at(2)), ("step", _at(2)))
    assert walked == [(0,), (0,)]


def test_arguments_on_later_lines_do_not_count_as_later() -> None:
    source = """
    for x in data:
        loss = criterion(
            model(x),
            y,
        )
        loss.backward()
    """
    assert _walk(source, ("forward", _at(3)), ("criterion", _at(2)), ("backward", _at(6))) == [(0,), (0,), (0,)]


NESTED = """
for epoch in range(3):
    for x in data:
        loss.backward()
    optimizer.step()
"""


def test_inner_loops_turn_within_one_turn_of_the_outer() -> None:
    walked = _walk(
        NESTED, ("backward", _at(3)), ("backward", _at(3)), ("step", _at(4)), ("backward", _at(3)), ("step", _at(4))
    )
    assert walked == [(0, 0), (0, 1), (0,), (1, 2), (1,)]


HELPER = """
def update(loss):
    loss.backward()
    optimizer.step()

for x in data:
    update(model(x))
"""


def test_each_call_of_a_helper_is_a_turn_of_the_loop_that_calls_it() -> None:
    def inside(line: int, call: int) -> tuple[tuple[int, str, int], ...]:
        return ((line, "update", call), (6, "", 1))

    walked = _walk(HELPER, ("backward", inside(2, 7)), ("step", inside(3, 7)), ("backward", inside(2, 8)))
    assert walked == [(0,), (0,), (1,)]


def test_what_an_argument_does_and_what_the_call_does_are_one_turn() -> None:
    walked = _walk(
        HELPER,
        ("forward", _at(6)),
        ("backward", ((2, "update", 7), (6, "", 1))),
        ("forward", _at(6)),
    )
    assert walked[0] != walked[2]


def test_a_framework_that_calls_again_and_again_is_a_loop() -> None:
    source = "class Module:\n    def training_step(self):\n        loss.backward()\n\ntrainer.fit(Module())\n"
    first, second = (((3, "training_step", call), (5, "", 1)) for call in (7, 8))
    assert _walk(source, ("backward", first), ("backward", second)) == [(0,), (1,)]


def test_a_call_that_comes_once_is_no_loop() -> None:
    source = "def main():\n    loss.backward()\n    optimizer.step()\n\nmain()\n"
    assert _walk(source, ("backward", ((2, "main", 2), (5, "", 1))), ("step", ((3, "main", 2), (5, "", 1)))) == [(), ()]


def test_a_comprehension_is_a_part_of_its_statement() -> None:
    source = "for x in data:\n    [o.zero_grad() for o in optimizers]\n    loss.backward()\n"
    places = ((2, "<listcomp>", 3), (2, "", 1))
    assert _walk(source, (("zero", "a"), places), (("zero", "b"), places), ("backward", _at(3))) == [(0,), (0,), (0,)]  # type: ignore[arg-type]


def test_two_functions_called_on_one_line_are_one_turn() -> None:
    source = "def f():\n    a()\ndef g():\n    b()\nfor x in data:\n    print(f(), g())\n"

    def inside(line: int, function: str, call: int) -> tuple[tuple[int, str, int], ...]:
        return ((line, function, call), (6, "<module>", 1))

    walked = _walk(
        source, ("step", inside(2, "f", 2)), ("step", inside(4, "g", 3)), ("step", inside(2, "f", 4)),
        ("step", inside(4, "g", 5)),
    )  # fmt: skip
    assert walked == [(0,), (0,), (1,), (1,)]


def test_a_function_that_is_called_from_elsewhere_has_a_turn_for_each_call() -> None:
    source = "def step(x):\n    loss.backward()\n    optimizer.step()\n"
    walked = _walk(
        source, ("backward", _at(2, "step", 2)), ("step", _at(3, "step", 2)), ("backward", _at(2, "step", 3))
    )  # fmt: skip
    assert walked == [(0,), (0,), (1,)]
