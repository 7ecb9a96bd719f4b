"""The small syntax tree: what the parser's tree becomes, how it is written again, and where it stands."""

from __future__ import annotations

import textwrap

import pytest

from gradlint.python import syntax as s
from gradlint.python.source import Lines
from tests.paths.tracing import lowered


def _expression(text: str) -> s.Expr:
    statement = lowered(f"x = {text}\n").body[0]
    assert isinstance(statement, s.Assign)
    return statement.value


def _kinds(body: list[s.Stmt]) -> list[str]:
    return [type(statement).__name__ for statement in body]


@pytest.mark.parametrize(
    "text",
    [
        "name",
        "a.b.c",
        "f(x, y, key=1)",
        "f()(x)",
        "3",
        "1.5",
        "True",
        "None",
        "a + b",
        "a @ b",
        "a // b",
        "a ** b",
        "-x",
        "~x",
        "not x",
        "a == b",
        "a is not None",
        "a not in b",
        "a and b and c",
        "a or b",
        "a if c else b",
        "items[0]",
        "[a, b]",
        "{1: a, b: c}",
        "lambda a, b: a",
        "[p for p in params]",
        "f(*args)",
    ],
)
def test_render_writes_it_as_it_was(text: str) -> None:
    assert s.render(_expression(text)) == text


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("'text'", '"text"'),
        ("'a' 'b'", '"ab"'),
        ("(i + 1) % n", "(i + 1) % n"),
        ("( a  +  b )", "a + b"),
        ("f(\n    a,\n    b,\n)", "f(a, b)"),
        ("(a, b)", "(a, b)"),
        ("{a, b}", "{a, b}"),
        ("0x10", "16"),
        ("1_000", "1000"),
        ("(y := f(x))", "(y := f(x))"),
        ("(a + b).c", "(a + b).c"),
        ("(not a) and b", "not a and b"),
        ("f'{a} {b}'", 'f"…"'),
        ("x[1:2]", "x[:]"),
    ],
)
def test_render_evens_out_what_does_not_matter(text: str, rendered: str) -> None:
    assert s.render(_expression(text)) == rendered


@pytest.mark.parametrize("text", ["i % n == 0", "(i + 1) % n == 0", "a + b - c", "loss / n * w"])
def test_render_adds_no_brackets_that_nobody_wrote(text: str) -> None:
    assert s.render(_expression(text)) == text


def test_render_of_nothing_is_nothing() -> None:
    assert s.render(None) == ""


@pytest.mark.parametrize("text", ["a == b == c", "a < b <= c"])
def test_a_chain_of_comparisons_is_a_conjunction(text: str) -> None:
    value = _expression(text)
    assert isinstance(value, s.Bool)
    assert value.op == "and"
    assert [type(item) for item in value.items] == [s.Compare, s.Compare]


def test_equal_operators_are_one_level() -> None:
    value = _expression("a and b and (c and d)")
    assert isinstance(value, s.Bool)
    assert [s.render(item) for item in value.items] == ["a", "b", "c", "d"]


def test_arguments_that_stars_hide_are_told() -> None:
    call = _expression("f(a, *rest, key=b, **more)")
    assert isinstance(call, s.Call)
    assert call.starred
    assert [s.render(arg) for arg in call.args] == ["a", "*rest"]
    assert [key for key in call.kwargs if not key.startswith("**")] == ["key"]


def test_every_statement_has_its_kind() -> None:
    body = lowered(
        """
        import torch
        x = y = 1
        x: int = 1
        x += 1
        f(x)
        if x: pass
        for i in x: pass
        while x: pass
        with x as y: pass
        try: pass
        except E: pass
        def f(): return
        class C: pass
        del x
        """
    ).body
    assert _kinds(body) == [
        "Import", "Assign", "Assign", "AugAssign", "ExprStmt", "If", "For", "While", "With", "Try", "Def", "Class",
        "Delete",
    ]  # fmt: skip


def test_docstrings_and_bare_constants_say_nothing() -> None:
    body = lowered('"""doc"""\n...\n"a" "b"\nx: int\npass\n').body
    assert body == []


def test_small_statements_on_one_row_are_separate() -> None:
    assert _kinds(lowered("a = 1; b(); c += 1\n").body) == ["Assign", "ExprStmt", "AugAssign"]


def test_elif_is_an_if_in_the_else() -> None:
    statement = lowered("if a:\n    f()\nelif b:\n    g()\nelse:\n    h()\n").body[0]
    assert isinstance(statement, s.If)
    inner = statement.orelse[0]
    assert isinstance(inner, s.If)
    assert s.render(inner.test) == "b"
    assert _kinds(inner.orelse) == ["ExprStmt"]


def test_match_is_a_chain_of_conditions() -> None:
    statement = lowered(
        """
        match mode:
            case "a":
                f()
            case "b" | "c":
                g()
            case _:
                h()
        """
    ).body[0]
    assert isinstance(statement, s.If)
    assert s.render(statement.test) == 'mode matches "a"'
    inner = statement.orelse[0]
    assert isinstance(inner, s.If)
    last = inner.orelse[0]
    assert isinstance(last, s.ExprStmt)
    assert s.render(last.value) == "h()"


@pytest.mark.parametrize(
    ("text", "bindings", "star"),
    [
        ("import torch", {"torch": "torch"}, ""),
        ("import torch.nn.utils", {"torch": "torch"}, ""),
        ("import torch.nn.utils as U", {"U": "torch.nn.utils"}, ""),
        ("from torch import nn, optim as o", {"nn": "torch.nn", "o": "torch.optim"}, ""),
        ("from .scaler import Scaler", {"Scaler": ".scaler.Scaler"}, ""),
        ("from . import scaler", {"scaler": ".scaler"}, ""),
        ("from torch.nn.utils import *", {}, "torch.nn.utils"),
    ],
)
def test_imports(text: str, bindings: dict[str, str], star: str) -> None:
    statement = lowered(text + "\n").body[0]
    assert isinstance(statement, s.Import)
    assert statement.bindings == bindings
    assert statement.star_from == star


def test_parameters() -> None:
    function = lowered("def f(a, /, b: int, c=1, *rest, d, e=2, **more): return a\n").body[0]
    assert isinstance(function, s.Def)
    shown = [(p.star + p.name, s.render(p.default), s.render(p.annotation)) for p in function.params]
    assert shown == [
        ("a", "", ""), ("b", "", "int"), ("c", "1", ""), ("*rest", "", ""), ("d", "", ""), ("e", "2", ""),
        ("**more", "", ""),
    ]  # fmt: skip


def test_a_yield_makes_a_generator_of_its_own_function_only() -> None:
    outer = lowered(
        """
        def outer():
            def inner():
                yield 1
            return inner
        def other():
            x = yield
        """
    ).body
    assert [statement.generator for statement in outer if isinstance(statement, s.Def)] == [False, True]
    inner = next(x for x in s.walk_stmts(outer) if isinstance(x, s.Def) and x.name == "inner")
    assert inner.generator


@pytest.mark.parametrize("text", ["async def f():\n    await g(x)\n", "def f():\n    g(x)\n"])
def test_await_is_looked_through(text: str) -> None:
    calls = [
        part
        for statement in s.walk_stmts(lowered(text).body)
        for expression in s.expressions(statement)
        for part in s.walk_expr(expression)
        if isinstance(part, s.Call)
    ]
    assert [s.render(call) for call in calls] == ["g(x)"]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("x[f(1):g(2)]", ["f(1)", "g(2)"]),
        ("f'{a(1)} {b(2):>{c(3)}}'", ["a(1)", "b(2)"]),
        ("x[a(1), b(2)]", ["a(1)", "b(2)"]),
        ("{**a(1), 'k': b(2)}", ["a(1)", "b(2)"]),
        ("[a(p) for p in b(2) if c(p)]", ["a(p)", "b(2)", "c(p)"]),
        ("[a(q) for p in b(1) for q in c(p)]", ["a(q)", "b(1)", "c(p)"]),
        ("a(*b(1), **c(2))", ["a(*b(1))", "b(1)", "c(2)"]),
        ("lambda p=a(1): b(p)", ["b(p)"]),
    ],
)
def test_no_call_is_lost_inside_an_expression(text: str, calls: list[str]) -> None:
    found = [s.render(part) for part in s.walk_expr(_expression(text)) if isinstance(part, s.Call)]
    assert sorted(found) == sorted(calls)


POSITIONS = {
    "plain": "loss.backward()\n",
    "indented": "for x in y:\n    loss.backward()\n",
    "tabs": "for x in y:\n\tif x:\n\t\tloss.backward()\n",
    "behind a semicolon": "a = 1; loss.backward()\n",
    "one-line body": "def f(): loss.backward()\n",
    "after other text": "größe = 'é😀'; loss.backward()\n",
    "crlf": "a = 1\r\nfor x in y:\r\n    loss.backward()\r\n",
    "form feed": "a = 1\n\x0c\ndef f():\n    loss.backward()\n",
    "decorated": "@deco\ndef f():\n    loss.backward()\n",
    "in a condition": "if ok and loss.backward():\n    pass\n",
    "behind a continuation": "x = 1 + \\\n    loss.backward()\n",
    "after a long string": 'x = """\n\n"""\nloss.backward()\n',
    "in a lambda": "f = lambda: loss.backward()\n",
    "nested function": "def f():\n    def g():\n        return loss.backward()\n",
}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_the_places_in_the_file(name: str) -> None:
    text = POSITIONS[name]
    lowering = lowered(text)
    call = next(
        part
        for statement in s.walk_stmts(lowering.body)
        for expression in s.expressions(statement)
        for part in s.walk_expr(expression)
        if isinstance(part, s.Call) and s.render(part) == "loss.backward()"
    )
    lines = Lines(text)
    start, end = map(lines.position, lines.stretch(lowering.origins[call.node]))
    before = text[: text.index("loss.backward()")]
    row, column = before.count("\n") + 1, len(before) - before.rfind("\n") - 1
    assert start == (row, column)
    assert end == (row, column + len("loss.backward()"))


def test_a_span_over_several_rows_ends_where_the_call_ends() -> None:
    text = "clip(\n    params,\n    1.0,\n)\n"
    lowering, lines = lowered(text), Lines(text)
    start, end = map(lines.position, lines.stretch(lowering.origins[lowering.body[0].node]))
    assert (start, end) == ((1, 0), (4, 1))


def test_walking_goes_in_source_order() -> None:
    body = lowered(
        textwrap.dedent(
            """
            a()
            try:
                b()
            except E:
                c()
            else:
                d()
            finally:
                e()
            while f():
                g()
            else:
                h()
            """
        )
    ).body
    names = [
        s.render(expression)
        for statement in s.walk_stmts(body)
        for expression in s.expressions(statement)
        if isinstance(expression, s.Call)
    ]
    assert names == ["a()", "b()", "c()", "d()", "e()", "f()", "g()", "h()"]
