"""Turns a libcst tree into the small syntax tree, and finds positions for the few nodes that need one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import libcst as cst

from gradlint.frontend import syntax as s
from gradlint.frontend.places import Places
from gradlint.frontend.quick import pattern_text
from gradlint.model import Position, Span

_BINARY = {
    "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "FloorDivide": "//", "Modulo": "%", "Power": "**",
    "MatrixMultiply": "@", "LeftShift": "<<", "RightShift": ">>", "BitAnd": "&", "BitOr": "|", "BitXor": "^",
}  # fmt: skip
_COMPARE = {
    "Equal": "==", "NotEqual": "!=", "LessThan": "<", "LessThanEqual": "<=", "GreaterThan": ">",
    "GreaterThanEqual": ">=", "Is": "is", "IsNot": "is not", "In": "in", "NotIn": "not in",
}  # fmt: skip
_UNARY = {"Not": "not", "Minus": "-", "Plus": "+", "BitInvert": "~"}


class Lowering:
    """One file's translation; keeps the parser's nodes so that positions can be asked for later."""

    def __init__(self, module: cst.Module) -> None:
        self.module = module
        self._nodes: list[cst.CSTNode] = []
        self._places: Places | None = None
        self._generator = False
        self.body = self._block(module.body)

    @property
    def nodes(self) -> Sequence[cst.CSTNode]:
        """The parser's nodes by the numbers that the small tree knows them by."""
        return self._nodes

    @property
    def places(self) -> Places:
        """Where all nodes are; costs a pass over the file, so it is asked for where there are findings only."""
        if self._places is None:
            self._places = Places(self.module)
        return self._places

    def functions(self) -> Iterator[cst.FunctionDef]:
        return (node for node in self._nodes if isinstance(node, cst.FunctionDef))

    def spans(self, wanted: set[int]) -> dict[int, Span]:
        """The positions of these nodes."""
        found = {}
        for number in wanted:
            code_range = self.places[self._nodes[number]]
            start, end = code_range.start, code_range.end
            found[number] = Span(Position(start.line, start.column + 1), Position(end.line, end.column + 1))
        return found

    def _number(self, node: cst.CSTNode) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1

    # -- statements

    def _block(self, body: Any) -> list[s.Stmt]:
        out: list[s.Stmt] = []
        for statement in body:
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    self._small(small, out)
            else:
                self._compound(statement, out)
        return out

    def _suite(self, suite: cst.BaseSuite) -> list[s.Stmt]:
        if isinstance(suite, cst.SimpleStatementSuite):
            out: list[s.Stmt] = []
            for small in suite.body:
                self._small(small, out)
            return out
        return self._block(suite.body)

    def _small(self, node: cst.BaseSmallStatement, out: list[s.Stmt]) -> None:
        number = self._number
        match node:
            case cst.Expr():
                if not _says_nothing(node.value):
                    out.append(s.ExprStmt(number(node), self.expr(node.value)))
            case cst.Assign():
                targets = [self.expr(t.target) for t in node.targets]
                out.append(s.Assign(number(node), targets, self.expr(node.value)))
            case cst.AnnAssign() if node.value is not None:
                annotation = self.expr(node.annotation.annotation)
                out.append(s.Assign(number(node), [self.expr(node.target)], self.expr(node.value), annotation))
            case cst.AugAssign():
                op = _BINARY.get(type(node.operator).__name__.removesuffix("Assign"), "?")
                out.append(s.AugAssign(number(node), self.expr(node.target), op, self.expr(node.value)))
            case cst.Assert():
                out.append(s.If(number(node), self.expr(node.test), [], []))
            case cst.Return():
                out.append(s.Return(number(node), self._maybe(node.value)))
            case cst.Break():
                out.append(s.Jump(number(node), "break"))
            case cst.Continue():
                out.append(s.Jump(number(node), "continue"))
            case cst.Raise():
                out.append(s.Jump(number(node), "raise", self._maybe(node.exc)))
            case cst.Import() | cst.ImportFrom():
                out.append(self._import(node))
            case cst.Del():
                out.append(s.Delete(number(node), [self.expr(node.target)]))
            case cst.Global() | cst.Nonlocal():
                out.append(s.Scope(number(node), [n.name.value for n in node.names]))

    def _compound(self, node: Any, out: list[s.Stmt]) -> None:
        number = self._number
        match node:
            case cst.FunctionDef():
                out.append(self._function(node))
            case cst.ClassDef():
                bases = [self.expr(a.value) for a in node.bases]
                decorators = [self.expr(d.decorator) for d in node.decorators]
                out.append(s.Class(number(node), node.name.value, bases, self._suite(node.body), decorators))
            case cst.If():
                out.append(self._if(node))
            case cst.For():
                target, iterable = self.expr(node.target), self.expr(node.iter)
                out.append(s.For(number(node), target, iterable, self._suite(node.body), self._orelse(node.orelse)))
            case cst.While():
                test = self.expr(node.test)
                out.append(s.While(number(node), test, self._suite(node.body), self._orelse(node.orelse)))
            case cst.With():
                items = [(self.expr(i.item), self._maybe(i.asname.name if i.asname else None)) for i in node.items]
                out.append(s.With(number(node), items, self._suite(node.body)))
            case cst.Try() | cst.TryStar():
                handlers = [(self._maybe(h.type), self._suite(h.body)) for h in node.handlers]
                final = self._suite(node.finalbody.body) if node.finalbody else []
                body = self._suite(node.body)
                out.append(s.Try(number(node), body, handlers, self._orelse(node.orelse), final))
            case cst.Match():
                out.append(self._match(node))

    def _if(self, node: cst.If) -> s.If:
        test, body = self.expr(node.test), self._suite(node.body)
        orelse: list[s.Stmt] = []
        if isinstance(node.orelse, cst.If):
            orelse = [self._if(node.orelse)]
        elif isinstance(node.orelse, cst.Else):
            orelse = self._suite(node.orelse.body)
        return s.If(self._number(node), test, body, orelse)

    def _match(self, node: cst.Match) -> s.If:
        """A match statement as a chain of conditions on its subject, each unknown."""
        subject = self.expr(node.subject)
        chain: list[s.Stmt] = []
        for case in reversed(node.cases):
            label = _plain(self.module.code_for_node(case.pattern))
            test = s.Other(self._number(case), [subject], f"{s.render(subject)} matches {label}")
            body = self._suite(case.body)
            chain = body if label == "_" else [s.If(self._number(case), test, body, chain)]
        if len(chain) == 1 and isinstance(chain[0], s.If):
            return chain[0]
        return s.If(self._number(node), s.Const(self._number(node), True), chain, [])

    def _orelse(self, orelse: cst.Else | None) -> list[s.Stmt]:
        return self._suite(orelse.body) if orelse else []

    def _function(self, node: cst.FunctionDef) -> s.Def:
        outer, self._generator = self._generator, False
        decorators = [self.expr(d.decorator) for d in node.decorators]
        params = self._params(node.params)
        body = self._suite(node.body)
        generator, self._generator = self._generator, outer
        return s.Def(self._number(node), node.name.value, params, body, decorators, generator)

    def _params(self, node: cst.Parameters) -> list[s.Param]:
        out = []
        for p in (*node.posonly_params, *node.params):
            out.append(self._param(p))
        if isinstance(node.star_arg, cst.Param):
            out.append(s.Param(node.star_arg.name.value, star="*"))
        for p in node.kwonly_params:
            out.append(self._param(p))
        if node.star_kwarg is not None:
            out.append(s.Param(node.star_kwarg.name.value, star="**"))
        return out

    def _param(self, node: cst.Param) -> s.Param:
        annotation = self.expr(node.annotation.annotation) if node.annotation else None
        return s.Param(node.name.value, self._maybe(node.default), annotation)

    def _import(self, node: cst.Import | cst.ImportFrom) -> s.Import:
        number = self._number(node)
        if isinstance(node, cst.Import):
            bindings = {}
            for alias in node.names:
                dotted = _dotted(alias.name)
                if alias.asname is not None:
                    bindings[cast(cst.Name, alias.asname.name).value] = dotted
                else:
                    bindings[dotted.partition(".")[0]] = dotted.partition(".")[0]
            return s.Import(number, bindings)
        base = "." * len(node.relative) + (_dotted(node.module) if node.module else "")
        if isinstance(node.names, cst.ImportStar):
            return s.Import(number, {}, base)
        bindings = {}
        for alias in node.names:
            name = _dotted(alias.name)
            local = cast(cst.Name, alias.asname.name).value if alias.asname else name
            bindings[local] = f"{base}.{name}" if not base.endswith(".") else base + name
        return s.Import(number, bindings)

    # -- expressions

    def _maybe(self, node: cst.BaseExpression | None) -> s.Expr | None:
        return None if node is None else self.expr(node)

    def expr(self, node: Any) -> s.Expr:
        handler = _HANDLERS.get(type(node))
        if handler is None:
            return s.Other(self._number(node), [], "…")
        return handler(self, node)

    def _name(self, node: cst.Name) -> s.Expr:
        value = {"True": True, "False": False, "None": None}.get(node.value, ...)
        if value is not ...:
            return s.Const(self._number(node), value)
        return s.Name(self._number(node), node.value)

    def _attribute(self, node: cst.Attribute) -> s.Expr:
        return s.Attr(self._number(node), self.expr(node.value), node.attr.value)

    def _call(self, node: cst.Call) -> s.Expr:
        func = self.expr(node.func)
        args: list[s.Expr] = []
        kwargs: dict[str, s.Expr] = {}
        starred = False
        for arg in node.args:
            value = self.expr(arg.value)
            if arg.star:
                starred = True
                if arg.star == "*":
                    args.append(s.Star(value.node, value))
                else:
                    kwargs[f"**{len(kwargs)}"] = value
            elif arg.keyword is not None:
                kwargs[arg.keyword.value] = value
            else:
                args.append(value)
        return s.Call(self._number(node), func, args, kwargs, starred)

    def _literal(self, node: Any) -> s.Expr:
        return (
            s.Const(self._number(node), literal)
            if (literal := _value(node.value)) is not ...
            else s.Other(self._number(node))
        )

    def _concatenated(self, node: cst.ConcatenatedString) -> s.Expr:
        left, right = self.expr(node.left), self.expr(node.right)
        if isinstance(left, s.Const) and isinstance(right, s.Const):
            if isinstance(left.value, str) and isinstance(right.value, str):
                return s.Const(self._number(node), left.value + right.value)
            if isinstance(left.value, bytes) and isinstance(right.value, bytes):
                return s.Const(self._number(node), left.value + right.value)
        inner = [x for side in (left, right) if isinstance(side, s.Other) for x in side.children]
        return s.Other(self._number(node), inner, 'f"…"')

    def _formatted(self, node: cst.FormattedString) -> s.Expr:
        inner = [self.expr(p.expression) for p in node.parts if isinstance(p, cst.FormattedStringExpression)]
        return s.Other(self._number(node), inner, 'f"…"')

    def _binary(self, node: cst.BinaryOperation) -> s.Expr:
        op = _BINARY.get(type(node.operator).__name__, "?")
        return s.Bin(self._number(node), op, self.expr(node.left), self.expr(node.right))

    def _unary(self, node: cst.UnaryOperation) -> s.Expr:
        return s.Unary(self._number(node), _UNARY[type(node.operator).__name__], self.expr(node.expression))

    def _comparison(self, node: cst.Comparison) -> s.Expr:
        left = self.expr(node.left)
        links: list[s.Expr] = []
        for target in node.comparisons:
            right = self.expr(target.comparator)
            links.append(s.Compare(self._number(node), _COMPARE[type(target.operator).__name__], left, right))
            left = right
        return links[0] if len(links) == 1 else s.Bool(self._number(node), "and", links)

    def _boolean(self, node: cst.BooleanOperation) -> s.Expr:
        op = "and" if isinstance(node.operator, cst.And) else "or"
        items: list[s.Expr] = []
        for side in (self.expr(node.left), self.expr(node.right)):
            items.extend(side.items if isinstance(side, s.Bool) and side.op == op else [side])
        return s.Bool(self._number(node), op, items)

    def _ifexp(self, node: cst.IfExp) -> s.Expr:
        return s.IfExp(self._number(node), self.expr(node.test), self.expr(node.body), self.expr(node.orelse))

    def _subscript(self, node: cst.Subscript) -> s.Expr:
        base = self.expr(node.value)
        index: s.Expr
        only = node.slice[0].slice if len(node.slice) == 1 else None
        if isinstance(only, cst.Index) and not (isinstance(only.value, cst.Tuple) and only.value.elements):
            index = self.expr(only.value)
        else:
            index = s.Other(self._number(node), self._slice_parts(node), ":")
        return s.Item(self._number(node), base, index)

    def _slice_parts(self, node: cst.Subscript) -> list[s.Expr]:
        parts: list[s.Expr] = []
        for element in node.slice:
            inner = element.slice
            values: list[cst.BaseExpression | None]
            if isinstance(inner, cst.Slice):
                values = [inner.lower, inner.upper, inner.step]
            elif not isinstance(inner, cst.Index):
                values = []
            elif isinstance(inner.value, cst.Tuple) and len(node.slice) == 1:
                values = [e.value for e in inner.value.elements]
            else:
                values = [inner.value]
            parts.extend(self.expr(v) for v in values if v is not None)
        return parts

    def _display(self, node: Any) -> s.Expr:
        items: list[s.Expr] = []
        for element in node.elements:
            value = self.expr(element.value)
            items.append(s.Star(value.node, value) if isinstance(element, cst.StarredElement) else value)
        return s.Sequence(self._number(node), type(node).__name__.lower(), items)

    def _dict(self, node: cst.Dict) -> s.Expr:
        pairs: list[tuple[s.Expr | None, s.Expr]] = []
        for element in node.elements:
            key = self.expr(element.key) if isinstance(element, cst.DictElement) else None
            pairs.append((key, self.expr(element.value)))
        return s.Dict(self._number(node), pairs)

    def _lambda(self, node: cst.Lambda) -> s.Expr:
        return s.Lambda(self._number(node), self._params(node.params), self.expr(node.body))

    def _comprehension(self, node: Any) -> s.Expr:
        kind = {"ListComp": "list", "SetComp": "set", "GeneratorExp": "generator", "DictComp": "dict"}
        if isinstance(node, cst.DictComp):
            element: s.Expr = s.Sequence(self._number(node), "tuple", [self.expr(node.key), self.expr(node.value)])
        else:
            element = self.expr(node.elt)
        part = node.for_in
        clauses = []
        while part is not None:
            clauses.append((self.expr(part.target), self.expr(part.iter), [self.expr(i.test) for i in part.ifs]))
            part = part.inner_for_in
        for target, iterable, conditions in reversed(clauses[1:]):
            element = s.Comprehension(self._number(node), "inner", element, target, iterable, conditions)
        target, iterable, conditions = clauses[0]
        name = kind[type(node).__name__]
        return s.Comprehension(self._number(node), name, element, target, iterable, conditions)

    def _starred(self, node: cst.StarredElement) -> s.Expr:
        return s.Star(self._number(node), self.expr(node.value))

    def _await(self, node: cst.Await) -> s.Expr:
        return self.expr(node.expression)

    def _yield(self, node: cst.Yield) -> s.Expr:
        self._generator = True
        value = node.value.item if isinstance(node.value, cst.From) else node.value
        return s.Yield(self._number(node), self._maybe(value))

    def _walrus(self, node: cst.NamedExpr) -> s.Expr:
        return s.Walrus(self._number(node), self.expr(node.target), self.expr(node.value))


_HANDLERS: dict[type, Callable[[Lowering, Any], s.Expr]] = {
    cst.Name: Lowering._name,
    cst.Attribute: Lowering._attribute,
    cst.Call: Lowering._call,
    cst.Integer: Lowering._literal,
    cst.Float: Lowering._literal,
    cst.Imaginary: Lowering._literal,
    cst.SimpleString: Lowering._literal,
    cst.ConcatenatedString: Lowering._concatenated,
    cst.FormattedString: Lowering._formatted,
    cst.BinaryOperation: Lowering._binary,
    cst.UnaryOperation: Lowering._unary,
    cst.Comparison: Lowering._comparison,
    cst.BooleanOperation: Lowering._boolean,
    cst.IfExp: Lowering._ifexp,
    cst.Subscript: Lowering._subscript,
    cst.Tuple: Lowering._display,
    cst.List: Lowering._display,
    cst.Set: Lowering._display,
    cst.Dict: Lowering._dict,
    cst.Lambda: Lowering._lambda,
    cst.ListComp: Lowering._comprehension,
    cst.SetComp: Lowering._comprehension,
    cst.GeneratorExp: Lowering._comprehension,
    cst.DictComp: Lowering._comprehension,
    cst.StarredElement: Lowering._starred,
    cst.Await: Lowering._await,
    cst.Yield: Lowering._yield,
    cst.NamedExpr: Lowering._walrus,
}


def _says_nothing(node: cst.BaseExpression) -> bool:
    """A docstring or other bare constant."""
    if isinstance(node, cst.ConcatenatedString):
        return _says_nothing(node.left) and _says_nothing(node.right)
    return isinstance(node, cst.SimpleString | cst.Ellipsis)


def _plain(pattern: str) -> str:
    """The pattern of a case as the quick reading writes it."""
    matching = ast.parse(f"match _:\n case {pattern}:\n  pass").body[0]
    assert isinstance(matching, ast.Match)
    return pattern_text(matching.cases[0].pattern)


def _dotted(node: Any) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return str(node.value)


def _value(text: str) -> Any:
    """The value of a number or string literal; the plain ones without asking Python's own parser."""
    if text.isdecimal() and (len(text) == 1 or text[0] != "0"):
        return int(text)
    if text[:1] in "'\"" and text[:3] not in ("'''", '"""') and "\\" not in text:
        return text[1:-1]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return ...
