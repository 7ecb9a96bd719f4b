"""Says which names a fix has left without a binding: definite assignment, before the fix and after it.

Each scope's state is the set of its names that are surely bound, as the bits of an integer: to join two paths is `&`,
and `-1`, every bit, is the state where no path arrives. A tree is walked once. What a name means is known only at the
end of its scope, so a use that is not surely bound is put aside, and resolved when the walk is over.
"""

from __future__ import annotations

import ast
import builtins
import enum
from collections import Counter
from collections.abc import Callable
from typing import Any

from gradlint.records import dataclass, field

#: No path arrives here. It is neutral in a join, and only the existence of the names used here is asked for.
_DEAD = -1
_GIVEN = {*dir(builtins), "__annotations__", "__class__", "__file__", "__module__", "__path__", "__qualname__"}
#: Fields that hold no name which is looked up.
_LEAVES = {"arg", "attr", "conversion", "ctx", "is_async", "kind", "name", "op", "ops", "simple", "type_comment"}
#: A block is part of the scope around it, but with names of its own: a comprehension, or type parameters.
_Kind = enum.Enum("_Kind", ["MODULE", "CLASS", "FUNCTION", "BLOCK"])


def newly_unbound(before: ast.Module, after: ast.Module) -> tuple[str, ...]:
    """Names that may be used before they are bound now, and were not so before the fix."""
    known = possibly_unbound(before)
    more = {use for use, count in possibly_unbound(after).items() if count > known[use]}
    if not more:
        return ()
    # a fragment whose names come from elsewhere: one more use of such a name is as good as the others
    bound = {name for node in ast.walk(after) for name in _bound_by(node)}
    return tuple(sorted({name for scope, name in more if name in bound or not known[scope, name]}))


def _bound_by(node: ast.AST) -> list[str]:
    match node:
        case ast.Name() if not isinstance(node.ctx, ast.Load):
            return [node.id]
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.arg():
            return [node.arg]
        case ast.alias():
            return [(node.asname or node.name).partition(".")[0]]
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            return [node.name] if node.name else []
        case ast.MatchMapping():
            return [node.rest] if node.rest else []
        case _:
            return []


def possibly_unbound(tree: ast.Module) -> Counter[tuple[str, str]]:
    """How often each (qualified name of the scope, name) is used where it may not be bound."""
    walk = _Walk(tree)
    found: Counter[tuple[str, str]] = Counter()
    for (scope, name, late), count in walk.pending.items():
        if not walk.resolves(scope, name, late):
            found[scope.name, name] += count
    return found


@dataclass(slots=True, eq=False)
class _Scope:
    """The names of one scope, and which of them are surely bound at the point that the walk has reached."""

    kind: _Kind
    name: str
    #: where a name is looked up that is not of this scope
    outer: _Scope | None = None
    state: int = 0
    #: what arrives at the end of the innermost loop by `break`, and at its next round by `continue`
    breaks: int = _DEAD
    continues: int = _DEAD
    #: what was unbound since the innermost `try`, even if it was bound again
    lost: int = 0
    #: every name that is bound anywhere in the scope
    bits: dict[str, int] = field(default_factory=dict)
    #: names declared `global` or `nonlocal`, and where to look for them
    foreign: dict[str, _Scope | None] = field(default_factory=dict)

    def bit(self, name: str) -> int:
        """A name that is bound here; none if it is another scope's."""
        home = self.foreign.get(name, self)
        if home is self:
            return self.bits.setdefault(name, 1 << len(self.bits))
        # `nonlocal` binds nothing new: the scope around has a binding, or the code does not compile.
        if home is not None and home.kind is _Kind.MODULE:
            home.bit(name)
        return 0


class _Walk:
    """One walk over a module, in the order of evaluation."""

    def __init__(self, tree: ast.Module) -> None:
        self._module = self._scope = _Scope(_Kind.MODULE, "")
        self._star = self._lazy_annotations = False
        #: (scope of the use, name, the first scope from which on existence is enough)
        self.pending: Counter[tuple[_Scope, str, _Scope | None]] = Counter()
        self._visit(tree.body)

    def resolves(self, scope: _Scope | None, name: str, late: _Scope | None) -> bool:
        in_order = True
        while scope is not None:
            in_order = in_order and scope is not late
            if name in scope.foreign:
                scope, in_order = scope.foreign[name], False
                continue
            # A class body looks further when it has not bound the name itself yet; a function does not.
            if name in scope.bits and (not in_order or scope.kind is not _Kind.CLASS):
                return not in_order or (scope.kind is _Kind.MODULE and name in _GIVEN)
            scope = scope.outer
        return self._star or name in _GIVEN

    # -- names and nodes

    def _use(self, name: str) -> None:
        scope: _Scope | None = self._scope
        runs_later = False
        while scope is not None and scope.state != _DEAD and not runs_later:
            if scope.state & scope.bits.get(name, 0):
                return
            runs_later = scope.kind is _Kind.FUNCTION
            scope = scope.outer
        self.pending[self._scope, name, scope] += 1
        # whoever comes past this use has the name: `if a: opt = … elif b: opt = …` is doubtful once, not at every use
        self._scope.state |= self._scope.bits.get(name, 0)

    def _bind(self, name: str) -> None:
        self._scope.state |= self._scope.bit(name)

    def _unbind(self, name: str) -> None:
        bit = self._scope.bit(name)
        self._scope.state = _without(self._scope.state, bit)
        self._scope.lost |= bit

    def _name(self, node: ast.Name) -> None:
        (self._bind if isinstance(node.ctx, ast.Store) else self._use)(node.id)
        if isinstance(node.ctx, ast.Del):
            self._unbind(node.id)

    def _visit(self, *nodes: Any) -> None:
        """Nodes and lists of them; with a stack, because a sum of a thousand terms is a tree of a thousand levels."""
        stack = [*reversed(nodes)]
        while stack:
            node = stack.pop()
            kind = type(node)
            handler = _HANDLERS.get(kind)
            if handler is not None:
                handler(self, node)
            elif kind is list:
                stack.extend(reversed(node))
            else:
                stack.extend([getattr(node, name, None) for name in _FIELDS.get(kind, ())])

    def _from(self, state: int, *nodes: Any) -> int:
        """Visits the nodes from that state on, and gives the state after them."""
        self._scope.state = state
        self._visit(*nodes)
        return self._scope.state

    def _later(self, *nodes: Any) -> None:
        """What is evaluated later or never: the names in it must exist, but not yet."""
        state = self._scope.state
        self._from(_DEAD, *nodes)
        self._scope.state = state

    def _enter(self, kind: _Kind, name: str) -> _Scope:
        """Goes into a new scope, and gives the one to come back to."""
        around = self._scope
        self._scope = _Scope(kind, name, around.outer if around.kind is _Kind.CLASS else around)
        return around

    # -- control flow

    def _test(self, node: ast.expr) -> tuple[int, int]:
        """The states in which the condition has come out true, and false."""
        scope = self._scope
        if isinstance(node, ast.Constant):
            return (scope.state, _DEAD) if node.value else (_DEAD, scope.state)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._test(node.operand)[::-1]
        if not isinstance(node, ast.BoolOp):
            self._visit(node)
            return scope.state, scope.state
        is_and, left_early = isinstance(node.op, ast.And), _DEAD
        for value in node.values:
            true, false = self._test(value)
            scope.state = true if is_and else false
            left_early &= false if is_and else true
        return (scope.state, left_early) if is_and else (left_early, scope.state)

    def _bool_op(self, node: ast.BoolOp) -> None:
        true, false = self._test(node)
        self._scope.state = true & false

    def _if(self, node: ast.If | ast.IfExp) -> None:
        """Also the conditional expression; a long `elif` chain is a deep tree, so it is no recursion."""
        scope, ends = self._scope, _DEAD
        rest: Any = node
        while isinstance(rest, ast.If | ast.IfExp):
            true, false = self._test(rest.test)
            ends &= self._from(true, rest.body)
            scope.state = false
            rest = rest.orelse[0] if isinstance(rest.orelse, list) and len(rest.orelse) == 1 else rest.orelse
        self._visit(rest)
        scope.state &= ends

    def _assert(self, node: ast.Assert) -> None:
        true, false = self._test(node.test)
        self._from(false, node.msg)
        self._scope.state = true

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        never_ran = self._from(self._scope.state, node.iter)
        self._visit(node.target)
        self._loop(node, never_ran)

    def _while(self, node: ast.While) -> None:
        self._scope.state, false = self._test(node.test)
        self._loop(node, false)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, never_ran: int) -> None:
        scope, start = self._scope, self._scope.state
        around, scope.breaks, scope.continues = (scope.breaks, scope.continues), _DEAD, _DEAD
        deleted = start & ~(self._from(start, node.body) & scope.continues)
        left_early, scope.breaks, scope.continues = scope.breaks, *around
        scope.state = left_early & self._from(_without(never_ran, deleted), node.orelse)

    def _jump(self, node: ast.Break | ast.Continue | ast.Return | ast.Raise) -> None:
        self._visit(*ast.iter_child_nodes(node))
        scope = self._scope
        if isinstance(node, ast.Break):
            scope.breaks &= scope.state
        elif isinstance(node, ast.Continue):
            scope.continues &= scope.state
        scope.state = _DEAD

    def _try(self, node: ast.Try) -> None:
        """Each way into `finally` goes on where it was going, with what that has bound and without what it deleted."""
        scope = self._scope
        breaks, continues, scope.breaks, scope.continues = scope.breaks, scope.continues, _DEAD, _DEAD
        before, lost, scope.lost = scope.state, scope.lost, 0
        body_done = self._from(before, node.body)
        # Something may be raised before the body has bound anything, and after it has deleted something.
        raised = _without(before, scope.lost)
        done = self._from(body_done, node.orelse)
        for handler in node.handlers:
            done &= self._from(raised, handler)
        lost, scope.lost, start = lost | scope.lost, 0, _without(before, scope.lost)
        ways, scope.breaks, scope.continues = (done, scope.breaks, scope.continues), breaks, continues
        end = self._from(start, node.finalbody)
        scope.state, broken, continued = (_through(way, scope.lost, end) for way in ways)
        scope.breaks &= broken
        scope.continues &= continued
        scope.lost |= lost

    def _handler(self, node: ast.ExceptHandler) -> None:
        self._visit(node.type)
        if node.name:
            self._bind(node.name)
        self._visit(node.body)
        if node.name:
            self._unbind(node.name)

    def _match(self, node: ast.Match) -> None:
        scope = self._scope
        unmatched, ends = self._from(scope.state, node.subject), _DEAD
        for case in node.cases:
            matched = self._from(unmatched, case.pattern)
            matched, refused = self._test(case.guard) if case.guard else (matched, _DEAD)
            if _always_matches(case.pattern):
                unmatched = refused
            ends &= self._from(matched, case.body)
        scope.state = unmatched & ends

    def _capture(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        self._visit(*ast.iter_child_nodes(node))
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name is not None:
            self._bind(name)

    # -- bindings

    def _aug_assign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._use(node.target.id)
        self._visit(node.value, node.target)

    def _ann_assign(self, node: ast.AnnAssign) -> None:
        if node.value is not None or not isinstance(node.target, ast.Name):
            self._visit(node.value, node.target)
        else:
            self._scope.bit(node.target.id)
        self._annotation(node.annotation, evaluated=self._scope.kind is not _Kind.FUNCTION)

    def _annotation(self, node: ast.expr | None, *, evaluated: bool = True) -> None:
        (self._visit if evaluated and not self._lazy_annotations else self._later)(node)

    def _walrus(self, node: ast.NamedExpr) -> None:
        self._visit(node.value, node.target)
        owner = self._scope
        while owner.kind is _Kind.BLOCK and owner.outer is not None:
            owner = owner.outer
        # Within a comprehension it is bound from here on; after it perhaps not, as there may be nothing to go through.
        owner.bit(node.target.id)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self._star = True
            else:
                self._bind(alias.asname or alias.name.partition(".")[0])
            if alias.name == "annotations" and isinstance(node, ast.ImportFrom) and node.module == "__future__":
                self._lazy_annotations = True

    def _foreign(self, node: ast.Global | ast.Nonlocal) -> None:
        home = self._module if isinstance(node, ast.Global) else self._scope.outer
        for name in node.names if home is not self._scope else ():
            self._scope.foreign[name] = home
            if isinstance(node, ast.Nonlocal):
                self._use(name)

    # -- scopes

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit(node.decorator_list)
        around = self._type_parameters(node)
        self._annotation(node.returns)
        self._lambda(node, node.name)
        self._scope = around
        self._bind(node.name)

    def _lambda(self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef, name: str = "<lambda>") -> None:
        self._visit(node.args)
        around = self._enter(_Kind.FUNCTION, f"{self._scope.name}.{name}")
        for parameter in ast.iter_child_nodes(node.args):
            if isinstance(parameter, ast.arg):
                self._bind(parameter.arg)
        self._visit(node.body)
        self._scope = around

    def _class(self, node: ast.ClassDef) -> None:
        self._visit(node.decorator_list)
        around = self._type_parameters(node)
        self._visit(node.bases, node.keywords)
        self._enter(_Kind.CLASS, f"{self._scope.name}.{node.name}")
        self._visit(node.body)
        self._scope = around
        self._bind(node.name)

    def _type_parameters(self, node: Any) -> _Scope:
        """Goes into their scope, if there are any (Python 3.12), and gives the one to come back to."""
        parameters = getattr(node, "type_params", None)
        if not parameters:
            return self._scope
        around = self._enter(_Kind.BLOCK, self._scope.name)
        # Unlike all other scopes in a class, this one sees the names of the class.
        self._scope.outer = around
        for parameter in parameters:
            self._bind(parameter.name)
            self._later(parameter)
        return around

    def _type_alias(self, node: Any) -> None:
        around = self._type_parameters(node)
        self._later(node.value)
        self._scope = around
        self._visit(node.name)

    def _comprehension(self, node: Any) -> None:
        """A generator is taken to run where it stands, as in `sum(p.grad.norm() for p in parameters)`."""
        self._visit(node.generators[0].iter)
        around = self._enter(_Kind.BLOCK, self._scope.name)
        for number, generator in enumerate(node.generators):
            self._visit(generator.iter if number else None, generator.target)
            for condition in generator.ifs:
                self._scope.state, _ = self._test(condition)
        self._visit([node.key, node.value] if isinstance(node, ast.DictComp) else node.elt)
        self._scope = around


def _without(state: int, bits: int) -> int:
    return state if state == _DEAD else state & ~bits


def _through(way: int, lost: int, end: int) -> int:
    """One way through a `finally` block, which unbinds what is `lost`, and at the end of which `end` is bound."""
    return _DEAD if _DEAD in (way, end) else way & ~lost | end


def _always_matches(pattern: ast.pattern | None) -> bool:
    if isinstance(pattern, ast.MatchOr):
        return any(map(_always_matches, pattern.patterns))
    return pattern is None or (isinstance(pattern, ast.MatchAs) and _always_matches(pattern.pattern))


_BY_NAME: dict[str, Callable[[_Walk, Any], None]] = {
    "AnnAssign": _Walk._ann_assign, "Assert": _Walk._assert, "AsyncFor": _Walk._for,
    "AsyncFunctionDef": _Walk._function, "AugAssign": _Walk._aug_assign, "BoolOp": _Walk._bool_op,
    "Break": _Walk._jump, "ClassDef": _Walk._class, "Continue": _Walk._jump, "DictComp": _Walk._comprehension,
    "ExceptHandler": _Walk._handler, "For": _Walk._for, "FunctionDef": _Walk._function,
    "GeneratorExp": _Walk._comprehension, "Global": _Walk._foreign, "If": _Walk._if, "IfExp": _Walk._if,
    "Import": _Walk._import, "ImportFrom": _Walk._import, "Lambda": _Walk._lambda, "ListComp": _Walk._comprehension,
    "Match": _Walk._match, "MatchAs": _Walk._capture, "MatchMapping": _Walk._capture, "MatchStar": _Walk._capture,
    "Name": _Walk._name, "NamedExpr": _Walk._walrus, "Nonlocal": _Walk._foreign, "Raise": _Walk._jump,
    "Return": _Walk._jump, "SetComp": _Walk._comprehension, "Try": _Walk._try, "TryStar": _Walk._try,
    "TypeAlias": _Walk._type_alias, "While": _Walk._while,
    "arg": lambda walk, node: walk._annotation(node.annotation),
}  # fmt: skip
#: By type, which is quick; some types are newer than the oldest Python that we run on.
_HANDLERS = {getattr(ast, name): handler for name, handler in _BY_NAME.items() if hasattr(ast, name)}
#: The last to be evaluated comes first, as they go onto a stack.
_FIELDS = {
    kind: [name for name in reversed(kind._fields) if name not in _LEAVES]
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
} | {ast.Assign: ["targets", "value"]}
