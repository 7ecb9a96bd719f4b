"""Turns Python's own syntax tree into the small one, and notes which node of it each small node was made of."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from gradlint.python import syntax as s

_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
_COMPARE = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_UNARY = {ast.Not: "not", ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}


#: expressions inside each other, such as the terms of a sum: what is further inside is left out, and the file is read
DEEPEST = 600


def nested(node: ast.AST, levels: int) -> bool:
    """Whether more than so many nodes stand inside each other."""
    level = [node]
    while level and levels >= 0:
        level = [child for parent in level for child in ast.iter_child_nodes(parent)]
        levels -= 1
    return bool(level)


def pattern_text(pattern: ast.pattern) -> str:
    """A pattern as Python itself writes it, but with the quotation marks of the other rendered texts."""
    text = ast.unparse(pattern)
    return text if '"' in text else text.replace("'", '"')


_COMPREHENSIONS = {
    ast.ListComp: s.Display.LIST, ast.SetComp: s.Display.SET, ast.GeneratorExp: s.Display.GENERATOR,
    ast.DictComp: s.Display.DICT,
}  # fmt: skip


class Lowering:
    """One file's translation; the number of a small node is its place in `origins`, counted from `first`."""

    def __init__(self, module: ast.Module, known: Lowering | None = None, *, first: int = 0) -> None:
        """`known`: that of a file with some of the same statements; what was made of these is used again."""
        self.first = first
        self._generator = False
        self._depth = 0
        #: something was left out that is nested more deeply than the limit
        self.too_deep = False
        #: the node that each small node was made of; parts that have none of their own have that of the whole
        self.origins: list[ast.expr | ast.stmt | ast.pattern] = [] if known is None else [*known.origins]
        #: what was made of each statement of the module, and of how many nodes it consists
        self._made: dict[ast.stmt, tuple[s.Stmt | None, int]] = {}
        for stmt in module.body:
            begun = len(self.origins)
            made = known._made.get(stmt) if known is not None else None
            self._made[stmt] = made or (self._statement(stmt), len(self.origins) - begun)
        self.body = [lowered for lowered, _ in self._made.values() if lowered is not None]
        #: the nodes of the body
        self.size = sum(size for _, size in self._made.values())

    def origin(self, number: int) -> ast.expr | ast.stmt | ast.pattern:
        """The node that a small node was made of."""
        return self.origins[number - self.first]

    def _number(self, node: ast.expr | ast.stmt | ast.pattern) -> int:
        self.origins.append(node)
        return self.first + len(self.origins) - 1

    # -- statements

    def _block(self, body: list[ast.stmt]) -> list[s.Stmt]:
        return [lowered for stmt in body if (lowered := self._statement(stmt)) is not None]

    def _statement(self, stmt: ast.stmt) -> s.Stmt | None:
        handler = _STATEMENTS.get(type(stmt))
        return handler(self, stmt) if handler is not None else None

    def _expr_stmt(self, node: ast.Expr) -> s.Stmt | None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str | bytes | type(...)):
            return None
        return s.ExprStmt(self._number(node), self.expr(node.value))

    def _assign(self, node: ast.Assign) -> s.Stmt:
        return s.Assign(self._number(node), [self.expr(t) for t in node.targets], self.expr(node.value))

    def _ann_assign(self, node: ast.AnnAssign) -> s.Stmt | None:
        if node.value is None:
            return None
        return s.Assign(self._number(node), [self.expr(node.target)], self.expr(node.value), self.expr(node.annotation))

    def _aug_assign(self, node: ast.AugAssign) -> s.Stmt:
        return s.AugAssign(self._number(node), self.expr(node.target), _BINARY[type(node.op)], self.expr(node.value))

    def _assert(self, node: ast.Assert) -> s.Stmt:
        return s.If(self._number(node), self.expr(node.test), [], [])

    def _return(self, node: ast.Return) -> s.Stmt:
        return s.Return(self._number(node), self._maybe(node.value))

    def _break(self, node: ast.Break) -> s.Stmt:
        return s.Jump(self._number(node), s.Leave.BREAK)

    def _continue(self, node: ast.Continue) -> s.Stmt:
        return s.Jump(self._number(node), s.Leave.CONTINUE)

    def _raise(self, node: ast.Raise) -> s.Stmt:
        return s.Jump(self._number(node), s.Leave.RAISE, self._maybe(node.exc))

    def _import(self, node: ast.Import) -> s.Stmt:
        bindings = {}
        for alias in node.names:
            first = alias.name.partition(".")[0]
            bindings[alias.asname or first] = alias.name if alias.asname else first
        return s.Import(self._number(node), bindings)

    def _import_from(self, node: ast.ImportFrom) -> s.Stmt:
        base = "." * node.level + (node.module or "")
        if node.names[0].name == "*":
            return s.Import(self._number(node), {}, base)
        joint = "" if base.endswith(".") else "."
        return s.Import(self._number(node), {a.asname or a.name: f"{base}{joint}{a.name}" for a in node.names})

    def _delete(self, node: ast.Delete) -> s.Stmt:
        targets = [self.expr(t) for t in node.targets]
        if len(targets) > 1:
            targets = [s.Sequence(self._number(node), s.Display.TUPLE, targets)]
        return s.Delete(self._number(node), targets)

    def _scope(self, node: ast.Global | ast.Nonlocal) -> s.Stmt:
        return s.Scope(self._number(node), list(node.names))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> s.Stmt:
        outer, self._generator = self._generator, False
        decorators = [self.expr(d) for d in node.decorator_list]
        params = self._params(node.args)
        body = self._block(node.body)
        generator, self._generator = self._generator, outer
        return s.Def(self._number(node), node.name, params, body, decorators, generator)

    def _params(self, node: ast.arguments) -> list[s.Param]:
        plain = [*node.posonlyargs, *node.args]
        defaults: list[ast.expr | None] = [None] * (len(plain) - len(node.defaults)) + list(node.defaults)
        out = [self._param(p, d) for p, d in zip(plain, defaults, strict=True)]
        if node.vararg is not None:
            out.append(s.Param(node.vararg.arg, star="*"))
        out.extend(self._param(p, d) for p, d in zip(node.kwonlyargs, node.kw_defaults, strict=True))
        if node.kwarg is not None:
            out.append(s.Param(node.kwarg.arg, star="**"))
        return out

    def _param(self, node: ast.arg, default: ast.expr | None) -> s.Param:
        return s.Param(node.arg, self._maybe(default), self._maybe(node.annotation))

    def _class(self, node: ast.ClassDef) -> s.Stmt:
        bases = [self.expr(b) for b in (*node.bases, *(k.value for k in node.keywords))]
        decorators = [self.expr(d) for d in node.decorator_list]
        annotated = (x.target for x in node.body if isinstance(x, ast.AnnAssign))
        fields = tuple(target.id for target in annotated if isinstance(target, ast.Name))
        bases = bases[: len(node.bases)]
        return s.Class(self._number(node), node.name, bases, self._block(node.body), decorators, fields)

    def _if(self, node: ast.If) -> s.Stmt:
        test, body = self.expr(node.test), self._block(node.body)
        return s.If(self._number(node), test, body, self._block(node.orelse))

    def _for(self, node: ast.For | ast.AsyncFor) -> s.Stmt:
        target, iterable = self.expr(node.target), self.expr(node.iter)
        return s.For(self._number(node), target, iterable, self._block(node.body), self._block(node.orelse))

    def _while(self, node: ast.While) -> s.Stmt:
        number, test = self._number(node), self.expr(node.test)
        body, orelse = self._block(node.body), self._block(node.orelse)
        if body and _breaks(body[-1]) and not orelse and not any(map(_jumps, body[:-1])):
            return s.If(number, test, body[:-1], [])  # `while due: …; break`
        return s.While(number, test, body, orelse)

    def _with(self, node: ast.With | ast.AsyncWith) -> s.Stmt:
        items = [(self.expr(i.context_expr), self._maybe(i.optional_vars)) for i in node.items]
        return s.With(self._number(node), items, self._block(node.body))

    def _try(self, node: Any) -> s.Stmt:
        handlers = [(self._maybe(h.type), self._block(h.body)) for h in node.handlers]
        body = self._block(node.body)
        return s.Try(self._number(node), body, handlers, self._block(node.orelse), self._block(node.finalbody))

    def _match(self, node: ast.Match) -> s.Stmt:
        subject = self.expr(node.subject)
        chain: list[s.Stmt] = []
        for case in reversed(node.cases):
            label = pattern_text(case.pattern)
            test = s.Other(self._number(case.pattern), [subject], f"{s.render(subject)} matches {label}")
            body = self._block(case.body)
            chain = body if label == "_" else [s.If(self._number(case.pattern), test, body, chain)]
        if len(chain) == 1 and isinstance(chain[0], s.If):
            return chain[0]
        return s.If(self._number(node), s.Const(self._number(node), True), chain, [])

    # -- expressions

    def _maybe(self, node: ast.expr | None) -> s.Expr | None:
        return None if node is None else self.expr(node)

    def expr(self, node: ast.expr) -> s.Expr:
        if type(node) is ast.Name and self._depth < DEEPEST:  # nearly half of all
            self.origins.append(node)
            return s.Name(self.first + len(self.origins) - 1, node.id)
        handler = _EXPRESSIONS.get(type(node))
        if handler is None or self._depth == DEEPEST:
            self.too_deep |= handler is not None
            return s.Other(self._number(node), [], "…")
        self._depth += 1
        lowered = handler(self, node)
        self._depth -= 1
        return lowered

    def _name(self, node: ast.Name) -> s.Expr:
        return s.Name(self._number(node), node.id)

    def _attribute(self, node: ast.Attribute) -> s.Expr:
        return s.Attr(self._number(node), self.expr(node.value), node.attr)

    def _constant(self, node: ast.Constant) -> s.Expr:
        if node.value is ...:
            return s.Other(self._number(node), [], "…")
        return s.Const(self._number(node), node.value)

    def _call(self, node: ast.Call) -> s.Expr:
        args: list[s.Expr] = []
        starred = False
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                starred = True
                value = self.expr(arg.value)
                args.append(s.Star(value.node, value))
            else:
                args.append(self.expr(arg))
        kwargs: dict[str, s.Expr] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                starred = True
                kwargs[f"**{len(kwargs)}"] = self.expr(keyword.value)
            else:
                kwargs[keyword.arg] = self.expr(keyword.value)
        return s.Call(self._number(node), self.expr(node.func), args, kwargs, starred)

    def _binary(self, node: ast.BinOp) -> s.Expr:
        return s.Bin(self._number(node), _BINARY[type(node.op)], self.expr(node.left), self.expr(node.right))

    def _unary(self, node: ast.UnaryOp) -> s.Expr:
        return s.Unary(self._number(node), _UNARY[type(node.op)], self.expr(node.operand))

    def _comparison(self, node: ast.Compare) -> s.Expr:
        left = self.expr(node.left)
        links: list[s.Expr] = []
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.expr(comparator)
            links.append(s.Compare(self._number(node), _COMPARE[type(op)], left, right))
            left = right
        return links[0] if len(links) == 1 else s.Bool(self._number(node), "and", links)

    def _boolean(self, node: ast.BoolOp) -> s.Expr:
        op = "and" if isinstance(node.op, ast.And) else "or"
        items: list[s.Expr] = []
        for value in node.values:
            side = self.expr(value)
            items.extend(side.items if isinstance(side, s.Bool) and side.op == op else [side])
        return s.Bool(self._number(node), op, items)

    def _ifexp(self, node: ast.IfExp) -> s.Expr:
        return s.IfExp(self._number(node), self.expr(node.test), self.expr(node.body), self.expr(node.orelse))

    def _subscript(self, node: ast.Subscript) -> s.Expr:
        base = self.expr(node.value)
        inner = node.slice
        index: s.Expr
        if isinstance(inner, ast.Slice) or (isinstance(inner, ast.Tuple) and inner.elts):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            values: list[ast.expr | None] = []
            for part in parts:
                values.extend([part.lower, part.upper, part.step] if isinstance(part, ast.Slice) else [part])
            index = s.Other(self._number(node), [self.expr(v) for v in values if v is not None], ":")
        else:
            index = self.expr(inner)
        return s.Item(self._number(node), base, index)

    def _display(self, node: ast.Tuple | ast.List | ast.Set) -> s.Expr:
        items = [self.expr(e) for e in node.elts]
        return s.Sequence(self._number(node), s.Display(type(node).__name__.lower()), items)

    def _starred(self, node: ast.Starred) -> s.Expr:
        value = self.expr(node.value)
        return s.Star(value.node, value)

    def _dict(self, node: ast.Dict) -> s.Expr:
        pairs = [(self._maybe(k), self.expr(v)) for k, v in zip(node.keys, node.values, strict=True)]
        return s.Dict(self._number(node), pairs)

    def _lambda(self, node: ast.Lambda) -> s.Expr:
        return s.Lambda(self._number(node), self._params(node.args), self.expr(node.body))

    def _comprehension(self, node: Any) -> s.Expr:
        if isinstance(node, ast.DictComp):
            element: s.Expr = s.Sequence(
                self._number(node), s.Display.TUPLE, [self.expr(node.key), self.expr(node.value)]
            )
        else:
            element = self.expr(node.elt)
        clauses = [(self.expr(g.target), self.expr(g.iter), [self.expr(i) for i in g.ifs]) for g in node.generators]
        for target, iterable, conditions in reversed(clauses[1:]):
            element = s.Comprehension(self._number(node), s.Display.INNER, element, target, iterable, conditions)
        target, iterable, conditions = clauses[0]
        return s.Comprehension(self._number(node), _COMPREHENSIONS[type(node)], element, target, iterable, conditions)

    def _await(self, node: ast.Await) -> s.Expr:
        return self.expr(node.value)

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> s.Expr:
        self._generator = True
        return s.Yield(self._number(node), self._maybe(node.value))

    def _walrus(self, node: ast.NamedExpr) -> s.Expr:
        return s.Walrus(self._number(node), self.expr(node.target), self.expr(node.value))

    def _formatted(self, node: ast.JoinedStr) -> s.Expr:
        inner = [self.expr(p.value) for p in node.values if isinstance(p, ast.FormattedValue)]
        return s.Other(self._number(node), inner, 'f"…"')


def _breaks(stmt: s.Stmt) -> bool:
    return isinstance(stmt, s.Jump) and stmt.kind is s.Leave.BREAK


def _jumps(stmt: s.Stmt) -> bool:
    """Goes to another turn of the loop that it stands in, or leaves it."""
    if isinstance(stmt, s.Jump):
        return stmt.kind is not s.Leave.RAISE
    if isinstance(stmt, s.For | s.While | s.Def | s.Class):
        return any(map(_jumps, stmt.orelse)) if isinstance(stmt, s.For | s.While) else False
    return any(_jumps(inner) for block in s.blocks(stmt) for inner in block)


_STATEMENTS: dict[type[ast.AST], Callable[[Lowering, Any], s.Stmt | None]] = {
    ast.Expr: Lowering._expr_stmt,
    ast.Assign: Lowering._assign,
    ast.AnnAssign: Lowering._ann_assign,
    ast.AugAssign: Lowering._aug_assign,
    ast.Assert: Lowering._assert,
    ast.Return: Lowering._return,
    ast.Break: Lowering._break,
    ast.Continue: Lowering._continue,
    ast.Raise: Lowering._raise,
    ast.Import: Lowering._import,
    ast.ImportFrom: Lowering._import_from,
    ast.Delete: Lowering._delete,
    ast.Global: Lowering._scope,
    ast.Nonlocal: Lowering._scope,
    ast.FunctionDef: Lowering._function,
    ast.AsyncFunctionDef: Lowering._function,
    ast.ClassDef: Lowering._class,
    ast.If: Lowering._if,
    ast.For: Lowering._for,
    ast.AsyncFor: Lowering._for,
    ast.While: Lowering._while,
    ast.With: Lowering._with,
    ast.AsyncWith: Lowering._with,
    ast.Try: Lowering._try,
    ast.Match: Lowering._match,
}
if hasattr(ast, "TryStar"):
    _STATEMENTS[ast.TryStar] = Lowering._try

_EXPRESSIONS: dict[type[ast.AST], Callable[[Lowering, Any], s.Expr]] = {
    ast.Name: Lowering._name,
    ast.Attribute: Lowering._attribute,
    ast.Constant: Lowering._constant,
    ast.Call: Lowering._call,
    ast.BinOp: Lowering._binary,
    ast.UnaryOp: Lowering._unary,
    ast.Compare: Lowering._comparison,
    ast.BoolOp: Lowering._boolean,
    ast.IfExp: Lowering._ifexp,
    ast.Subscript: Lowering._subscript,
    ast.Tuple: Lowering._display,
    ast.List: Lowering._display,
    ast.Set: Lowering._display,
    ast.Starred: Lowering._starred,
    ast.Dict: Lowering._dict,
    ast.Lambda: Lowering._lambda,
    ast.ListComp: Lowering._comprehension,
    ast.SetComp: Lowering._comprehension,
    ast.GeneratorExp: Lowering._comprehension,
    ast.DictComp: Lowering._comprehension,
    ast.Await: Lowering._await,
    ast.Yield: Lowering._yield,
    ast.YieldFrom: Lowering._yield,
    ast.NamedExpr: Lowering._walrus,
    ast.JoinedStr: Lowering._formatted,
}
