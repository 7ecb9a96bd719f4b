"""What needs torch in this process is slow, if only for the import; what needs a GPU says so with the marker `cuda`."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from tests.sampling import is_quick

_TORCH = re.compile(
    r"^(?:import torch|from torch|from gradlint\.runtime import Gr|from tests\.runtime\.(?:monitored|recorded))", re.M
)


@functools.cache
def _needs_torch(module: Path) -> bool:
    return _TORCH.search(module.read_text(encoding="utf-8")) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The quick run does not even import torch."""
    quick = is_quick(config) and collection_path.suffix == ".py"
    return True if quick and _needs_torch(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and _needs_torch(item.path):
            item.add_marker(pytest.mark.slow)
    wanting = [item for item in items if item.get_closest_marker("cuda")]
    if not wanting or is_quick(wanting[0].config):  # they are slow, too
        return
    import torch

    if not torch.cuda.is_available():
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device; torch sees none here"))
