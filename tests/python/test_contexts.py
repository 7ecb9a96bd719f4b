"""What contexts and decorators switch, by the names of what they are."""

from __future__ import annotations

import pytest

from gradlint.knowledge.rows import Switch
from gradlint.python import syntax as s
from gradlint.python.contexts import switched, turns_off
from tests.paths.tracing import program


def _switched(item: str, before: str = "import torch") -> Switch | None:
    read = program(f"{before}\nwith {item}:\n    pass")
    block = read.body[-1]
    assert isinstance(block, s.With)
    return switched(block.items[0][0], read.dotted)


@pytest.mark.parametrize(
    ("item", "found"),
    [
        ("torch.no_grad()", Switch.NO_GRAD),
        ("torch.inference_mode()", Switch.NO_GRAD),
        ("torch.inference_mode(True)", Switch.NO_GRAD),
        ("torch.inference_mode(mode=False)", Switch.GRAD),
        ("torch.inference_mode(quick)", Switch.EITHER),
        ("torch.set_grad_enabled(False)", Switch.NO_GRAD),
        ("torch.set_grad_enabled(True)", Switch.GRAD),
        ("torch.set_grad_enabled(training)", Switch.EITHER),
        ("torch.enable_grad()", Switch.GRAD),
        ("torch.autocast('cuda')", Switch.AUTOCAST),
        ("torch.no_grad() if fast else torch.inference_mode()", Switch.NO_GRAD),
        ("torch.no_grad() if fast else nullcontext()", Switch.EITHER),
        ("smart_inference_mode()", Switch.NO_GRAD),
        ('timer("no_grad_probe")', None),
        ("no_grad_probe(model)", None),
        ("torch.no_grad", Switch.NO_GRAD),
        ("model.no_sync()", None),
    ],
)
def test_switched(item: str, found: Switch | None) -> None:
    assert _switched(item) is found


def test_imported_names() -> None:
    assert _switched("off()", "from torch import no_grad as off") is Switch.NO_GRAD
    assert _switched("no_grad()", "from helpers import timer as no_grad") is None


def test_one_inside_the_other() -> None:
    read = program("import torch\nwith torch.no_grad(), torch.enable_grad():\n    pass\n")
    block = read.body[-1]
    assert isinstance(block, s.With)
    items = [item for item, _ in block.items]
    assert not turns_off(items, read.dotted)
    assert turns_off(reversed(items), read.dotted)
