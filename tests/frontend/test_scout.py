"""Blanking what cannot matter: it must still parse, and nothing that stays may move."""

from __future__ import annotations

import ast
import random

import libcst
import pytest

from gradlint.frontend.scout import reduced

TRAIN = """\
def train(model, optimizer, loader):
    for batch in loader:
        optimizer.zero_grad()
        helper(model(batch)).backward()
        optimizer.step()
"""

HELPER = """\
def helper(out):
    return out.mean()
"""

#: functions that no event needs; the filler makes the file large enough to be worth cutting
BORING = {
    "plain": "def plain(a):\n    b = a\n    return b\n",
    "tabs": "def tabs(a):\n\tif a:\n\t\treturn 1\n\treturn 2\n",
    "decorated": "@cached\n@other(1)\ndef decorated(a):\n    return a\n",
    "one line": "def one_line(a): return a\n",
    "one line two statements": "def two(a): b = a; return b\n",
    "nested": "def nested(a):\n    def inner(b):\n        return b\n    return inner(a)\n",
    "nested first decorated": "def outer(a):\n    @wraps(a)\n    def inner(b):\n        return b\n    return inner\n",
    "docstring": 'def documented(a):\n    """Says\n\n  oddly indented\nthings.\n    """\n    return a\n',
    "only docstring": 'def only(a):\n    """One line."""\n',
    "long signature": "def long(\n    a,  # first\n    b: dict[str, int] = {1: 2},\n) -> None:\n    return a\n",
    "hanging body": "def hanging(\n    a,  # first\n    b): return (a +\n                b)\n",
    "comment first": "def commented(a):\n    # why\n\n    # oh why:\n    return a\n",
    "comment on header": "def header(a):  # noqa\n    return a\n",
    "string with colon": 'def colon(a="""x:\n    """, b=1): return b\n',
    "continuation": "def continued(a): \\\n    return a\n",
    "continued body": "def body(a):\n    return a + \\\n        1\n",
    "async": "async def awaited(a):\n    async with a:\n        await a\n",
    "class": "class Thing(Base):\n    size = 1\n\n    def method(self):\n        return self.size\n\n    @property\n"
    "    def other(self): return 2\n",
    "nested class": "class Out:\n    class In:\n        def method(self):\n            return 1\n",
    "form feed before": "\x0c\ndef fed(a):\n    return a\n",
    "form feed inside": "def fed_inside(a):\n    b = 1\n\x0c\n    return b\n",
    "form feed indent": "def fed_indent(a):\n\x0c    return a\n",
    "separators in a string": 'def separated(a):\n    return "a\x0b\x1c\x1d\x1e\x85\u2028\u2029b"\n',
    "unicode": "def größe(ä):\n    ö = 'é' * ä\n    return ö\n",
    "semicolons": "def semi(a):\n    b = a; c = b\n    return c;\n",
    "dedented comment": "def dedented(a):\n    b = a\n# at the margin\n    return b\n",
    "blank rows with spaces": "def spaced(a):\n    b = a\n    \n  \n    return b\n",
    "deep indent": "def deep(a):\n            return a\n",
    "generator": "def gen(a):\n    yield a\n",
    "empty body": "def empty(a):\n    ...\n",
}

FILLER = "def filler_{n}(value):\n    result = value * {n}\n    return result\n"


def _file(*pieces: str, size: int = 8_000) -> str:
    """The pieces, a training loop behind each of them, and enough filler."""
    text = "import torch\n\n\n" + "\n\n".join([*pieces, HELPER, TRAIN])
    number = 0
    while len(text) < size:
        text += "\n\n" + FILLER.format(n=number)
        number += 1
    return text


def _rows(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _check(text: str) -> str:
    """Parses before and after, keeps every row, and every kept definition where it was."""
    tree = ast.parse(text)
    result = reduced(text, tree)
    libcst.parse_module(result)
    after = ast.parse(result)
    assert len(_rows(result)) == len(_rows(text))
    before, kept = _definitions(tree), _definitions(after)
    assert set(kept) <= set(before)
    assert all(before[name] == place for name, place in kept.items())
    for name in ("train", "helper"):
        first, _, last = before[name]
        assert _rows(result)[first - 1 : last] == _rows(text)[first - 1 : last]
    return result


def _definitions(tree: ast.Module) -> dict[str, tuple[int, int, int]]:
    """First row, column and last row of every function of the module; a blanked one ends early."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = (node.end_lineno or 0) if node.name in ("train", "helper") else 0
            found[node.name] = (node.lineno, node.col_offset, last)
    return found


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("name", BORING)
def test_rows_and_columns_stay_and_it_parses(name: str, newline: str) -> None:
    _check(_file(BORING[name]).replace("\n", newline))


@pytest.mark.parametrize("name", BORING)
def test_the_last_function_may_lack_a_newline(name: str) -> None:
    _check((_file() + "\n\n" + BORING[name]).rstrip("\n"))


@pytest.mark.parametrize("seed", range(40))
def test_any_mixture_parses(seed: int) -> None:
    chance = random.Random(seed)
    pieces = chance.choices(list(BORING.values()), k=chance.randint(2, 12))
    newline = chance.choice(["\n", "\r\n"])
    _check(_file(*pieces).replace("\n", newline))


@pytest.mark.parametrize("name", ["plain", "form feed before"])
def test_old_macintosh_newlines_are_rows_too(name: str) -> None:
    _check(_file(BORING[name]).replace("\n", "\r"))


def test_newlines_may_be_mixed() -> None:
    _check(_file(BORING["plain"].replace("\n", "\r\n"), BORING["nested"].replace("\n", "\r"), BORING["tabs"]))


@pytest.mark.parametrize("name", ["plain", "tabs", "decorated", "nested", "docstring", "comment on header", "async"])
def test_boring_functions_are_blanked(name: str) -> None:
    piece = BORING[name]
    body = piece.rstrip("\n").rsplit("\n", 1)[1]
    assert body not in _rows(_check(_file(piece)))


def test_columns_of_a_blanked_body_stay() -> None:
    result = _check(_file(BORING["deep indent"], BORING["tabs"]))
    assert "            pass" in _rows(result)
    assert "\tpass" in _rows(result)


def test_a_small_file_is_left_alone() -> None:
    text = BORING["plain"] + "\n\n" + TRAIN
    assert reduced(text, ast.parse(text)) == text


@pytest.mark.parametrize(
    "kept",
    [
        "def clip(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
        "def clear(model):\n    for p in model.parameters():\n        p.grad = None\n",
        "def wrap(model):\n    return DistributedDataParallel(model)\n",
        "def context(model):\n    return nullcontext()\n",
        "def caller(model):\n    return train(model, None, [])\n",
        "class Trainer:\n    def __init__(self, model):\n        self.model = model\n",
        "class Lit(LightningModule):\n    def training_step(self, batch, i):\n        return self.model(batch)\n",
    ],
    ids=["clip", "grad", "ddp", "context", "caller", "init", "training_step"],
)
def test_what_can_matter_is_kept(kept: str) -> None:
    assert kept.rstrip("\n") in _check(_file(kept))


def test_the_callees_of_a_kept_function_are_kept() -> None:
    loop = TRAIN.replace("train", "fit").replace("helper", "far")
    far = "def far(out):\n    value = out.mean()\n    return value\n"
    assert far in _check(_file(far, loop))
