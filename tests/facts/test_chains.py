"""Chains of layers: how they grow, where they end, and which of their activations are in a row."""

from __future__ import annotations

from gradlint.facts.chains import END, FRESH, SETTING, UNKNOWN, Chains, Leaf, Tensor
from gradlint.facts.layers import Layers
from gradlint.knowledge.layers import Role
from gradlint.python.module import Module
from gradlint.python.values import Collection, Constant, Rest, Value
from gradlint.subjects import Layer

LINEAR, TANH, DROPOUT, NORM = (
    Layer(role, number, number) for number, role in enumerate((Role.AFFINE, Role.SATURATING, Role.NEUTRAL, Role.BREAK))
)


def _used(layer: Layer, place: int) -> Layer:
    return Layer(layer.role, layer.made, place)


def _run(chains: Chains, *layers: Layer, start: Value = FRESH) -> Value:
    tensor = start
    for layer in layers:
        tensor = chains.apply(layer, tensor)
    return tensor


def _counts(chains: Chains) -> list[int]:
    return [len(stack.hidden) for stack in chains.stacks()]


def test_activations_between_layers_with_weights() -> None:
    chains = Chains()
    _run(chains, LINEAR, TANH, DROPOUT, _used(LINEAR, 10), _used(TANH, 11), _used(LINEAR, 12))
    assert _counts(chains) == [2]


def test_a_norm_ends_a_chain() -> None:
    chains = Chains()
    _run(chains, LINEAR, TANH, _used(LINEAR, 10), NORM, _used(TANH, 11), _used(LINEAR, 12))
    assert _counts(chains) == [1]


def test_what_only_one_of_two_went_through_is_a_branch() -> None:
    chains = Chains()
    before = _run(chains, LINEAR)
    behind = _run(chains, TANH, _used(LINEAR, 10), start=before)
    assert chains.merge([before, behind]) == FRESH
    assert _counts(chains) == []


def test_an_activation_that_is_used_for_the_output_is_not_alone() -> None:
    chains = Chains()
    _run(chains, LINEAR, TANH, _used(LINEAR, 10))
    assert [stack.alone for stack in chains.stacks()] == [True]
    _run(chains, LINEAR, TANH, _used(LINEAR, 10), _used(TANH, 11))
    assert [stack.alone for stack in chains.stacks()] == [False]


def test_behind_two_branches() -> None:
    join = Layers(Module([])).join
    linear, dropout, row = Leaf(LINEAR), Leaf(DROPOUT), Collection
    assert join(linear, Leaf(LINEAR)) == linear
    assert join(linear, Leaf(TANH)) == END
    assert join(Constant(1), Constant(2)) == SETTING
    assert join(Constant(1), UNKNOWN) == UNKNOWN
    assert join(Tensor((LINEAR,)), UNKNOWN) == FRESH
    same = join(row([linear]), row([linear]))
    longer = join(row([linear]), row([linear, dropout]))
    assert same.signature() == row([linear]).signature()
    assert longer.signature() == row([linear, Rest(dropout)]).signature()
