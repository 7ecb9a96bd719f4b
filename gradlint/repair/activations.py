"""Exchanges activations, each in the way in which it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Site
from gradlint.repair.imports import imports, rename, uses
from gradlint.repair.nodes import NotFixable

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench

_RELU = {
    "Tanh": "ReLU", "Sigmoid": "ReLU", "tanh": "relu", "sigmoid": "relu", "tanh_": "relu_", "sigmoid_": "relu_",
}  # fmt: skip
#: where the file says for which activation it initialises
_MADE_FOR = ("calculate_gain", "nonlinearity")


def use_relu(bench: Bench, names: Sequence[Site]) -> None:
    """`nn.Tanh()` -> `nn.ReLU()`, `torch.sigmoid(x)` -> `torch.relu(x)`, `x.tanh()` -> `x.relu()`."""
    code = bench.document.source
    if any(word in code for word in _MADE_FOR):
        raise NotFixable("the weights are initialised for a certain activation")
    imported: dict[str, list[cst.Name]] = {}
    for site in names:
        node = bench.node(site)
        if isinstance(node, cst.Attribute) and node.attr.value in _RELU:
            bench.replace(node.attr, cst.Name(_RELU[node.attr.value]))
        elif isinstance(node, cst.Name):
            imported.setdefault(node.value, []).append(node)
        else:
            raise NotFixable("the activation is not written by its name")
    if len(imported) > 1:
        raise NotFixable("several imports would have to change at once")
    for local, places in imported.items():
        _exchange_imported(bench, local, places)


def _exchange_imported(bench: Bench, local: str, places: list[cst.Name]) -> None:
    """`from torch.nn import Tanh`: with all of its uses the import changes, with some of them it gets another name."""
    known = next((x for x in imports(bench) if x.local == local), None)
    old = known.dotted.rpartition(".")[2] if known is not None else ""
    if known is None or old not in _RELU:
        raise NotFixable(f"where `{local}` is imported was not found")
    new = known.dotted[: -len(old)] + _RELU[old]
    others = [x for x in uses(bench, local) if not any(x is place for place in places)]
    present = next((x.local for x in imports(bench) if x.dotted == new), None)
    if known.alias.asname is not None:
        if others:
            raise NotFixable(f"`{local}` is used for something else, too")
        rename(bench, known, _RELU[old], everywhere=True)
        return
    if present is None or not others:
        rename(bench, known, _RELU[old], everywhere=not others)
    for place in places:
        bench.replace(place, present or _RELU[old])
