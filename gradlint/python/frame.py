"""Frames: the names that code sees while it runs, whoever runs it, and what they mean in the file and in others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gradlint.knowledge.torch_api import USUAL_NAMES
from gradlint.python import syntax as s
from gradlint.python.constants import BUILTINS
from gradlint.python.scope import Scope, Scopes
from gradlint.python.values import Class, External, Function, Value
from gradlint.records import dataclass, field

if TYPE_CHECKING:
    from gradlint.python.module import Module
    from gradlint.python.project import Definition


@dataclass(slots=True, eq=False)
class Frame:
    """One call of a function, or the top of a file."""

    #: where its code stands
    scope: Scope
    #: that round it
    outer: Frame | None = None
    names: dict[str, Value] = field(default_factory=dict)
    #: names that it says belong to a frame further out
    shared: set[str] = field(default_factory=set)
    #: the object whose method is running
    owner: Value | None = None
    #: what a domain remembers of this call
    state: object = None
    no_grad: bool = False
    returns: list[Value] = field(default_factory=list)

    @property
    def program(self) -> Module:
        """The file that its code stands in."""
        return self.scope.program

    @property
    def function(self) -> s.Def | None:
        return self.scope.definition

    @property
    def top(self) -> Frame:
        """That of the file in which its code stands."""
        frame = self
        while frame.outer is not None:
            frame = frame.outer
        return frame

    def inner(self, scope: Scope | None = None) -> Frame:
        """The names of what is called, or looked through, in this one."""
        return Frame(scope or self.scope, self)

    def entered(self, function: s.Def | s.Lambda) -> Frame:
        """A call of a function that was defined in this one; a lambda stands in the scope round it."""
        return Frame(self.program.once(Scopes).of_def.get(function.node, self.scope), self)

    def find(self, name: str) -> Value | None:
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names:
                return frame.names[name]
            frame = frame.outer
        return None

    def bind(self, name: str, value: Value) -> None:
        frame = self
        if name in self.shared:
            while frame.outer is not None and name not in frame.outer.names and frame.outer.outer is not None:
                frame = frame.outer
            frame = frame.outer or frame
        frame.names[name] = value


class Names:
    """What names mean where they are used; of the code of other files only what is asked for is run."""

    def __init__(
        self, module: Frame, evaluate: Callable[[s.Expr, Frame, str], Value], enter: Callable[[Frame], None],
        words: frozenset[str] | None = None,
    ) -> None:  # fmt: skip
        """`evaluate` gives the value of an expression in a frame, and of the name that it has there; `enter` is told of
        the frame of each other file; `words`: another file is followed if it has one of these."""
        self.module = module
        self._evaluate = evaluate
        self._enter = enter
        self._words = words
        #: those of the other files, by their places
        self._frames: dict[str, Frame] = {}
        #: the values that are being looked for
        self._asked: set[int] = set()
        #: frames that something sees which was made in them, by their ids
        self._seen: dict[int, Frame] = {}

    def look_up(self, name: str, frame: Frame, node: int = -1) -> Value | None:
        """What a name means in a frame; `node`: where it is used, for what is imported."""
        found = frame.find(name) or self._of_file(name, frame)
        if found is None:
            if name not in BUILTINS and name not in USUAL_NAMES:
                return None
            found = External(f"builtins.{name}" if name in BUILTINS else USUAL_NAMES[name])
        if type(found) is External and found.node < 0 and (node >= 0 or frame.program.project is not None):
            return self._meant(found.dotted, frame, name) or (found if node < 0 else External(found.dotted, node))
        return found

    def named(self, dotted: str, frame: Frame, node: int = -1) -> Value:
        """What a full name means in a frame: something of the project, or of a library."""
        if frame.scope.program.project is None:
            return External(dotted, node)
        return self._meant(dotted, frame, dotted.rpartition(".")[2]) or External(dotted, node)

    def frame_of(self, program: Module) -> Frame:
        """The names of a file; what it says of them is known from now on."""
        if program is self.module.program:
            return self.module
        frame = self._frames.get(program.location)
        if frame is None:
            frame = self._frames[program.location] = Frame(program.once(Scopes).module)
            self._enter(frame)
        return frame

    def seen(self, frame: Frame) -> Frame:
        """The frame, of which it is known from now on that a value in it may see it."""
        self._seen[id(frame)] = frame
        return frame

    def let_go(self) -> None:
        """Nobody looks anything up any more: frames and the values in them, which know each other, are gone at once."""
        for frame in (self.module, *self._frames.values(), *self._seen.values()):
            frame.names.clear()
            frame.returns.clear()
        vars(self).clear()

    def class_of(self, node: s.Class, near: Frame) -> Class:
        """A class that code in this frame derives from."""
        scope = (program := self.module.program.owner(node.node)).once(Scopes).of(node.node)
        frame: Frame | None = near
        while frame is not None and frame.scope is not scope:
            frame = frame.outer
        found = _defined(node, frame or self.frame_of(program))
        assert isinstance(found, Class)
        return found

    def _of_file(self, name: str, frame: Frame) -> Value | None:
        """What the text of the file says of a name that no code that was run has bound."""
        owner = frame.scope.owner(name)
        if owner is None:
            program = frame.scope.program
            return self._elsewhere(program.of_star(name), name) if program.project is not None else None
        if name in owner.imports:
            return External(owner.imports[name][0])
        top = frame.top
        if top is self.module or owner is not top.scope:
            return None
        if name in owner.defined:
            top.names[name] = _defined(owner.defined[name][-1], top)
        elif (value := owner.only(name)) is not None and (found := self._value(value, top, name)) is not None:
            top.names[name] = found
        return top.names.get(name)

    def _meant(self, dotted: str, frame: Frame, name: str) -> Value | None:
        program = frame.program
        return self._elsewhere(program.elsewhere(dotted), name) if program.project is not None else None

    def _elsewhere(self, found: Definition | None, name: str) -> Value | None:
        """What a name stands for that another file defines, if that is followed."""
        if found is None or (self._words is not None and found.program.all_words.seen.isdisjoint(self._words)):
            return None
        frame = self.frame_of(found.program)
        if found.node is None:
            return self._value(found.value, frame, name) if found.value is not None else None
        return _defined(found.node, frame)

    def _value(self, value: s.Expr, frame: Frame, name: str) -> Value | None:
        """None for whoever asks for it while it is looked for."""
        if id(value) in self._asked:
            return None
        self._asked.add(id(value))
        try:
            return self._evaluate(value, frame, name)
        finally:
            self._asked.discard(id(value))


def define(body: Iterable[s.Stmt], frame: Frame) -> None:
    """The functions and classes of a block have their names, unless these mean something else."""
    for name, stmt in {stmt.name: stmt for stmt in body if isinstance(stmt, s.Def | s.Class)}.items():
        if name not in frame.names:
            frame.names[name] = _defined(stmt, frame)


def _defined(node: s.Def | s.Class, frame: Frame) -> Function | Class:
    """What a definition stands for: what its name has, perhaps cut down to what matters, or itself."""
    known = frame.names.get(node.name)
    if isinstance(known, Function | Class) and known.node.node == node.node:
        return known
    return Function(node, frame, key=node.name) if isinstance(node, s.Def) else Class(node, frame)
