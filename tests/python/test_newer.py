"""Grammar that is newer than some Python: what is left of it stands where it stood, and is linted."""

from __future__ import annotations

import ast

import pytest

from gradlint.config import Settings
from gradlint.engine import lint
from gradlint.python.anchor import has_deep_pattern
from gradlint.python.newer import masked

LOOP = """
def train(model, optimizer, loader):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""
NEWER = {
    "type parameters": "def f[T, U: int](x: T) -> U: return g(x)\n\nclass A[T](B): pass\n",
    "over several rows": "def f[\n    T,  # why\n    *U,\n](x): return g(x)\n",
    "with a default": "class A[T = int]: pass\n",
    "a type statement": "type X = int\n",
    "a type statement over rows": "type X[T] = dict[\n    str, T\n]\n",
    "except star": "try:\n    f()\nexcept* A as e:\n    g(e)\nexcept *(B, C):\n    h()\n",
    "the same quotes inside": "x = f'{a['b']} é {c}' + f(1)\n",
    "rows in a string": "x = f'{\n    a['b']\n}'\ny = f(1)\n",
    "a long string": 'x = f"""é {\n a["""b"""]\n}\n"""\n',
    "a backslash in a string": "x = f'{f(\"\\n\")}'\n",
    "a template": "x = t'{a} b'\n",
    "except without brackets": "try:\n    f()\nexcept A, B:\n    g()\n",
}


@pytest.mark.parametrize("name", NEWER)
def test_what_is_left_stands_where_it_stood(name: str) -> None:
    text = NEWER[name]
    left = masked(text)
    assert left is not None
    ast.parse(left, feature_version=(3, 10))
    assert [len(line) for line in left.split("\n")] == [len(line) for line in text.split("\n")]
    kept = {"f(", "g(", "h(", "class A"} & {word for word in ("f(", "g(", "h(", "class A") if f" {word}" in text}
    assert all(left.index(word) == text.index(word) for word in kept if word in left)


@pytest.mark.parametrize("name", NEWER)
def test_the_rest_of_the_file_is_linted_on_every_python(name: str) -> None:
    text = f"import torch\n{NEWER[name]}{LOOP}"
    result = lint(text.encode(), "train.py", Settings())
    assert (result.crashes, result.unreadable) == ((), None)
    (found,) = result.findings
    assert found.code == "GL101"
    assert "clip_grad_norm_" in text.split("\n")[found.span.start.row - 1]
    assert found.fix is not None


def test_what_libcst_does_not_understand_is_no_newer_grammar() -> None:
    assert masked("def f(:\n") is None


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("match x:\n    case {'a': [Point(x=(1 | 2), y={'b': c})]}:\n        f(((((((1)))))))\n", False),
        ("match x:\n    case (\n        [1, *_],\n    ):\n        pass\n    case _: y = [[[[[[[1]]]]]]]\n", True),
        ("case = 1\ny = [[[[[[[1]]]]]]]\n", False),
        ("match x:\n    case (((((((1))))))):\n        pass\n", True),
        ("match x:\n    case A(\n        b=[[[\n            [[[c]]]]]]):\n        pass\n", True),
    ],
)
def test_patterns_that_libcst_would_not_come_back_from(text: str, deep: bool) -> None:
    """A list behind the pattern, in its row, counts as well: that costs a fix, and nothing else."""
    assert has_deep_pattern(text) is deep
