"""A fix must leave every name bound before its use; what was unbound before is not held against it."""

from __future__ import annotations

import ast
import contextlib
import os
import random
import re
import sys
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gradlint.repair.bound_names import newly_unbound, possibly_unbound
from tests.sampling import evenly

ROOT = Path(__file__).resolve().parents[2]
STANDARD_LIBRARY = Path(os.path.dirname(os.__file__))


def _tree(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in other people's code
        return ast.parse(textwrap.dedent(source))


def _loop(body: str, after: str = "pass") -> str:
    """A training loop round some lines."""
    return (
        "def train(model, opt, loader, clip, log, accum):\n    for i, batch in enumerate(loader):\n"
        "        loss = model(batch)\n        boundary = (i + 1) % accum == 0\n"
        f"{textwrap.indent(textwrap.dedent(body), ' ' * 8)}\n{textwrap.indent(textwrap.dedent(after), ' ' * 4)}\n"
    )


CLIPPED = _loop("loss.backward()\nnorm = clip(model)\nopt.step()\nlog(norm)")
IMPORTED = "from torch.nn.utils import clip_grad_norm_\ndef f(model):\n    clip_grad_norm_(model, 1)\n"

FIXES = {
    "nothing changed": (CLIPPED, CLIPPED, ()),
    "clip moved before the step": (_loop("opt.step()\nnorm = clip(model)\nlog(norm)"), CLIPPED, ()),
    "clip moved under the boundary, its use not": (
        CLIPPED,
        _loop("loss.backward()\nif boundary:\n    norm = clip(model)\n    opt.step()\nlog(norm)"),
        ("norm",),
    ),
    "clip and its use moved under the boundary": (
        CLIPPED,
        _loop("loss.backward()\nif boundary:\n    norm = clip(model)\n    opt.step()\n    log(norm)"),
        (),
    ),
    "clip moved behind its use": (CLIPPED, _loop("loss.backward()\nlog(norm)\nnorm = clip(model)"), ("norm",)),
    "use moved out of the loop": (CLIPPED, _loop("norm = clip(model)", after="log(norm)"), ("norm",)),
    "binding deleted, use left": (CLIPPED, _loop("loss.backward()\nopt.step()\nlog(norm)"), ("norm",)),
    "binding deleted with its only use": (CLIPPED, _loop("loss.backward()\nopt.step()"), ()),
    "both branches bind": (
        CLIPPED,
        _loop("if boundary:\n    norm = clip(model)\nelse:\n    norm = 0.0\nlog(norm)"),
        (),
    ),
    "the other branch leaves": (CLIPPED, _loop("if not boundary:\n    continue\nnorm = clip(model)\nlog(norm)"), ()),
    "a name of another function": (
        "def train(accum):\n    pass\ndef step(opt):\n    opt.step()\n",
        "def train(accum):\n    pass\ndef step(opt):\n    (1 / accum).backward()\n    opt.step()\n",
        ("accum",),
    ),
    "a name of the module": (
        "accum = 4\ndef step(opt):\n    opt.step()\n",
        "accum = 4\ndef step(opt):\n    (1 / accum).backward()\n    opt.step()\n",
        (),
    ),
    "an import that is still needed was removed": (IMPORTED, IMPORTED.partition("\n")[2], ("clip_grad_norm_",)),
    "an import became too narrow": (
        "import torch\nfor p in torch.ones(2):\n    torch.save(p)\n",
        "from torch import ones\nfor p in ones(2):\n    torch.save(p)\n",
        ("torch",),
    ),
    "an import is missing": ("def f(m):\n    m.step()\n", "def f(m):\n    torch.step(m)\n", ("torch",)),
    "an import was added": ("def f(m):\n    m.step()\n", "import torch\ndef f(m):\n    torch.step(m)\n", ()),
    "an import was added too late": ("x = 1\n", "torch.manual_seed(0)\nimport torch\n", ("torch",)),
    "several names": ("a = b = 1\nuse(a, b)\n", "use(b, a, a)\na = b = 1\n", ("a", "b")),
    "a name became local": (
        "scale = 1\ndef f():\n    print(scale)\n",
        "scale = 1\ndef f():\n    print(scale)\n    scale = 2\n",
        ("scale",),
    ),
    "a binding that `nonlocal` needs was removed": (
        "def f(opt):\n    n = 0\n    def closure():\n        nonlocal n\n        n = 1\n    opt.step(closure)\n",
        "def f(opt):\n    def closure():\n        nonlocal n\n        n = 1\n    opt.step(closure)\n",
        ("n",),
    ),
    "`del` moved before a use": (_loop("log(loss)\ndel loss"), _loop("del loss\nlog(loss)"), ("loss",)),
    "a use moved out of its handler": (
        "try:\n    step()\nexcept OSError as error:\n    print(error)\n",
        "try:\n    step()\nexcept OSError as error:\n    pass\nprint(error)\n",
        ("error",),
    ),
    # -- what was so before
    "was unbound before": (_loop("log(norm)\nnorm = clip(model)"), _loop("log(norm)\nopt.step()\nnorm = 0"), ()),
    "one use more behind one that was doubtful": (
        _loop("if boundary:\n    norm = clip(model)\nlog(norm)"),
        _loop("if boundary:\n    norm = clip(model)\nlog(norm)\nlog(norm)"),
        (),
    ),
    "one doubtful use more, where the other is not passed": (
        _loop("if boundary:\n    norm = clip(model)\nif a:\n    log(norm)"),
        _loop("if boundary:\n    norm = clip(model)\nif a:\n    log(norm)\nelse:\n    log(norm)"),
        ("norm",),
    ),
    "an optimizer that one of several conditions makes": (
        "if a:\n    opt = A()\nelif b:\n    opt = B()\nsched = S(opt)\n" + _loop("opt.step()"),
        "if a:\n    opt = A()\nelif b:\n    opt = B()\nsched = S(opt)\n" + _loop("opt.zero_grad()\nopt.step()"),
        (),
    ),
    "one use less of what was unbound": ("print(lr, lr)\n", "print(lr)\n", ()),
    "unbound before in another function": (
        "def a():\n    print(lr)\ndef b():\n    pass\n",
        "def a():\n    pass\ndef b():\n    print(lr)\n",
        ("lr",),
    ),
    "unbound before in another method of that name": (
        "class A:\n    def step(self):\n        print(lr)\nclass B:\n    def step(self):\n        pass\n",
        "class A:\n    def step(self):\n        pass\nclass B:\n    def step(self):\n        print(lr)\n",
        ("lr",),
    ),
    "a function moved as a whole": (
        "def a():\n    print(lr)\ndef b():\n    pass\n",
        "def b():\n    pass\ndef a():\n    print(lr)\n",
        (),
    ),
}


@pytest.mark.parametrize(("before", "after", "expected"), FIXES.values(), ids=FIXES)
def test_a_fix(before: str, after: str, expected: tuple[str, ...]) -> None:
    compile(before, "before", "exec")
    assert newly_unbound(_tree(before), _tree(after)) == expected


#: What Python itself, or pyflakes, says of each: the scope, the name and how many uses.
UNBOUND = {
    "never bound": ("print(lr)", {("", "lr"): 1}),
    "uses are counted": ("def f():\n    print(lr, lr)\n    return lr", {(".f", "lr"): 3}),
    "module, in order": ("print(lr)\nlr = 1\nprint(lr)", {("", "lr"): 1}),
    "local, in order": ("lr = 0\ndef f():\n    print(lr)\n    lr = 1", {(".f", "lr"): 1}),
    "method": ("class A:\n    lr = 1\n    def f(self):\n        return lr", {(".A.f", "lr"): 1}),
    "lambda": ("f = lambda x: x + y", {(".<lambda>", "y"): 1}),
    "nested function": ("def f():\n    def g():\n        return y", {(".f.g", "y"): 1}),
    "default of a parameter": ("def f(x=x): return x", {("", "x"): 1}),
    "decorator": ("@compiled\ndef f(): pass", {("", "compiled"): 1}),
    "annotation of a parameter": ("def f(x: Tensor) -> Loss: pass", {("", "Loss"): 1, ("", "Tensor"): 1}),
    "a base": ("class Net(Module, metaclass=Meta): pass", {("", "Module"): 1, ("", "Meta"): 1}),
    "a class in its own body": ("class A:\n    make = A()", {(".A", "A"): 1}),
    "augmented": ("def f():\n    total += 1", {(".f", "total"): 1}),
    "annotated without a value": ("def f():\n    lr: float\n    print(lr)", {(".f", "lr"): 1}),
    "for may not run": ("def f(xs):\n    for x in xs: y = 1\n    print(x, y)", {(".f", "x"): 1, (".f", "y"): 1}),
    "a round before": ("def f(xs):\n    for x in xs:\n        print(old)\n        old = x", {(".f", "old"): 1}),
    "while may not run": ("def f(c):\n    while c():\n        y = 1\n    print(y)", {(".f", "y"): 1}),
    "break before the binding": (
        "def f(c):\n    while True:\n        if c(): break\n        y = 1\n    print(y)",
        {(".f", "y"): 1},
    ),
    "break past the loop's else": (
        "def f(c):\n    for i in c:\n        if i: break\n    else:\n        y = 1\n    print(y)",
        {(".f", "y"): 1},
    ),
    "if without else": ("def f(c):\n    if c: y = 1\n    print(y)", {(".f", "y"): 1}),
    "try may fail at once": (
        "def f(c):\n    try:\n        y = c()\n    except OSError:\n        print(y)\n    print(y)",
        {(".f", "y"): 1},  # whoever comes past the first use has the name
    ),
    "finally runs always": ("def f(c):\n    try: y = c()\n    finally: print(y)\n    print(y)", {(".f", "y"): 1}),
    "after the handler": (
        "def f(c):\n    e = 1\n    try: c()\n    except OSError as e: pass\n    print(e)",
        {(".f", "e"): 1},
    ),
    "deleted": ("def f(x):\n    del x\n    print(x)", {(".f", "x"): 1}),
    "deleted in a loop": ("def f(x, c):\n    for i in c:\n        del x\n    print(x)", {(".f", "x"): 1}),
    "deleted twice": ("def f(x):\n    del x\n    del x", {(".f", "x"): 1}),
    "short circuit": ("def f(c):\n    c and (y := 1)\n    print(y)", {(".f", "y"): 1}),
    "or": ("def f(c):\n    if c or (y := 1):\n        print(y)", {(".f", "y"): 1}),
    "conditional expression": ("def f(c):\n    (y := 1) if c else 0\n    print(y)", {(".f", "y"): 1}),
    "a comprehension's target": ("def f(xs):\n    [x for x in xs]\n    print(x)", {(".f", "x"): 1}),
    "first iterable": ("def f(): return [x for x in x]", {(".f", "x"): 1}),
    "in a comprehension, in order": ("def f(ps):\n    [p * s for p in ps]\n    s = 1", {(".f", "s"): 1}),
    "walrus in a comprehension": ("def f(xs):\n    [y := x for x in xs]\n    print(y)", {(".f", "y"): 1}),
    "a comprehension in a class": ("class A:\n    n = 2\n    xs = [n for _ in range(n)]", {(".A", "n"): 1}),
    "match may not": ("def f(c):\n    match c:\n        case [y]: pass\n    print(y)", {(".f", "y"): 1}),
    "a guard may refuse": ("def f(c):\n    match c:\n        case x if x: y = 1\n    print(y)", {(".f", "y"): 1}),
    "global is not bound": ("def f():\n    global y\n    print(y)", {(".f", "y"): 1}),
    "a class body, in order": ("class A:\n    y = x\nx = 1", {(".A", "x"): 1}),
    "only an annotation": ("from __future__ import annotations\ndef f(x: Tensor): pass", {("", "Tensor"): 1}),
}  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), UNBOUND.values(), ids=UNBOUND)
def test_a_use_that_may_be_unbound(source: str, expected: dict[tuple[str, str], int]) -> None:
    compile(source, "unbound", "exec", dont_inherit=True)
    assert possibly_unbound(_tree(source)) == Counter(expected)


#: Every use is bound, or cannot be judged: nothing may be said.
BOUND = {
    "builtins and module names": "print(__file__, __name__, __doc__)\nclass A:\n    print(__module__, __qualname__)",
    "class cell": "class A:\n    def f(self): return __class__, super()",
    "star import": "from torch import *\ndef f(): return ones(2)",
    "import": "import torch.nn as nn, os.path\nfrom torch import optim as o, save\nprint(nn, os, o, save)",
    "every parameter": "def f(a, /, b, *c, d=1, **e): return a, b, c, d, e\ng = lambda a, *b, **c: (a, b, c)",
    "module name, later": "def f(): return helper()\ndef helper(): return 1",
    "closure, later": "def f(opt):\n    opt.step(lambda: loss)\n    loss = 1",
    "global, bound elsewhere": "def f():\n    global step\n    step = 1\ndef g(): return step",
    "nonlocal": "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n    return g",
    "a branch that leaves": "def f(c):\n    if c: y = 1\n    else: raise c\n    print(y)",
    "all branches": "def f(c):\n    if c: y = 1\n    elif not c: y = 2\n    else: y = 3\n    print(y)",
    "while True": "def f(c):\n    while True:\n        y = c()\n        if y: break\n    print(y)",
    "loop else": "def f(c):\n    for y in c:\n        if y: break\n    else: return\n    print(y)",
    "condition of a loop": "def f(c):\n    while (y := c()): print(y)\n    print(y)",
    "deleted in each round": "def f(c):\n    for x in c:\n        y = x\n        del x, y",
    "optional import": "try: import apex\nexcept ImportError: apex = None\nprint(apex)",
    "try else": "def f(c):\n    try: y = c()\n    except OSError: return\n    else: z = y\n    print(y, z)",
    "finally": "def f(c):\n    try: c()\n    finally: y = 1\n    print(y)",
    "break through finally": "def f(c):\n    while True:\n        try: break\n        finally: y = 1\n    print(y)",
    "break in finally": "def f(c):\n    for i in c:\n        try: c()\n        finally: break\n    else: i = 1\n    i",
    "with": "def f(c):\n    with c() as y, y as (z, *w): v = 1\n    print(y, z, w, v)",
    "true side of and": "def f(c):\n    if c and (y := c()): print(y)",
    "false side of or": "def f(c):\n    if not c or (y := c()): return\n    print(y)",
    "assert": "def f(c):\n    assert (y := c()), y\n    print(y)",
    "assert False": "def f(c):\n    if c: y = 1\n    else: assert False\n    print(y)",
    "comprehensions": "def f(m):\n    return {k: [w for w in v if k] for k, v in m.items() for q in v if q}",
    "walrus within": "def f(xs): return [y for x in xs if (y := x)], {(z := x): z for x in xs}",
    "comprehension in a class": "class A:\n    n = range(2)\n    xs = [x for x in n]",
    "class falls back": "lr = 1\nclass A:\n    lr = lr\n    def f(self): return self.lr",
    "class in a function": "def f(lr):\n    class A:\n        lr2 = lr\n    return A",
    "captures": "def f(c):\n    match c:\n        case {'a': x, **r} | [x, *r]: c(x, r)\n        case 1 as y: c(y)",
    "match on all": "def f(c):\n    match c:\n        case 1: y = 1\n        case z: y = z\n    print(y)",
    "local annotation": "def f():\n    x: Later = 1\n    return x\nclass Later: pass",
    "late annotation": "from __future__ import annotations\ndef f(x: Later): pass\nclass Later: pass",
    "item and attribute targets": "def f(a, i):\n    a[i] = a.b = 1\n    a[i] += 1\n    a.b: int = 2\n    del a[i]",
    "builtin rebound": "print(input)\ninput = 1",
    "after the end": "def f():\n    return 1\n    print(y)\n    y = 1",
    "async": "async def f(c):\n    async with c as x:\n        async for y in x: await y\n    [z async for z in x]",
}  # fmt: skip
NEW_SYNTAX = {
    (3, 11): "def f(c):\n    try: c()\n    except* OSError as e: print(e)",
    (3, 12): (
        "def f[T: int, *A, **P](x: T = 1) -> A:\n    y: P = x\n    return T\n"
        "class Box[T](list[T]):\n    n = 1\n    def get[U](self, u: U) -> T: return T, U\n"
        "type Pair[T] = tuple[T, Later]\nclass Later: pass\nprint(Pair, f'{Box!r:>{len('a')}}')"
    ),
    (3, 13): "def f[T = int](x: T) -> T: return x",
}


@pytest.mark.parametrize("source", BOUND.values(), ids=BOUND)
def test_a_use_that_is_bound(source: str) -> None:
    compile(source, "bound", "exec", dont_inherit=True)
    assert possibly_unbound(_tree(source)) == Counter()


@pytest.mark.parametrize("version", NEW_SYNTAX, ids=str)
def test_newer_syntax(version: tuple[int, int]) -> None:
    if sys.version_info < version:
        pytest.skip("this Python cannot parse it")
    assert possibly_unbound(_tree(NEW_SYNTAX[version])) == Counter()


def test_type_parameters_end_with_their_definition() -> None:
    if sys.version_info < (3, 12):
        pytest.skip("this Python cannot parse it")
    assert possibly_unbound(_tree("def f[T](x: T): pass\nprint(T)")) == Counter({("", "T"): 1})


class _Programs:
    """Random programs, as lines in which `USE x` and `DEL x` are still to be written out."""

    def __init__(self, seed: int, tries: bool) -> None:
        self._random = random.Random(seed)
        self._tries = tries
        self.lines = self._block(3, in_loop=False)

    def _name(self) -> str:
        return self._random.choice("xyz")

    def _block(self, depth: int, in_loop: bool) -> list[str]:
        return [line for _ in range(self._random.randint(1, 4)) for line in self._statement(depth, in_loop)]

    def _nested(self, head: str, depth: int, in_loop: bool, last: str = "pass") -> list[str]:
        return [head, *(f" {line}" for line in self._block(depth - 1, in_loop)), f" {last}"]

    def _statement(self, depth: int, in_loop: bool) -> list[str]:
        pick, name = self._random.random(), self._name()
        if depth == 0 or pick < 0.55:
            jumps = ["return", "break", "continue"] if in_loop else ["return"]
            simple = [f"{name} = 1", f"USE {name}", f"DEL {name}", "boom()" if self._tries else "pass"]
            return [self._random.choice([*simple, *simple, *simple, *jumps])]
        if pick < 0.7:
            test = self._random.choice(["c()", f"c() and ({name} := c())", f"not (c() or ({name} := c()))"])
            return self._nested(f"if {test}:", depth, in_loop) + self._nested("else:", depth, in_loop)
        if pick < 0.8:
            return self._nested(f"for {name} in range(c()):", depth, True) + self._nested("else:", depth, in_loop)
        if pick < 0.85:
            # `continue` would never end: the loop is one round of another, whose jumps are its own
            return self._nested("while True:", depth, False, last="break")
        if pick < 0.9 or not self._tries:
            return ["match c():", *(f" {line}" for line in self._nested("case True:", depth, in_loop))]
        handler = self._nested(f"except ValueError as {name}:", depth, in_loop)
        return self._nested("try:", depth, in_loop) + handler + self._nested("finally:", depth, in_loop)


def _function(lines: list[str], use: str, delete: str) -> str:
    body = "\n".join(["if False: x = y = z = 0", *lines])
    body = re.sub(r"^( *)USE (\w)$", use, body, flags=re.MULTILINE)
    body = re.sub(r"^( *)DEL (\w)$", delete, body, flags=re.MULTILINE)
    return "def f(c, boom, seen):\n" + textwrap.indent(body, " ")


def _really_unbound(source: str, most: int = 500) -> tuple[set[str], bool]:
    """The names that raise when every path is run; and whether those were all the paths."""
    space: dict[str, Any] = {}
    exec(compile(source, "program", "exec", dont_inherit=True), space)
    seen: set[str] = set()
    answers: list[bool] = []
    for _ in range(most):
        asked: list[bool] = []

        def condition(answers: list[bool] = answers, asked: list[bool] = asked) -> bool:
            asked.append(answers[len(asked)] if len(asked) < len(answers) else False)
            return asked[-1]

        def boom(condition: Callable[[], bool] = condition) -> None:
            if condition():
                raise ValueError

        with contextlib.suppress(ValueError):
            space["f"](condition, boom, seen)
        while asked and asked[-1]:
            asked.pop()
        if not asked:
            return seen, True
        answers = [*asked[:-1], True]
    return seen, False


@pytest.mark.slow
@pytest.mark.parametrize("tries", [False, True])
def test_what_python_says_when_it_runs(tries: bool) -> None:
    """Every name that raises is found; and without `try`, where anything may raise anywhere, no other name is."""
    exact = 0
    for seed in range(250):
        lines = _Programs(seed, tries).lines
        found = possibly_unbound(ast.parse(_function(lines, r"\1\2", r"\1del \2")))
        caught = r"\n\1except NameError: seen.add('\2')"
        seen, complete = _really_unbound(_function(lines, r"\1try: \2" + caught, r"\1try: del \2" + caught))
        names = {name for _, name in found}
        assert seen <= names, "\n".join(lines)
        if complete and not tries:
            exact += 1
            assert seen == names, "\n".join(lines)
    assert tries or exact > 200


DEEP = {
    "sum": "x = " + " + ".join(["y"] * 900),
    "calls": "x = y" + ".add(1)" * 400,
    "elif": "if a: pass\n" + "elif a: pass\n" * 600,
    "conditional expression": "x = " + "1 if y else " * 400 + "2",
    "indented": "".join(" " * depth + "if y:\n" for depth in range(99)) + " " * 99 + "pass",
}


@pytest.mark.parametrize("source", DEEP.values(), ids=DEEP)
def test_a_deep_tree(source: str) -> None:
    try:
        tree = ast.parse(source)
    except (RecursionError, MemoryError):
        pytest.skip("this Python cannot parse it")
    assert {name for _, name in possibly_unbound(tree)} <= {"a", "y"}
    assert newly_unbound(tree, tree) == ()


def _own_files() -> Iterator[Path]:
    for folder in ("benchmarks", "examples", "fixtures", "gradlint", "rules", "tests"):
        yield from evenly(sorted((ROOT / folder).rglob("*.py")), 60)


def _library_files() -> list[Path]:
    every = [*STANDARD_LIBRARY.glob("*.py"), *STANDARD_LIBRARY.glob("[a-z]*/*.py")]
    kept = sorted(path for path in every if "test" not in str(path.relative_to(STANDARD_LIBRARY)))
    return evenly(kept, 100)


@pytest.mark.slow
@pytest.mark.parametrize("files", [_own_files, _library_files], ids=["ours", "standard library"])
def test_a_file_is_no_worse_than_itself(files: Callable[[], Iterable[Path]]) -> None:
    read = 0
    for path in files():
        try:
            tree = _tree(path.read_bytes().decode())
        except (SyntaxError, ValueError):
            continue
        read += 1
        assert newly_unbound(tree, tree) == (), path
    assert read > 80
