"""What a training file says, statement by statement: its gradient events and its accumulation windows."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

Loop = ast.For | ast.AsyncFor | ast.While
LOOPS = (ast.For, ast.AsyncFor, ast.While)
OWNERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)

#: Frameworks that make some of these statements no-ops, or do them behind the loop's back.
FRAMEWORKS = {
    "accelerate", "colossalai", "composer", "deepspeed", "fastai", "higher", "horovod", "ignite", "lightning",
    "pytorch_lightning",
}  # fmt: skip
FRAMEWORK_CALLS = re.compile(
    r"\bdist_autograd\b|xm\.optimizer_step|LightningModule|(?<!torch\.)\b(fabric|accelerator|model_engine)\."
)
OPTIMIZERS = re.compile(r"(^|[._])(SGD|Adam\w*|RMSprop|Adagrad|NAdam|RAdam|LBFGS|Lion|Adafactor|LAMB)$")
SCHEDULERS = re.compile(r"lr_scheduler\.|(^|\.)(\w+LR|CosineAnnealing\w+|OneCycleLR|ReduceLROnPlateau)$")
CLIPS = {"clip_grad_norm_", "clip_grad_value_"}


class Kind(enum.Enum):
    BACKWARD = enum.auto()
    STEP = enum.auto()
    ZERO = enum.auto()
    CLIP = enum.auto()
    UNSCALE = enum.auto()
    UPDATE = enum.auto()
    SCHEDULE = enum.auto()


@dataclass(frozen=True, eq=False)
class Event:
    """One simple statement that touches gradients."""

    kind: Kind
    stmt: ast.stmt
    call: ast.Call
    target: str
    """The optimizer (STEP, ZERO, UNSCALE), scheduler (SCHEDULE), scaler (UPDATE) or loss (BACKWARD), as written."""
    scaler: str = ""
    """The scaler through which a BACKWARD or a STEP goes."""


@dataclass(frozen=True, eq=False)
class Window:
    """An accumulation window: `loop` runs once per micro-batch, `boundary` once per update."""

    loop: Loop
    boundary: list[ast.stmt]
    test: ast.If | None
    """The `if` whose body is the boundary; None when `loop` is an inner loop and the boundary follows it."""
    sizes: frozenset[str]
    backwards: tuple[Event, ...]


def text(node: ast.AST) -> str:
    return ast.unparse(node)


def dotted_tail(node: ast.AST) -> str:
    """The name that says what `node` is: `self.optimizers["d"]` -> `optimizers`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@dataclass(eq=False)
class Scene:
    """A parsed file with parents, events and windows."""

    source: str
    tree: ast.Module = field(init=False)
    parent: dict[ast.AST, ast.AST] = field(init=False, default_factory=dict)
    body: dict[ast.stmt, list[ast.stmt]] = field(init=False, default_factory=dict)
    events: list[Event] = field(init=False, default_factory=list)
    windows: list[Window] = field(init=False, default_factory=list)
    optimizers: dict[str, str] = field(init=False, default_factory=dict)
    """Optimizers built in this file, with the text of their parameters."""
    schedulers: set[str] = field(init=False, default_factory=set)
    clip_names: set[str] = field(init=False, default_factory=lambda: set(CLIPS))

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.source)
        for node in ast.walk(self.tree):
            for _, value in ast.iter_fields(node):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self.parent[child] = node
                        if isinstance(child, ast.stmt):
                            self.body[child] = value
            self._learn_name(node)
        statements = sorted(self.body, key=lambda s: s.lineno)
        self.events = [e for s in statements if (e := self._event(s))]
        found = [w for e in self.of(Kind.STEP) if (w := self._window(e))]
        self.windows = list({id(w.boundary): w for w in found}.values())

    def _learn_name(self, node: ast.AST) -> None:
        if isinstance(node, ast.ImportFrom):
            self.clip_names |= {a.asname for a in node.names if a.asname and a.name in CLIPS}
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            return
        made, names = text(node.value.func), [text(t) for t in node.targets]
        if OPTIMIZERS.search(made) and node.value.args:
            self.optimizers |= dict.fromkeys(names, text(node.value.args[0]))
        elif SCHEDULERS.search(made):
            self.schedulers |= set(names)

    def _event(self, stmt: ast.stmt) -> Event | None:
        if not isinstance(stmt, ast.Expr | ast.Assign):
            return None
        calls = [n for n in ast.walk(stmt.value) if isinstance(n, ast.Call)]
        found = [e for c in calls if (e := self._call_event(stmt, c))]
        return found[0] if len(found) == 1 else None

    def _call_event(self, stmt: ast.stmt, call: ast.Call) -> Event | None:
        func = call.func
        if dotted_tail(func) in self.clip_names:
            # an optimizer's or a trainer's own clip method does more than clip
            own = isinstance(func, ast.Attribute) and re.search(r"opt|accel|fabric|^self$", text(func.value))
            return None if own else Event(Kind.CLIP, stmt, call, text(call.args[0]) if call.args else "")
        if not isinstance(func, ast.Attribute):
            return None
        on, tail, args = func.value, dotted_tail(func.value).lower(), call.args
        if func.attr == "backward":
            if isinstance(on, ast.Call) and isinstance(on.func, ast.Attribute) and on.func.attr == "scale" and on.args:
                return Event(Kind.BACKWARD, stmt, call, text(on.args[0]), text(on.func.value))
            named = not args and not re.search(r"accel|fabric|engine|^self$|autograd|opt", text(on))
            return Event(Kind.BACKWARD, stmt, call, text(on)) if named else None
        if func.attr == "zero_grad":
            return Event(Kind.ZERO, stmt, call, text(on))
        if "scaler" in tail:
            if func.attr == "unscale_" and len(args) == 1:
                return Event(Kind.UNSCALE, stmt, call, text(args[0]), text(on))
            if func.attr == "step" and len(args) == 1:
                return Event(Kind.STEP, stmt, call, text(args[0]), text(on))
            return Event(Kind.UPDATE, stmt, call, text(on), text(on)) if func.attr == "update" else None
        if func.attr == "step":
            if "sched" in tail or text(on) in self.schedulers:
                return Event(Kind.SCHEDULE, stmt, call, text(on))
            if ("opt" in tail or text(on) in self.optimizers) and not args and not call.keywords:
                return Event(Kind.STEP, stmt, call, text(on))
        return None

    def framework(self) -> bool:
        """Does this file hand part of the update to a framework?"""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                if any(name.split(".")[0] in FRAMEWORKS for name in names):
                    return True
        return bool(FRAMEWORK_CALLS.search(self.source))

    # -- places ---------------------------------------------------------------------------------------------------

    def of(self, *kinds: Kind) -> list[Event]:
        return [e for e in self.events if e.kind in kinds]

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """From the node itself up to, and with, the function (or module) that runs it."""
        while node is not None:
            yield node
            if isinstance(node, OWNERS):
                return
            node = self.parent[node]

    def owner(self, node: ast.AST) -> ast.AST:
        *_, last = self.ancestors(node)
        return last

    def loop(self, node: ast.AST) -> Loop | None:
        """The innermost loop round a statement, in its own function."""
        return next((a for a in self.ancestors(node) if isinstance(a, LOOPS) and a is not node), None)

    def inside(self, node: ast.AST, outer: ast.AST) -> bool:
        return any(a is outer for a in self.ancestors(node))

    def unit(self, body: list[ast.stmt], node: ast.AST) -> ast.stmt | None:
        """The statement of `body` that holds `node`."""
        return next((a for a in self.ancestors(node) if isinstance(a, ast.stmt) and any(a is s for s in body)), None)

    def units(self, body: list[ast.stmt], *kinds: Kind) -> list[tuple[int, Event]]:
        """The events under `body`, each with the index of the statement of `body` that holds it."""
        found = [(u, e) for e in self.of(*kinds) if (u := self.unit(body, e.stmt)) is not None]
        return [(next(i for i, s in enumerate(body) if s is u), e) for u, e in found]

    def repeats(self, node: ast.AST) -> bool:
        """Is the statement in a loop, or in a function that a loop of this file calls?"""
        if self.loop(node):
            return True
        name = getattr(self.owner(node), "name", None)
        calls = (n for n in ast.walk(self.tree) if isinstance(n, ast.Call) and dotted_tail(n.func) == name)
        return name is not None and any(self.loop(c) for c in calls)

    # -- accumulation windows -------------------------------------------------------------------------------------

    def _window(self, step: Event) -> Window | None:
        loop = self.loop(step.stmt)
        for test in (a for a in self.ancestors(step.stmt) if isinstance(a, ast.If)):
            if loop is None or not self.inside(test, loop) or self.unit(test.body, step.stmt) is None:
                continue
            sizes = self._window_sizes(test, loop)
            # a backward inside the boundary is an update frequency, not accumulation
            back = [e for e in self.of(Kind.BACKWARD) if self.loop(e.stmt) is loop]
            if sizes and back and all(e.stmt.lineno < test.lineno and not self.inside(e.stmt, test) for e in back):
                return Window(loop, test.body, test, frozenset(sizes), tuple(back))
        return self._inner_window(step)

    def _window_sizes(self, test: ast.If, loop: Loop) -> set[str]:
        """The texts of N in the condition of a boundary; empty when it is not a boundary."""
        exprs: list[ast.AST] = [test.test]
        for name in [n for n in ast.walk(test.test) if isinstance(n, ast.Name | ast.Attribute)]:
            exprs += [
                n.value
                for n in ast.walk(self.owner(test))
                if isinstance(n, ast.Assign) and n.lineno < test.lineno and text(n.targets[0]) == text(name)
            ]
        nodes = [n for e in exprs for n in ast.walk(e)]
        sizes = {text(n.right) for n in nodes if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)}
        bumped = {text(n.target) for n in ast.walk(loop) if isinstance(n, ast.AugAssign)}
        reset = {text(n.targets[0]) for n in test.body if isinstance(n, ast.Assign) and text(n.value) == "0"}
        compares = [n for n in nodes if isinstance(n, ast.Compare) and text(n.left) in bumped & reset]
        return sizes | {text(c.comparators[0]) for c in compares}

    def _inner_window(self, step: Event) -> Window | None:
        outer = next((a for a in self.ancestors(step.stmt) if isinstance(a, LOOPS)), self.owner(step.stmt))
        body: list[ast.stmt] = getattr(outer, "body", [])
        here = self.unit(body, step.stmt) if isinstance(body, list) else None
        if here is None:
            return None
        before = body[: next(i for i, s in enumerate(body) if s is here)]
        back = [(i, e) for i, e in self.units(before, Kind.BACKWARD)]
        loops = {self.loop(e.stmt) for _, e in back}
        loop = loops.pop() if len(loops) == 1 else None
        if loop is None or not any(loop is s for s in before):
            return None
        if any(self.inside(e.stmt, loop) for e in self.of(Kind.STEP, Kind.ZERO)):
            return None
        over = loop.iter if isinstance(loop, ast.For) else None
        args = [text(a) for a in over.args] if isinstance(over, ast.Call) else []
        sizes = {*args, *(f"len({a})" for a in args), *([f"len({text(over)})"] if over is not None else [])}
        return Window(loop, body, None, frozenset(sizes), tuple(e for _, e in back))
