"""The same statements, cut otherwise: helpers, methods, closures, loops in loops; and programs of several files."""

from __future__ import annotations

import ast
import builtins
import copy
import random
from collections.abc import Callable

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_BUILTIN = frozenset(dir(builtins))


def _blocks(tree: ast.AST) -> list[list[ast.stmt]]:
    found = [getattr(node, name, None) for node in ast.walk(tree) for name in ("body", "orelse", "finalbody")]
    return [block for block in found if isinstance(block, list) and block] or [[ast.Pass()]]


def _names(stmts: list[ast.stmt], context: type[ast.expr_context]) -> list[str]:
    names = [node for stmt in stmts for node in ast.walk(stmt) if isinstance(node, ast.Name)]
    return list(dict.fromkeys(n.id for n in names if isinstance(n.ctx, context) and n.id not in _BUILTIN))


def _parameters(names: list[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _definition(name: str, params: list[str], body: list[ast.stmt]) -> ast.FunctionDef:
    return ast.FunctionDef(name, _parameters(params), body, [], lineno=1)


def _helper(tree: ast.Module, rng: random.Random) -> None:
    """Some statements of a block become a function, and a call of it."""
    block = rng.choice(_blocks(tree))
    at = rng.randrange(len(block))
    inside = block[at : at + rng.choice((1, 1, 2, 3))]
    name = rng.choice(("helper", "update", "train_step", "backward", "step", "inner", "_run", "closure"))
    closure = rng.random() < 0.3
    taken = [] if closure else [x for x in _names(inside, ast.Load) if x not in ("torch", name)]
    given = _names(inside, ast.Store)[:2]
    made = [copy.deepcopy(stmt) for stmt in inside]
    if given:
        values = [ast.Name(x, ast.Load()) for x in given]
        made.append(ast.Return(values[0] if len(values) == 1 else ast.Tuple([*values], ast.Load())))
    if closure and given and rng.random() < 0.5:
        made.insert(0, ast.Nonlocal(given))
    call: ast.expr = ast.Call(ast.Name(name, ast.Load()), [ast.Name(x, ast.Load()) for x in taken], [])
    stmt: ast.stmt = ast.Expr(call)
    if given:
        targets: list[ast.expr] = [ast.Name(x, ast.Store()) for x in given]
        stmt = ast.Assign([targets[0] if len(targets) == 1 else ast.Tuple(targets, ast.Store())], call, lineno=1)
    definition = _definition(name, taken, made)
    block[at : at + len(inside)] = [definition, stmt] if closure else [stmt]
    if not closure:
        tree.body.insert(rng.choice((0, len(tree.body))), definition)


class _OfObject(ast.NodeTransformer):
    """Names become attributes of `self`."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Attribute(ast.Name("self", ast.Load()), node.id, node.ctx) if node.id in self._names else node


def _trainer(tree: ast.Module, rng: random.Random) -> None:
    """A function becomes a method, and what it is given becomes what its object has."""
    functions = [node for node in tree.body if isinstance(node, _Function)]
    if not functions:
        return
    function = rng.choice(functions)
    names = [x.arg for x in function.args.args]
    kept = [x for x in names if rng.random() < 0.7]
    method = _OfObject(set(kept)).visit(copy.deepcopy(function))
    method.args = _parameters(["self", *(x for x in names if x not in kept)])
    begin = [ast.parse(f"self.{x} = {x}").body[0] for x in kept] or [ast.Pass()]
    bases: list[ast.expr] = [ast.Name(x, ast.Load()) for x in rng.choice(([], [], ["Base"], ["object"]))]
    cls = ast.ClassDef("Trainer", bases, [], [_definition("__init__", ["self", *kept], begin), method], [])
    tree.body[tree.body.index(function)] = cls


def _main(tree: ast.Module, rng: random.Random) -> None:
    """What stands in a function stands in the module, under `if __name__ == "__main__":`, or the other way round."""
    functions = [node for node in tree.body if isinstance(node, _Function)]
    if functions and rng.random() < 0.5:
        function = rng.choice(functions)
        body = [stmt for stmt in function.body if not isinstance(stmt, ast.Return)] or [ast.Pass()]
        guard = ast.parse('if __name__ == "__main__":\n    pass').body[0]
        assert isinstance(guard, ast.If)
        guard.body = body
        at = tree.body.index(function)
        tree.body[at : at + 1] = rng.choice(([guard], body))
        return
    held = [stmt for stmt in tree.body if not isinstance(stmt, ast.Import | ast.ImportFrom)]
    if held:
        tree.body = [stmt for stmt in tree.body if stmt not in held]
        tree.body += [_definition("main", rng.choice(([], ["args"], ["model", "optimizer", "loader"])), held)]


def _again(tree: ast.Module, rng: random.Random) -> None:
    """A statement several times, or all of a block twice."""
    block = rng.choice(_blocks(tree))
    at = rng.randrange(len(block))
    some = block[at : at + rng.choice((1, 1, 2, len(block)))]
    most = 60 // sum(isinstance(node, ast.stmt) for stmt in some for node in ast.walk(stmt))
    times = min(rng.choice((1, 1, 2, 8, 25)), most)
    block[at:at] = [copy.deepcopy(stmt) for _ in range(times) for stmt in some]


def _inside_out(tree: ast.Module, rng: random.Random) -> None:
    """A compound statement that stands in another one changes places with it."""
    kinds = ast.For | ast.While | ast.With | ast.If | ast.Try
    outers = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    pairs = [(outer, inner) for outer in outers for inner in outer.body if isinstance(inner, kinds)]
    if not pairs:
        return
    outer, inner = rng.choice(pairs)
    for block in _blocks(tree):
        for at, stmt in enumerate(block):
            if stmt is outer:
                outer.body[outer.body.index(inner)] = ast.Pass()
                outer.body = outer.body + inner.body
                inner.body = [outer]
                block[at] = inner
                return


def _conditional(tree: ast.Module, rng: random.Random) -> None:
    """Each of some statements under one and the same condition."""
    tests = ("full", "(i + 1) % accum == 0", "use_amp", "scaler is not None", "i == len(loader) - 1", "rank == 0")
    test = rng.choice(tests)
    block = rng.choice(_blocks(tree))
    for at, stmt in enumerate(block):
        if rng.random() < 0.4:
            guard = ast.parse(f"if {test}:\n    pass").body[0]
            assert isinstance(guard, ast.If)
            guard.body = [stmt]
            block[at] = guard


def _while(tree: ast.Module, rng: random.Random) -> None:
    """A loop over data becomes one that goes on until something is done."""
    for block in _blocks(tree):
        for at, stmt in enumerate(block):
            if isinstance(stmt, ast.For) and rng.random() < 0.5:
                target, source = ast.unparse(stmt.target), ast.unparse(stmt.iter)
                kind = rng.randrange(4)
                if kind == 0:
                    made = f"batches = iter({source})\nwhile True:\n    {target} = next(batches)"
                elif kind == 1:
                    made = f"step = 0\nwhile step < total:\n    {target} = next({source})\n    step += 1"
                elif kind == 2:
                    made = "while True:\n    try:\n        {} = next({})\n    except StopIteration:\n        break"
                    made = made.format(target, source)
                else:
                    made = f"while not done:\n    {target} = get()\n    if stop():\n        break"
                body = ast.parse(made).body
                loop = body[-1]
                assert isinstance(loop, ast.While)
                loop.body += stmt.body
                if rng.random() < 0.4:
                    loop.body += ast.parse("if step > 9:\n    break").body
                loop.orelse = stmt.orelse
                block[at : at + 1] = body
                return


#: changes of a tree
GROWTHS: tuple[Callable[[ast.Module, random.Random], None], ...] = (
    _helper, _helper, _helper, _trainer, _main, _again, _inside_out, _conditional, _while,
)  # fmt: skip


# -- several files

#: what the files of a project are called; the first is the one that is asked about
PATHS = ("train.py", "helpers.py", "pkg/__init__.py", "pkg/steps.py", "pkg/sub/deep.py", "pyproject.toml")
_MARK = "#### "


def files_of(text: str) -> dict[str, str]:
    """The files in a text that holds several of them."""
    found: dict[str, list[str]] = {PATHS[0]: []}
    path = PATHS[0]
    for line in text.split("\n"):
        if line.startswith(_MARK) and line[len(_MARK) :] in PATHS:
            path = line[len(_MARK) :]
            found.setdefault(path, [])
        else:
            found[path].append(line)
    return {path: "\n".join(lines) for path, lines in found.items()}


def text_of(files: dict[str, str]) -> str:
    return "\n".join(f"{_MARK}{path}\n{text}" for path, text in files.items())


#: how other files get at a name
_IMPORTS = {
    "helpers.py": (
        "from helpers import {0}", "from helpers import *", "import helpers\n{0} = helpers.{0}",
        "from .helpers import {0}", "import helpers as h\n{0} = h.{0}",
    ),
    "pkg/__init__.py": (
        "from pkg import {0}", "import pkg\n{0} = pkg.{0}", "from pkg import *", "import pkg as p\n{0} = p.{0}",
    ),
    "pkg/steps.py": (
        "from pkg.steps import {0}", "from pkg import steps\n{0} = steps.{0}", "from pkg import {0}",
        "import pkg.steps as s\n{0} = s.{0}",
    ),
    "pkg/sub/deep.py": (
        "from pkg.sub.deep import {0}", "from pkg.sub import deep\n{0} = deep.{0}", "from pkg import {0}",
    ),
}  # fmt: skip
#: what packages hand on, and files that import each other
_HANDED_ON = ("", "from .steps import *\n", "from .sub.deep import *\n", "from pkg import *\n", "import train\n")


def spread(text: str, rng: random.Random) -> str:
    """A program with some of its functions and classes in other files."""
    try:
        tree = ast.parse(text)
        for _ in range(rng.choice((1, 1, 2))):
            _helper(tree, rng)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text_of({PATHS[0]: text, PATHS[1]: text})
    imports = "".join(ast.unparse(x) + "\n" for x in tree.body if isinstance(x, ast.Import | ast.ImportFrom))
    files: dict[str, str] = {PATHS[0]: imports}
    for stmt in tree.body:
        there = rng.choice(PATHS[1:5])
        own = isinstance(stmt, ast.Import | ast.ImportFrom)
        if isinstance(stmt, _Function | ast.ClassDef) and rng.random() < 0.7:
            files[there] = files.get(there, imports) + ast.unparse(ast.fix_missing_locations(stmt)) + "\n"
            files[PATHS[0]] += rng.choice(_IMPORTS[there]).format(stmt.name) + "\n"
        elif not own:
            files[PATHS[0]] += ast.unparse(ast.fix_missing_locations(stmt)) + "\n"
    if any(path.startswith("pkg/") for path in files):
        again = rng.choice(_HANDED_ON)
        files["pkg/__init__.py"] = files.get("pkg/__init__.py", "") + again
    for path in list(files):
        if rng.random() < 0.1:
            files[path] = rng.choice(("from train import *\n", "from helpers import *\n", "import pkg\n")) + files[path]
    return text_of(files)
