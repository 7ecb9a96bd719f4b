"""Large files: the places and the edits of what is found in them are those of the whole."""

from __future__ import annotations

import pytest

from gradlint.config import Settings
from gradlint.engine import fix, lint

HELPER = "def helper_{n}(a):\n    total = a + {n}\n    return total\n\n\n"
PADDING = "".join(HELPER.format(n=n) for n in range(250))
LOSS = '''class Loss:
    """What it is for."""

    @staticmethod
    def forward(x, y):
        return -(torch.log(torch.softmax(x, dim=-1)) * y).sum()


'''
SOURCE = f"import torch\n\n\n{PADDING}{LOSS}{PADDING}"


@pytest.mark.slow
def test_findings_and_edits_of_a_large_file_hold_for_the_whole_of_it() -> None:
    small = lint(f"import torch\n\n\n{LOSS}".encode(), "small.py", Settings())
    large = lint(SOURCE.encode(), "large.py", Settings())
    assert [(f.code, f.message) for f in large.findings] == [(f.code, f.message) for f in small.findings]
    assert large.findings
    row = large.findings[0].span.start.row
    assert "torch.log(" in SOURCE.splitlines()[row - 1]
    fixed = fix(SOURCE.encode(), "large.py", Settings(), unsafe=False).source.decode()
    assert fixed == SOURCE.replace("torch.log(torch.softmax(x, dim=-1))", "torch.log_softmax(x, dim=-1)")


@pytest.mark.slow
@pytest.mark.parametrize(
    "newlines",
    [("\n", "\r\n"), ("\n", "\r"), ("return total\n", "return total\r"), ("    ", "\t"), ('for."""', 'f\x85r."""')],
    ids=["windows", "old mac", "mixed", "tabs", "unicode"],
)
def test_all_kinds_of_lines_keep_their_numbers(newlines: tuple[str, str]) -> None:
    source = SOURCE.replace(*newlines)
    result = lint(source.encode(), "large.py", Settings())
    assert result.crashes == ()
    assert [f.code for f in result.findings] == ["GL605"]
    fixed = fix(source.encode(), "large.py", Settings(), unsafe=False).source.decode()
    assert fixed == source.replace("torch.log(torch.softmax(x, dim=-1))", "torch.log_softmax(x, dim=-1)")


def test_a_function_called_forward_has_no_class() -> None:
    """It was looked for by an empty name, and found everywhere, for ever."""
    filler = "".join(f"def helper_{n}(x):\n    return [x for x in range({n})]\n\n\n" for n in range(150))
    loop = "    for x in loader:\n        model(x).mean().backward()\n        optimizer.step()\n"
    source = f"def forward(x):\n    return x / 2\n\n\n{filler}def train(model, loader, optimizer):\n{loop}"
    assert [f.code for f in lint(source.encode(), "large.py", Settings()).findings] == ["GL401"]


@pytest.mark.parametrize(
    "first",
    [
        "@dataclass\n    class Config:\n        lr: float = 1.0\n",
        "@torch.enable_grad()\n    def loss_of(x):\n        return model(x).mean()\n",
        pytest.param("class Config: lr = 1.0\n", marks=pytest.mark.slow),
        pytest.param("x: int\n", marks=pytest.mark.slow),
        pytest.param("...\n", marks=pytest.mark.slow),
        '"""A string\nover two lines."""; pass\n',
    ],
)
def test_what_a_function_of_a_large_file_begins_with_costs_no_finding(first: str) -> None:
    """Once, a part of a large file was read a second time, without the first statement's decorators."""
    lines = ("optimizer.zero_grad()", "model(x).mean().backward()", "optimizer.step()", "clip_grad_norm_(params, 1.0)")
    loop = "    for x in loader:\n" + "".join(f"        {line}\n" for line in lines)
    begin = "import torch\nfrom dataclasses import dataclass\nfrom torch.nn.utils import clip_grad_norm_\n\n\n"
    train = f"def train(model, loader, optimizer, params):\n    {first}{loop}"
    source = f"{begin}{PADDING}{PADDING}{train}"
    assert len(source) > 20_000
    result = lint(source.encode(), "large.py", Settings())
    assert (result.crashes, [f.code for f in result.findings]) == ((), ["GL101"])
    assert result.findings[0].fix is not None
