"""What a call means where it stands."""

from __future__ import annotations

import pytest

from gradlint.facts.file import File
from tests.paths.tracing import program

TORCH = "torch.utils.checkpoint.checkpoint"


def _called(code: str) -> list[str]:
    """What each call means, in order."""
    return [call.name for call in File(program(code)).calls()]


@pytest.mark.parametrize(
    "code",
    [
        "import torch\ntorch.utils.checkpoint.checkpoint(f, x)",
        "import torch.utils.checkpoint as cp\ncp.checkpoint(f, x)",
        "from torch.utils import checkpoint\ncheckpoint.checkpoint(f, x)",
        "from torch.utils.checkpoint import checkpoint as ckpt\ndef run():\n    return ckpt(f, x)",
        "def run():\n    from torch.utils.checkpoint import checkpoint\n    return checkpoint(f, x)",
    ],
)
def test_imports_are_followed(code: str) -> None:
    assert _called(code) == [TORCH]


@pytest.mark.parametrize(
    "inside",
    [
        "def run(checkpoint):\n    checkpoint(f)",
        "def run():\n    checkpoint = other\n    checkpoint(f)",
        "def run():\n    for checkpoint in some:\n        checkpoint(f)",
        "def run():\n    with opened as checkpoint:\n        checkpoint(f)",
        "def run():\n    return [checkpoint(f) for checkpoint in some]",
        "def run():\n    def checkpoint(x): ...\n    checkpoint(f)",
    ],
)
def test_a_local_name_hides_the_import(inside: str) -> None:
    assert _called(f"from torch.utils.checkpoint import checkpoint\n{inside}") == [""]


def test_two_imports_of_one_name_are_not_known() -> None:
    one, other = "from torch.utils.checkpoint import checkpoint", "from deepspeed.checkpointing import checkpoint"
    assert _called(f"try:\n    {one}\nexcept ImportError:\n    {other}\ncheckpoint(f)") == [""]


def test_none_takes_nothing_from_a_name() -> None:
    code = "try:\n    from a import b\nexcept ImportError:\n    b = None\nb(x)"
    assert _called(code) == ["a.b"]


def test_a_method_does_not_see_what_its_class_binds() -> None:
    code = """
        from a import b

        class C:
            b = 1

            def method(self):
                return b(1)
    """
    assert _called(code) == ["a.b"]
