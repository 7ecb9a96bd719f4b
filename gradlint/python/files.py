"""The other files of a project, as an evaluator meets them: of their code only what is asked for is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.python import syntax as s
from gradlint.python.classes import Classes
from gradlint.python.scope import Scopes
from gradlint.python.values import Class, External, Frame, Function, Value

if TYPE_CHECKING:
    from gradlint.python.evaluate import Evaluator
    from gradlint.python.module import Module


class Files:
    """What names mean that are imported, or used in a function of another file."""

    def __init__(self, core: Evaluator, words: frozenset[str]) -> None:
        """`words`: a file is followed if it has one of these."""
        self._core = core
        self._words = words if core.program.project is not None else frozenset()
        #: the other files, by their frames
        self._programs: dict[int, Module] = {}
        self._frames: dict[int, Frame] = {}

    def find(self, name: str) -> Value | None:
        """What a name is where the evaluator stands."""
        core = self._core
        found = core.frame.find(name)
        if found is not None or not self._programs:
            return found or core.module.names.get(name)
        top = core.frame.top
        return self._of_module(name, top) if id(top) in self._programs else core.module.names.get(name)

    def named(self, dotted: str, node: int) -> Value:
        """What a full name means at a place: something of the project, or of a library."""
        return self._elsewhere(dotted) or External(dotted, node)

    def _elsewhere(self, dotted: str) -> Value | None:
        """What it means in the other files of the project, as far as they are followed."""
        if not self._words:
            return None
        program = self._programs.get(id(self._core.frame.top), self._core.program)
        found = program.elsewhere(dotted)
        if found is None or found.program.all_words.seen.isdisjoint(self._words):
            return None
        top = self._frame_of(found.program)
        if isinstance(found.node, s.Def):
            return Function(found.node, top)
        return Class(found.node, top) if found.node is not None else None

    def classes_of(self, cls: s.Class) -> Classes:
        """Those of the file that defines a class."""
        core = self._core
        return core.classes if not self._programs else core.program.owner(cls.node).once(Classes)

    def _frame_of(self, program: Module) -> Frame:
        core = self._core
        top = self._frames.get(id(program))
        if top is None:
            top = self._frames[id(program)] = core.module if program is core.program else Frame()
            if program is not core.program:
                self._programs[id(top)] = program
                top.state = core.domain.enter(top, core.module)
        return top

    def _of_module(self, name: str, top: Frame) -> Value | None:
        """A name of another file, in the words of that file."""
        scope = self._programs[id(top)].once(Scopes).module
        if name in scope.defined:
            node = scope.defined[name][-1]
            top.names[name] = Function(node, top) if isinstance(node, s.Def) else Class(node, top)
        elif name in scope.imports:
            return External(scope.imports[name][0])
        else:
            value = scope.only(name)
            if value is not None:
                core = self._core
                top.names[name] = core.domain.unknown(name)  # for whoever asks for it while it is looked for
                caller, core.frame = core.frame, top
                try:
                    top.names[name] = core.ev(value)
                finally:
                    core.frame = caller
        return top.names.get(name)
