"""What a change of a text is said to matter to, and that a text is read as if it were read whole."""

from __future__ import annotations

import ast
import textwrap

import pytest

from gradlint.python.source import Source, read
from gradlint.repair.change import Change, Original, Part

FILE = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(6)) + "def caller():\n    f1()\n    f2()\n"


def _change(old: str, new: str) -> Change:
    found = Original(Source.of(old)).change(new)
    assert isinstance(found, Change)
    return found


def _part(source: str, old: str, new: str) -> Part:
    source = textwrap.dedent(source)
    return _change(source, source.replace(old, new)).part()


def test_only_what_comes_by_a_change_is_looked_at() -> None:
    alone, called = _part(FILE, "return 3", "return 33"), _part(FILE, "return 1", "return 11")
    assert alone.starts == alone.names == {"f3"}
    assert called.starts == {"f1", "caller"}
    assert called.names == {"f1", "f2", "caller"}
    assert ast.unparse(alone.of(ast.parse(FILE))) == "def f3():\n    return 3"


def test_what_the_module_mentions_is_left_empty() -> None:
    part = _part(FILE + "f1()\n", "return 3", "return 33")
    assert ast.unparse(part.of(ast.parse(FILE + "f1()\n"))) == "def f1():\n    pass\n\ndef f3():\n    return 3\nf1()"


@pytest.mark.parametrize(
    ("new", "apart"),
    [
        (FILE.replace("return 3", "return 33"), True),
        ("import torch\n" + FILE.replace("return 3", "return 33"), True),
        (FILE + "f1()\n", False),
        (FILE.replace("def f3", "def g3"), False),
        (FILE.replace("    f1()\n", "").replace("    return 1\n", "    f2()\n"), True),
        (FILE.replace("    f2()\n", "    f3(), f4(), f5()\n"), False),
    ],
    ids=["a function", "beside an import", "the module", "another name", "a caller and its function", "most of it"],
)
def test_a_part_is_worth_to_be_looked_at_alone(new: str, apart: bool) -> None:
    change = _change(FILE, new)
    assert change.is_apart(change.part()) is apart


CLASS = """\
    class Trainer:
        def __init__(self):
            self.model = Net()
            self.step = 0

        def train(self, loader):
            for x in loader:
                self.one(x)

        def one(self, x):
            return self.model(x)

        def save(self):
            return 0


    class Net(Module):
        def forward(self, x):
            return self.log(x)

        def log(self, x):
            return x.log()


    def run():
        Trainer().train(loader)


    def other(trainer):
        trainer.one(0)
    """


@pytest.mark.parametrize(
    ("old", "new", "starts"),
    [
        # whoever makes an object of the class may hand it to somebody who calls any of its methods
        ("return 0", "return 1", {"save", "run"}),
        ("self.one(x)", "self.one(x + 1)", {"train", "run"}),
        ("return self.model(x)", "return self.model(x + 1)", {"one", "train", "run"}),
        # all methods work on what `__init__` makes
        ("self.step = 0", "self.step = 1", {"Trainer()", "__init__", "train", "one", "save", "run"}),
        # and on the models that it makes, whose methods are called by what they inherit
        (
            "x.log()",
            "x.log2()",
            {"Net()", "log", "forward", "model", "Trainer()", "__init__", "train", "one", "save", "run"},
        ),
    ],
)
def test_methods_are_told_apart(old: str, new: str, starts: set[str]) -> None:
    assert _part(CLASS, old, new).starts == starts


def test_only_methods_that_matter_are_left_in_a_class() -> None:
    source = textwrap.dedent(CLASS).partition("def run")[0]
    left = _part(source, "return 0", "return 1").of(ast.parse(source))
    assert [x.name for x in ast.walk(left) if isinstance(x, ast.FunctionDef)] == ["__init__", "save", "forward", "log"]


@pytest.mark.parametrize(
    ("source", "starts"),
    [
        ("def f():\n    return 0\n\nstep = f\n\ndef g():\n    step()\n", {"f", "step", "g", ""}),
        ("def f():\n    return 0\n\ndef g():\n    getattr(me, 'f')()\n", {"f", "g"}),
        (
            (
                "def f():\n    return 0\n\nclass A:\n    def g(self):\n        self.make = f\n\n"
                "    def h(self):\n        self.make()\n"
            ),
            {"f", "g", "make", "h"},
        ),
        ("def g():\n    @hook\n    def f():\n        return 0\n\ndef h():\n    g()\n", {"f", "g", "h"}),
        ("def f():\n    global n\n    n = 1\n    return 0\n\ndef g():\n    print(n)\n", {"f", "n", "g"}),
        ("if fast:\n    def f():\n        return 0\n\ndef g():\n    f()\n", {"f", "g", ""}),
        ("def f():\n    return 0\n\nfor x in f():\n    pass\n\ndef g():\n    print(x)\n", {"f", "", "x", "g"}),
    ],
)
def test_a_function_is_reached_by_other_ways_than_its_name(source: str, starts: set[str]) -> None:
    assert _part(source, "return 0", "return 1").starts == starts


def test_who_uses_what_is_imported_comes_by_the_import() -> None:
    source = "from a import old as clip\n\ndef f():\n    clip()\n\ndef g():\n    pass\n"
    assert _part(source, "old", "new").starts == {"", "clip", "f"}


@pytest.mark.parametrize(
    "new",
    [
        FILE.replace("return 3", "return 33"),
        FILE.replace("    return 5\n\n\n", "    return 5\n    f1()\n"),
        FILE.replace("    return 5\n\n\n", '    return """5\n\n\n') + '"""\n',
        FILE.replace("def f3", "@cache\ndef f3"),
        FILE.replace("def f3():\n    return 3\n\n\n", ""),
        "import torch\n" + FILE,
        FILE + "    f3()",
        FILE.replace("return 3", "return \\\n        3"),
        FILE.replace("return 3\n\n\n", "return 3; \\\n\n\n"),
        FILE.replace("return 3", "return 3\r\n\x0c"),
        "",
    ],
)
def test_a_text_is_read_as_if_it_were_read_whole(new: str) -> None:
    found = Original(Source.of(FILE)).change(new)
    whole = read(new.encode())
    if isinstance(whole, Source):
        assert isinstance(found, Change)
        assert ast.dump(found.source.tree) == ast.dump(whole.tree)
    else:
        assert type(found) is type(whole)


@pytest.mark.parametrize("after", ["x = 1; y = 2\nz = 3\n", "x = 0; y = 1\nz = 4\n", "x = 0\ny = 1\nz = 3\n"])
def test_statements_that_share_a_row_are_read_together(after: str) -> None:
    assert ast.dump(_change("x = 0; y = 2\nz = 3\n", after).source.tree) == ast.dump(ast.parse(after))
