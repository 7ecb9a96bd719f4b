"""Chains of layers: how they grow, where they end, and which of their activations are in a row."""

from __future__ import annotations

from gradlint.facts.stacks.wiring import END, FRESH, SETTING, UNKNOWN, Known, Leaf, Several, Value, Wiring, joined
from gradlint.knowledge.layers import Role
from gradlint.subjects import Layer

LINEAR, TANH, DROPOUT, NORM = (
    Layer(role, number, number) for number, role in enumerate((Role.AFFINE, Role.SATURATING, Role.NEUTRAL, Role.BREAK))
)


def _used(layer: Layer, place: int) -> Layer:
    return Layer(layer.role, layer.made, place)


def _run(wiring: Wiring, *layers: Layer, start: Value = FRESH) -> Value:
    tensor = start
    for layer in layers:
        tensor = wiring.apply(layer, tensor)
    return tensor


def _counts(wiring: Wiring) -> list[int]:
    return [len(stack.hidden) for stack in wiring.stacks()]


def test_activations_between_layers_with_weights() -> None:
    wiring = Wiring()
    _run(wiring, LINEAR, TANH, DROPOUT, _used(LINEAR, 10), _used(TANH, 11), _used(LINEAR, 12))
    assert _counts(wiring) == [2]


def test_a_norm_ends_a_chain() -> None:
    wiring = Wiring()
    _run(wiring, LINEAR, TANH, _used(LINEAR, 10), NORM, _used(TANH, 11), _used(LINEAR, 12))
    assert _counts(wiring) == [1]


def test_what_only_one_of_two_went_through_is_a_branch() -> None:
    wiring = Wiring()
    before = _run(wiring, LINEAR)
    behind = _run(wiring, TANH, _used(LINEAR, 10), start=before)
    assert wiring.merge([before, behind]) == FRESH
    assert _counts(wiring) == []


def test_an_activation_that_is_used_for_the_output_is_not_alone() -> None:
    wiring = Wiring()
    _run(wiring, LINEAR, TANH, _used(LINEAR, 10))
    assert [stack.alone for stack in wiring.stacks()] == [True]
    _run(wiring, LINEAR, TANH, _used(LINEAR, 10), _used(TANH, 11))
    assert [stack.alone for stack in wiring.stacks()] == [False]


def test_behind_two_branches() -> None:
    linear, dropout = Leaf(LINEAR), Leaf(DROPOUT)
    assert joined(linear, linear) == linear
    assert joined(linear, Leaf(TANH)) == END
    assert joined(Several((linear,)), Several((linear, dropout))) == Several((linear,))
    assert joined(Several((linear,)), Several((linear, Leaf(TANH)))) == Several((linear, END))
    assert joined(Known(1), Known(2)) == SETTING
    assert joined(Known(1), None) == UNKNOWN
