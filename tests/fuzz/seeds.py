"""What mutants are made of: each function and class of the fixtures by itself, and small files of every other kind."""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tests.fuzz.mutants import Input, Pool, flipped, mutated
from tests.fuzz.shapes import files_of, spread, text_of

ROOT = Path(__file__).resolve().parent.parent.parent
#: what is longer has parts of its own
_LONGEST = 700

TOML = (
    b'select = ["GL1", "clip-after-step"]\nignore = ["GL405"]\nextend-select = ["ALL"]\npreset = "strict"\n',
    b'[per-file-ignores]\n"tests/**" = ["GL"]\n"*.py" = ["GL4"]\n\n[severity]\nGL1 = "advice"\nGL405 = "error"\n',
    b'target-torch = "2.1"\nexclude = ["a/**", "*.ipynb"]\nextend-exclude = ["build"]\ninclude-markdown = true\n',
    b'fixable = ["GL1"]\nunfixable = ["GL101"]\nunsafe-fixes = true\nfix = false\nbaseline = "baseline.json"\n',
    b"[rules.clip-threshold-too-small]\nthreshold = 1.0\n[rules.deep-saturating-stack]\nlayers = 3\n",
)
PYPROJECT = (
    (
        b'[project]\nname = "a"\ndependencies = ["torch>=2.1,<3", "torchvision==0.16"]\n\n'
        b'[tool.gradlint]\nselect = ["GL1"]\n'
    ),
    (
        b'[tool.poetry.dependencies]\ntorch = { version = "^2.0", extras = ["a"] }\n\n'
        b'[tool.gradlint.severity]\nGL = "warning"\n'
    ),
)
REQUIREMENTS = (
    (
        b"torch>=2.1 # why\ntorchvision~=0.15.2; python_version > '3.9'\n"
        b"torch-geometric==2\n-r other.txt\ntorch[opt] (>=1.13)\n"
    ),
    b"torch @ https://example.org/torch-2.0.1.whl --hash=sha256:abc\ntorchaudio==2.0.*\n",
)
SETUP = (b"[options]\ninstall_requires =\n    torch>=1.12\n    torchtext<0.17\n",)
IGNORE = (
    b"# why\n*.py[co]\n!keep.py\n/build/\n**/data/**\na/*/b?.py\n[!a-c]x[[:digit:]]\n\\#x\nx\\ \n",
    b"*a*a*a*b\n**/a/**/a/\n[]-a]\n[z-a]\n!\n/\n**\n",
)  # fmt: skip


@cache
def programs() -> tuple[str, ...]:
    """The parts of the fixtures, each with the imports of its file."""
    files = [*sorted((ROOT / "fixtures").glob("*/[bg]*.py")), *sorted((ROOT / "tests" / "loops").glob("*.py"))]
    found = dict.fromkeys(part for file in files for part in _parts(file.read_text("utf-8")))
    return tuple(part for part in found if len(part) <= _LONGEST)


def _parts(text: str) -> Iterator[str]:
    lines = text.splitlines(keepends=True)
    head: list[str] = []
    for node in ast.parse(text).body:
        first = min([node.lineno, *(x.lineno for x in getattr(node, "decorator_list", ()))])
        part = "".join(lines[first - 1 : node.end_lineno])
        if isinstance(node, ast.Import | ast.ImportFrom):
            head.append(part)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.For | ast.With | ast.While):
            yield "".join(head) + part


@cache
def pool() -> Pool:
    return Pool(programs())


def seeds() -> Iterator[Input]:
    """One of each, to begin with."""
    for text in programs():
        yield Input("train.py", text.encode())
    for name, kinds in SMALL.items():
        for data in kinds:
            yield Input(name, data)


SMALL = {
    "gradlint.toml": TOML,
    "pyproject.toml": PYPROJECT,
    "requirements.txt": REQUIREMENTS,
    "setup.cfg": SETUP,
    ".gitignore": IGNORE,
}


def next_of(old: Input, rng: random.Random) -> Input:
    """A mutant of an input: mostly one of the same kind."""
    if old.name in SMALL:
        return _small(old, rng)
    if old.name != "train.py":
        return _holding(old, rng)
    if rng.random() < 0.03:
        return Input(old.name, flipped(old.data, rng))
    if rng.random() < 0.1:
        return rng.choice((_notebook, _markdown, _project))(old.data.decode("utf-8", "replace"), rng)
    text = mutated(old.data.decode("utf-8", "replace"), pool(), rng)
    encoding = "latin-1" if "coding: latin-1" in text[:80] else "utf-8"
    return Input(old.name, text.encode(encoding, "backslashreplace" if encoding == "latin-1" else "surrogatepass"))


def _holding(old: Input, rng: random.Random) -> Input:
    """Of what holds programs: the same with other bytes, or another one of its kind."""
    if rng.random() < 0.5:
        if old.name == PROJECT:
            files = files_of(old.data.decode("utf-8", "replace"))
            path = rng.choice(sorted(files))
            files[path] = mutated(files[path], pool(), rng)
            return Input(PROJECT, text_of(files).encode("utf-8", "surrogatepass"))
        return Input(old.name, flipped(old.data, rng))
    return MAKERS[old.name](mutated(rng.choice(programs()), pool(), rng), rng)


def _small(old: Input, rng: random.Random) -> Input:
    data = old.data
    if rng.random() < 0.5:
        lines = [line for other in SMALL[old.name] for line in other.splitlines(keepends=True)]
        at = rng.randrange(data.count(b"\n") + 1)
        kept = data.splitlines(keepends=True)
        kept[at : at + rng.randrange(2)] = [rng.choice(lines)]
        data = b"".join(kept)
    return Input(old.name, flipped(data, rng))


def _notebook(text: str, rng: random.Random) -> Input:
    """The program cut into cells, with what only notebooks have in between."""
    lines = text.splitlines(keepends=True)
    cuts = sorted(rng.randrange(len(lines) + 1) for _ in range(rng.randrange(4)))
    cells: list[object] = []
    for start, end in zip([0, *cuts], [*cuts, len(lines)], strict=True):
        source = lines[start:end]
        if rng.random() < 0.4:
            source = [rng.choice(_MAGICS), *source]
        written: object = source if rng.random() < 0.7 else "".join(source)
        if rng.random() < 0.03:
            written = rng.choice((None, 3, [1], {}))
        cells.append({"cell_type": rng.choices(("code", "markdown", "raw", 5), (20, 2, 1, 1))[0], "source": written})
    notebook: dict[str, object] = {"cells": cells, "nbformat": 4, "metadata": rng.choice(_METADATA)}
    made = json.dumps(notebook, indent=rng.choice((None, 1)), ensure_ascii=rng.random() < 0.5)
    return Input("train.ipynb", made.encode("utf-8", "surrogatepass"))


_MAGICS = (
    "%%time\n", "%%bash\n", "!pip install torch\n", "%matplotlib inline\n", "x = !ls\n", "?torch\n", "torch.nn??\n",
    "%%\n", "for x in y:\n    %time f()\n", "files = %sql select\n", "%%capture out\n", "!{x}\n",
    "if a:\n    !ls \\\n  -l\n", "%autoreload 2;\n", "/f 1\n", ",f a b\n", ";f a\n", "await f()\n",
    "%%writefile train.py\n", "%%writefile -a train.py\n", "%%timeit -n 1\n", "%cd x\n", "x = %time f()\n", "!!ls\n",
    "a, b = !ls {x} $y\n", "%%html\n<p>\n", "%run train.py\n", "#@title x\n", "%load_ext a\n%matplotlib\n", "\n",
    "%%time x = 1\n", "!pip install a && \\\n    b\n", "%%python\n", "# %%\n", "é = 1; ?é\n", "with x:\n    %time\n",
)  # fmt: skip
_METADATA: tuple[object, ...] = (
    {},
    {"kernelspec": {"language": "python"}},
    {"kernelspec": {"language": "R"}},
    None,
    [],
)


def _markdown(text: str, rng: random.Random) -> Input:
    fence = rng.choice(("```", "````", "~~~", "   ```", "> ```", "- ```"))
    info = rng.choice(("python", "py", "{python}", "pycon", "", "Python title='x'", "python\tx"))
    indent = rng.choice(("", "", "  ", "\t", "> "))
    body = "".join(indent + line for line in text.splitlines(keepends=True))
    made = f"# Title\n\n{fence}{info}\n{body}{rng.choice((fence, '', '``', fence + '`'))}\nText\n"
    return Input("train.md", (made * rng.choice((1, 1, 2))).encode("utf-8", "surrogatepass"))


def _project(text: str, rng: random.Random) -> Input:
    return Input(PROJECT, spread(text, rng).encode("utf-8", "surrogatepass"))


#: the name of what holds several files
PROJECT = "files"
#: for those who draw what they make an input of
MAKERS: dict[str, Callable[[str, random.Random], Input]] = {
    "train.ipynb": _notebook,
    "train.md": _markdown,
    PROJECT: _project,
}
