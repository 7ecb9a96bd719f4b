"""What only IPython understands is hidden, and comes back as it was."""

from __future__ import annotations

import ast

import pytest

from gradlint.documents.escapes import hide, holds_hidden

ESCAPED = [
    "%matplotlib inline",
    "!pip install torch",
    "    !nvidia-smi",
    "files = !ls *.pt",
    "took = %timeit -o step()",
    "a, b = !cat pair.txt",
    "model?",
    "torch.optim.SGD??",
    "?model",
    "pip install torch --quiet",
    "cd ..",
    "sizes: list[str] = !du -s *",
    "rows[-1] = !wc -l log.txt",
    "found[a == b] = %pwd",
    "plot(y=1); here = %pwd",
    "layers[0]?",
    "model.layers[0].weight??",
    "/print 1",
    ",print a b",
    ";print a b",
]


@pytest.mark.parametrize("line", ESCAPED)
def test_a_line_of_ipython_is_hidden_and_comes_back(line: str) -> None:
    text = f"if True:\n    x = 1\n{line}\ny = 2\n" if line[0] == " " else f"x = 1\n{line}\ny = 2\n"
    hidden = hide(text)
    assert hidden is not None
    ast.parse(hidden.text)
    assert hidden.originals
    assert len(hidden.text.splitlines()) == len(text.splitlines())
    assert hidden.restored(hidden.text) == text


PYTHON = [
    "x = (a\n     % b)\n",  # a magic only at the start of a statement
    "text = '''\n%matplotlib inline\n!ls\n'''\n",
    "ls = [1, 2]\nls[0]\n",
    "env = dict(\n    a=1,\n)\n",
    "total = 10 \\\n    % 3\n",
    "pip.main()\n",
    "print('size = %i' % n)\nprint('a' == '= %s')\n",
    "x = 1  # why = !x\ny = f'{x=!r}'\nprint('a=!b')\n",
    "x = 1  # is it so?\nif x:  # or so??\n    pass\nprint('why?')  # why?\n",
]


#: a magic may hand its cell on to another one, and Colab takes titles above it
@pytest.mark.parametrize(
    "text",
    ["%%bash\nls -la", "%%capture out\n%%bash\napt-get install x", "#@title Set up\n\n%%shell\napt-get x", "%%!\nls x",
     "%sql\nselect a from b", "%md\nIt's a title", ">>> for a in b:\n...     a", "In [3]: for a in b:\n   ...:     a"],
)  # fmt: skip
def test_cells_that_are_not_the_notebooks_python_are_left_out(text: str) -> None:
    assert hide(text) is None


@pytest.mark.parametrize(
    "text",
    ["%%capture\n%%time\nx = 1", "%sql select a from b\nx = 1", "# first\n%%time\nx = 1\n", "%%time\n# x\nx = 1"],
)
def test_cell_magics_that_run_python(text: str) -> None:
    hidden = hide(text)
    assert hidden is not None
    assert "x = 1" in hidden.text
    ast.parse(hidden.text)
    assert hidden.restored(hidden.text) == text


def test_a_comment_that_looks_like_ours_stays() -> None:
    text = "x = 1  # %hidden 7\n!ls\n"
    hidden = hide(text)
    assert hidden is not None
    assert hidden.restored(hidden.text) == text


@pytest.mark.parametrize("text", PYTHON)
def test_python_is_left_alone(text: str) -> None:
    for whole in (text, f"%magic\n{text}"):  # the second goes through every line
        hidden = hide(whole)
        assert hidden is not None
        assert hidden.text.endswith(text)


def test_commands_may_go_on_behind_a_backslash() -> None:
    text = "if True:\n    !pip install a \\\n        b \\\n  c\n    x = 1\n"
    hidden = hide(text)
    assert hidden is not None
    ast.parse(hidden.text)
    assert hidden.restored(hidden.text) == text


@pytest.mark.parametrize("magic", ["%%bash", "%%writefile train.py", "%%html", "%%cython -a", "%%unknown"])
def test_cells_of_another_language_are_none_of_ours(magic: str) -> None:
    assert hide(f"{magic}\nloss.backward()\n") is None


@pytest.mark.parametrize("magic", ["%%time", "%%capture out", "%%timeit -n 3"])
def test_cells_that_are_only_measured_are_python(magic: str) -> None:
    hidden = hide(f"{magic}\nloss.backward()\n")
    assert hidden is not None
    assert "loss.backward()" in hidden.text
    assert holds_hidden(hidden.text) == 1


def test_pieces_are_numbered_through_a_notebook() -> None:
    hidden = hide("%time x\n!ls\n", counted=5)
    assert hidden is not None
    assert "# %hidden 5\n" in hidden.text
    assert "# %hidden 6\n" in hidden.text
