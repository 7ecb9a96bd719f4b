"""Other layers in a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradlint.remedy import Remedy

if TYPE_CHECKING:
    from gradlint.events import Site
    from gradlint.rewrite.bench import Bench


def use_relu(activations: Sequence[Site]) -> Remedy:
    """In the place of these activations, by the sites of their names."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.activations import use_relu

        use_relu(bench, activations)

    return Remedy("Use ReLU between the layers", act)
