"""A small syntax tree of our own: what the interpreter walks, free of tokens, comments and parser types."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gradlint.records import dataclass, field

ConstValue = int | float | str | bytes | bool | complex | None


@dataclass(slots=True, eq=False)
class Node:
    """Base; `node` is the number under which the parser's node, and so the position, is found."""

    node: int
    #: the rendered text, once somebody asked for it
    text: str | None = field(default=None, init=False, repr=False)


@dataclass(slots=True, eq=False)
class Name(Node):
    id: str


@dataclass(slots=True, eq=False)
class Attr(Node):
    base: Expr
    name: str


@dataclass(slots=True, eq=False)
class Call(Node):
    func: Expr
    args: list[Expr]
    kwargs: dict[str, Expr]
    #: `*args` or `**kwargs` hide some arguments
    starred: bool = False


@dataclass(slots=True, eq=False)
class Const(Node):
    value: ConstValue


@dataclass(slots=True, eq=False)
class Bin(Node):
    op: str
    left: Expr
    right: Expr


@dataclass(slots=True, eq=False)
class Unary(Node):
    op: str
    value: Expr


@dataclass(slots=True, eq=False)
class Compare(Node):
    op: str
    left: Expr
    right: Expr


@dataclass(slots=True, eq=False)
class Bool(Node):
    op: str
    items: list[Expr]


@dataclass(slots=True, eq=False)
class IfExp(Node):
    test: Expr
    then: Expr
    other: Expr


@dataclass(slots=True, eq=False)
class Item(Node):
    base: Expr
    index: Expr


class Display(str, enum.Enum):
    """What several values are put together in."""

    TUPLE = "tuple"
    LIST = "list"
    SET = "set"
    DICT = "dict"
    GENERATOR = "generator"
    #: the second `for` of a comprehension, and those behind it
    INNER = "inner"


@dataclass(slots=True, eq=False)
class Sequence(Node):
    """A tuple, list or set display."""

    kind: Display
    items: list[Expr]


@dataclass(slots=True, eq=False)
class Dict(Node):
    pairs: list[tuple[Expr | None, Expr]]


@dataclass(slots=True, eq=False)
class Lambda(Node):
    params: list[Param]
    body: Expr


@dataclass(slots=True, eq=False)
class Comprehension(Node):
    kind: Display
    element: Expr
    target: Expr
    iterable: Expr
    conditions: list[Expr]


@dataclass(slots=True, eq=False)
class Star(Node):
    value: Expr


@dataclass(slots=True, eq=False)
class Yield(Node):
    value: Expr | None


@dataclass(slots=True, eq=False)
class Walrus(Node):
    target: Expr
    value: Expr


@dataclass(slots=True, eq=False)
class Other(Node):
    """Anything whose value does not matter here (f-strings, slices); its parts are still visited."""

    children: list[Expr] = field(default_factory=list)
    label: str = "…"


Expr = (
    Name | Attr | Call | Const | Bin | Unary | Compare | Bool | IfExp | Item | Sequence | Dict | Lambda | Comprehension
    | Star | Yield | Walrus | Other
)  # fmt: skip


@dataclass(slots=True, eq=False)
class Param:
    name: str
    default: Expr | None = None
    annotation: Expr | None = None
    #: "" for a plain one, "*" or "**"
    star: str = ""


@dataclass(slots=True, eq=False)
class Assign(Node):
    targets: list[Expr]
    value: Expr
    annotation: Expr | None = None


@dataclass(slots=True, eq=False)
class AugAssign(Node):
    target: Expr
    op: str
    value: Expr


@dataclass(slots=True, eq=False)
class ExprStmt(Node):
    value: Expr


@dataclass(slots=True, eq=False)
class If(Node):
    test: Expr
    body: list[Stmt]
    orelse: list[Stmt]


@dataclass(slots=True, eq=False)
class For(Node):
    target: Expr
    iterable: Expr
    body: list[Stmt]
    orelse: list[Stmt]


@dataclass(slots=True, eq=False)
class While(Node):
    test: Expr
    body: list[Stmt]
    orelse: list[Stmt]


@dataclass(slots=True, eq=False)
class With(Node):
    items: list[tuple[Expr, Expr | None]]
    body: list[Stmt]


@dataclass(slots=True, eq=False)
class Try(Node):
    body: list[Stmt]
    handlers: list[tuple[Expr | None, list[Stmt]]]
    orelse: list[Stmt]
    final: list[Stmt]


@dataclass(slots=True, eq=False)
class Return(Node):
    value: Expr | None


class Leave(str, enum.Enum):
    """How a block is left before its end."""

    BREAK = "break"
    CONTINUE = "continue"
    RAISE = "raise"
    RETURN = "return"


@dataclass(slots=True, eq=False)
class Jump(Node):
    """`break`, `continue` or `raise`."""

    kind: Leave
    value: Expr | None = None


@dataclass(slots=True, eq=False)
class Def(Node):
    name: str
    params: list[Param]
    body: list[Stmt]
    decorators: list[Expr]
    generator: bool = False


@dataclass(slots=True, eq=False)
class Class(Node):
    name: str
    bases: list[Expr]
    body: list[Stmt]
    decorators: list[Expr]
    #: the names that it annotates, in their order: what a dataclass takes
    fields: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Import(Node):
    """Local name -> dotted name."""

    bindings: dict[str, str]
    #: `from x import *`
    star_from: str = ""


@dataclass(slots=True, eq=False)
class Delete(Node):
    targets: list[Expr]


@dataclass(slots=True, eq=False)
class Scope(Node):
    """`global` and `nonlocal`."""

    names: list[str]


Stmt = (
    Assign | AugAssign | ExprStmt | If | For | While | With | Try | Return | Jump | Def | Class | Import | Delete
    | Scope
)  # fmt: skip


def render(expr: Expr | None) -> str:
    """The expression as one line of source, for messages and as the identity of conditions."""
    if expr is None:
        return ""
    if expr.text is None:
        expr.text = _render(expr)
    return expr.text


def constant_text(value: ConstValue) -> str:
    return repr(value) if not isinstance(value, str) else f'"{value}"'


def _render(expr: Expr) -> str:
    match expr:
        case Name():
            return expr.id
        case Attr():
            return f"{_tight(expr.base)}.{expr.name}"
        case Call():
            args = [render(a) for a in expr.args]
            args += [f"{k}={render(v)}" for k, v in expr.kwargs.items() if not k.startswith("**")]
            return f"{_tight(expr.func)}({', '.join(args)})"
        case Const():
            return constant_text(expr.value)
        case Bin():
            level = _binding(expr)
            return f"{_inside(expr.left, level)} {expr.op} {_inside(expr.right, level + 1)}"
        case Unary():
            return f"not {_inside(expr.value, 3)}" if expr.op == "not" else f"{expr.op}{_inside(expr.value, 11)}"
        case Compare():
            return f"{_inside(expr.left, 5)} {expr.op} {_inside(expr.right, 5)}"
        case Bool():
            return f" {expr.op} ".join(_inside(i, _binding(expr) + 1) for i in expr.items)
        case IfExp():
            return f"{_inside(expr.then, 1)} if {_inside(expr.test, 1)} else {_inside(expr.other, 0)}"
        case Item():
            return f"{_tight(expr.base)}[{render(expr.index)}]"
        case _:
            return _render_rare(expr)


def _render_rare(expr: Expr) -> str:
    match expr:
        case Sequence():
            inner = ", ".join(render(i) for i in expr.items)
            left, right = {Display.LIST: ("[", "]"), Display.SET: ("{", "}")}.get(expr.kind, ("(", ")"))
            return f"{left}{inner}{right}"
        case Dict():
            return "{" + ", ".join(f"{render(k)}: {render(v)}" for k, v in expr.pairs) + "}"
        case Lambda():
            return f"lambda {', '.join(p.name for p in expr.params)}: {render(expr.body)}"
        case Comprehension():
            return f"[{render(expr.element)} for {render(expr.target)} in {render(expr.iterable)}]"
        case Star():
            return f"*{render(expr.value)}"
        case Walrus():
            return f"({render(expr.target)} := {render(expr.value)})"
        case Other():
            return expr.label
        case _:
            return "…"


_ORDER = {"or": 1, "and": 2, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "**": 12}


def _binding(expr: Expr) -> int:
    """How tightly an expression holds together, as in Python's grammar."""
    match expr:
        case Lambda() | IfExp() | Yield() | Walrus():
            return 0
        case Bool():
            return _ORDER[expr.op]
        case Unary():
            return 3 if expr.op == "not" else 11
        case Compare():
            return 4
        case Bin():
            return _ORDER.get(expr.op, 10)
        case _:
            return 14


def _inside(expr: Expr, level: int) -> str:
    """The text of an operand, in brackets if it would fall apart without."""
    text = render(expr)
    return text if _binding(expr) >= level else f"({text})"


def _tight(expr: Expr) -> str:
    return _inside(expr, 13)


def parts(expr: Expr) -> list[Expr]:
    """The direct sub-expressions."""
    getter = _PARTS.get(type(expr))
    return getter(expr) if getter is not None else []


# by type, not by match: this runs for every node of every file
_PARTS: dict[type[Node], Callable[[Any], list[Expr]]] = {
    Attr: lambda e: [e.base],
    Call: lambda e: [e.func, *e.args, *e.kwargs.values()],
    Bin: lambda e: [e.left, e.right],
    Compare: lambda e: [e.left, e.right],
    Unary: lambda e: [e.value],
    Star: lambda e: [e.value],
    Bool: lambda e: e.items,
    Sequence: lambda e: e.items,
    IfExp: lambda e: [e.test, e.then, e.other],
    Item: lambda e: [e.base, e.index],
    Dict: lambda e: [part for pair in e.pairs for part in pair if part is not None],
    Lambda: lambda e: [e.body],
    Comprehension: lambda e: [e.iterable, *e.conditions, e.target, e.element],
    Yield: lambda e: [e.value] if e.value is not None else [],
    Walrus: lambda e: [e.target, e.value],
    Other: lambda e: e.children,
}


def expressions(stmt: Stmt) -> Iterable[Expr]:
    """The expressions that stand directly in a statement (not those of its inner blocks)."""
    getter = _EXPRESSIONS.get(type(stmt))
    return getter(stmt) if getter is not None else ()


def _with_expressions(stmt: With) -> list[Expr]:
    return [part for pair in stmt.items for part in pair if part is not None]


def _def_expressions(stmt: Def) -> list[Expr]:
    return [*stmt.decorators, *(p.default for p in stmt.params if p.default is not None)]


def _value(stmt: Return | Jump) -> Iterable[Expr]:
    return () if stmt.value is None else (stmt.value,)


# by type, not by match, like the parts
_EXPRESSIONS: dict[type[Node], Callable[[Any], Iterable[Expr]]] = {
    Assign: lambda x: (*x.targets, x.value),
    AugAssign: lambda x: (x.target, x.value),
    ExprStmt: lambda x: (x.value,),
    If: lambda x: (x.test,),
    While: lambda x: (x.test,),
    For: lambda x: (x.target, x.iterable),
    With: _with_expressions,
    Return: _value,
    Jump: _value,
    Def: _def_expressions,
    Class: lambda x: (*x.decorators, *x.bases),
    Delete: lambda x: x.targets,
}


def blocks(stmt: Stmt) -> Iterable[list[Stmt]]:
    """The inner blocks of a statement."""
    getter = _BLOCKS.get(type(stmt))
    return getter(stmt) if getter is not None else ()


_BLOCKS: dict[type[Node], Callable[[Any], Iterable[list[Stmt]]]] = {
    If: lambda x: (x.body, x.orelse),
    For: lambda x: (x.body, x.orelse),
    While: lambda x: (x.body, x.orelse),
    With: lambda x: (x.body,),
    Def: lambda x: (x.body,),
    Class: lambda x: (x.body,),
    Try: lambda x: (x.body, *(body for _, body in x.handlers), x.orelse, x.final),
}


def walk_expr(expr: Expr) -> Iterator[Expr]:
    """The expression and everything inside it."""
    stack: list[Expr] = [expr]
    while stack:
        current = stack.pop()
        yield current
        getter = _PARTS.get(type(current))
        if getter is not None:
            stack.extend(getter(current))


def walk_stmts(body: list[Stmt]) -> Iterator[Stmt]:
    """Every statement of a block, inner blocks and definitions included, in source order."""
    stack = [iter(body)]
    while stack:
        for stmt in stack[-1]:
            yield stmt
            inner = [block for block in blocks(stmt) if block]
            if inner:
                stack.extend(map(iter, reversed(inner)))
                break
        else:
            stack.pop()
