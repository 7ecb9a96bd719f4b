"""Finds the functions that cannot matter to gradients or to a loss: most of a large file is never looked at."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate

from gradlint.frontend.glance import may_hold_stack
from gradlint.knowledge.torch_api import EVENT_METHODS, HOOKS

#: whole words
_EVENTS = EVENT_METHODS - {"update", "scale", "accumulate"} | HOOKS | {"all_reduce", "require_backward_grad_sync"}
#: parts of words
_EVENT_PARTS = (
    "GradScaler", "autocast", "cuda.amp", "cpu.amp", "gradient_clip", "nullcontext", "fully_shard",
    "DataParallel", "contextmanager", "max_grad_norm", "accumulate_grad_batches", "deepspeed.initialize",
)  # fmt: skip
#: a loss may be divided by this where nothing else is said about gradients
_ACCUMULATION = "gradient_accumulation"
#: what the rules about numbers and models ask for
_CRITERIA = ("cross_entropy(", "nll_loss(", "CrossEntropyLoss", "NLLLoss", "BCELoss")
_LOGS = ("log(", "log1p(", "log2(", "log10(")
_NUMBERS = (*_CRITERIA, "sqrt(", "exp(", "checkpoint(", "checkpoint_sequential(", "** 0.5", "**0.5")
#: where a softmax may meet its criterion or a logarithm, these count, too; and where activations may make a stack
_PROBABILITIES = ("oftmax(", "igmoid(")
_LAYERS = (*_PROBABILITIES, "anh(")
_STACKED = "Sequential("
#: `math.log`, `logger.log`, `catalog(`
_NO_NUMBER = re.compile(r"(?:math|np|logger|self)\.$|[a-zA-Z]_?$")
_WORD = re.compile(r"\w+")
_BEHIND_CALL = ("(", ",", ")")
#: below this a file is read whole: looking for what to leave out costs more than it saves
_SMALL = 6_000
#: in larger files a forward without such words is not followed
_MODELS_FOLLOWED = 40_000
#: names that say nothing about who calls whom
_COMMON = frozenset({"__init__", "forward", "__call__"})
#: functions that a rule may read though no event stands in them
_KEPT = frozenset({"__init__", "training_step", "__call__", "compute_loss"})

_Definition = ast.FunctionDef | ast.AsyncFunctionDef


def unread(tree: ast.Module, text: str) -> frozenset[int]:
    """The (ids of the) functions with nothing of interest that no function of interest calls."""
    if len(text) < _SMALL or not counts_lines(text):
        return frozenset()
    functions = _Functions(tree, text)
    keep = functions.with_events() | functions.with_numbers()
    return frozenset(id(d) for d in functions.all if id(d) not in keep)


def counts_lines(text: str) -> bool:
    """Whether every line ends as most do; Python also ends one at a lone carriage return, and counts it."""
    return text.count("\r") == text.count("\r\n")


def abridged(
    tree: ast.Module, text: str, left_out: Collection[int], spoken_of: Collection[int] | None = None
) -> str:  # fmt: skip
    """The text with the bodies blanked that are left out: every line that is left keeps its number.

    libcst takes a second for a large model file. What the scout has not looked at need not be read again; and if the
    lines that were spoken of are known, only the functions that these stand in, and what they call, are left.
    """
    lines = _lines(text)
    keep = None if spoken_of is None else _Functions(tree, text).round(spoken_of)
    for definition in _definitions(tree.body):
        if id(definition) in left_out or (keep is not None and id(definition) not in keep):
            _blank(lines, definition)
    if spoken_of is not None and keep is not None:
        for cls in tree.body:
            if isinstance(cls, ast.ClassDef) and not any(id(d) in keep for d in _definitions(cls.body)):
                if not any(cls.lineno <= line <= (cls.end_lineno or 0) for line in spoken_of):
                    _blank(lines, cls)
    return "".join(lines)


def _blank(lines: list[str], node: _Definition | ast.ClassDef) -> None:
    first, last = node.body[0].lineno, node.end_lineno or node.body[0].lineno
    if isinstance(node.body[0], _Definition) and node.body[0].decorator_list:
        first = node.body[0].decorator_list[0].lineno
    indent = lines[first - 1][: node.body[0].col_offset]
    if first > node.lineno and not indent.strip():
        lines[first - 1] = f"{indent}pass\n"
        lines[first:last] = ["\n"] * (last - first)


class _Functions:
    """The functions and methods of a file, found by words in their text.

    Plain searches over the whole text are many times faster than a regular expression for each function.
    """

    def __init__(self, tree: ast.Module, text: str) -> None:
        self.all = list(_definitions(tree.body))
        #: the class that a method belongs to, by its number
        self._homes = {
            id(d): number if isinstance(stmt, ast.ClassDef) else -1
            for number, stmt in enumerate(tree.body)
            for d in _definitions([stmt])
        }
        #: and its name
        self._classes = {
            id(d): stmt.name for stmt in tree.body if isinstance(stmt, ast.ClassDef) for d in _definitions([stmt])
        }
        self._text = text
        #: the characters before each line, without the ends of lines
        ahead = [0, *accumulate(map(len, text.split("\n")))]

        def start(line: int) -> int:
            return ahead[line - 1] + line - 1

        self._spans = {id(d): (start(d.lineno), start((d.end_lineno or d.lineno) + 1)) for d in self.all}
        #: the words of those that were asked about
        self._said: dict[int, set[str]] = {}
        self._starts = [self._spans[id(d)][0] for d in self.all]

    def round(self, lines: Collection[int]) -> set[int]:
        """The functions round these lines, what they call, and the constructors of their classes."""
        found = {id(d) for d in self.all if any(d.lineno <= line <= (d.end_lineno or 0) for line in lines)}
        return self._with_helpers(found)

    def _with_helpers(self, found: set[int]) -> set[int]:
        """These, what they call, and the constructors of their classes."""
        called = self._called(found)
        found = found | {id(d) for d in self.all if d.name in called} | self._dividing(found)
        homes = {self._homes[key] for key in found}
        return found | {id(d) for d in self.all if d.name == "__init__" and self._homes[id(d)] in homes}

    def with_events(self) -> set[int]:
        """Functions with event words, those that call them, and what they call."""
        strong = self._at(place for word in _EVENTS for place in self._words(word))
        strong |= self._at(place for part in _EVENT_PARTS for place in self._places(part))
        strong |= self._at(
            place for place in self._places(".grad") if not (self._text[place + 5 : place + 6] + " ")[0].isidentifier()
        )
        fresh = self._names(strong)
        while fresh:
            found = self._at(place for name in fresh for place in self._words(name)) - strong
            strong |= found
            fresh = self._names(found)
        if not strong and _ACCUMULATION not in self._text:
            return strong
        wanted = self._called(strong) | _KEPT
        helpers = {id(d) for d in self.all if d.name in wanted and d.name != "forward"}
        return strong | helpers | self._dividing(strong | helpers)

    def _dividing(self, keys: set[int]) -> set[int]:
        """The forwards of classes that these speak of, if they divide: a criterion may normalise the loss itself."""
        said = self._words_in(keys)
        forwards = [d for d in self.all if d.name == "forward" and self._text.find("/", *self._spans[id(d)]) > 0]
        return {id(d) for d in forwards if self._classes.get(id(d), "") in said or self._is_made_outside(d)}

    def _is_made_outside(self, method: _Definition) -> bool:
        """The script itself makes an object of its class."""
        name = self._classes.get(id(method))
        return name is not None and any(
            self._text.startswith("(", place + len(name)) and not self._text.endswith("class ", 0, place)
            for place in self._words(name)
            if not self._at((place,))
        )

    def with_numbers(self) -> set[int]:
        """Functions with delicate numbers or activations, and the helpers that they call."""
        logs = self._numbers(_LOGS)
        found = self._numbers(_NUMBERS) | logs
        stack = may_hold_stack(self._text.encode())
        if stack:
            found |= self._at(self._places(_STACKED))
        if stack or any(word in self._text for word in _CRITERIA):
            found |= self._at(place for word in _LAYERS for place in self._places(word))
            if len(self._text) < _MODELS_FOLLOWED:
                found |= {id(d) for d in self.all if d.name == "forward"}
        elif logs and len(self._text) < _MODELS_FOLLOWED:
            found |= self._at(place for word in _PROBABILITIES for place in self._places(word))
        if found and len(self._text) < _MODELS_FOLLOWED:
            # what a helper or a forward gives becomes a loss where it is called
            found |= self._at(place for word in ("loss", "criterion") for place in self._places(word))
        return self._with_helpers(found)

    def _numbers(self, words: Iterable[str]) -> set[int]:
        return self._at(place for word in words for place in self._places(word) if self._is_number(place))

    def _is_number(self, place: int) -> bool:
        return _NO_NUMBER.search(self._text[max(0, place - 8) : place]) is None

    def _names(self, keys: set[int]) -> set[str]:
        return {d.name for d in self.all if id(d) in keys} - _COMMON

    def _called(self, keys: set[int]) -> set[str]:
        """The functions of the file that these call, hand on, or take from self."""
        said = self._words_in(keys)
        return {
            name
            for name in said & {d.name for d in self.all} - _COMMON
            if any(self._is_called(name, place) and self._at((place,)) & keys for place in self._words(name))
        }

    def _words_in(self, keys: set[int]) -> set[str]:
        said: set[str] = set()
        for key in keys:
            if key not in self._said:
                self._said[key] = set(_WORD.findall(self._text, *self._spans[key]))
            said |= self._said[key]
        return said

    def _is_called(self, name: str, place: int) -> bool:
        end = place + len(name)
        return self._text[end : end + 1] in _BEHIND_CALL or self._text.endswith("self.", 0, place)

    def _at(self, places: Iterable[int]) -> set[int]:
        """The functions that these places are in."""
        found: set[int] = set()
        for place in places:
            index = bisect_right(self._starts, place) - 1
            if index >= 0 and place < self._spans[id(self.all[index])][1]:
                found.add(id(self.all[index]))
        return found

    def _words(self, word: str) -> Iterator[int]:
        """Where a whole word stands."""
        for place in self._places(word):
            before, behind = self._text[place - 1 : place], self._text[place + len(word) : place + len(word) + 1]
            if not (before.isalnum() or before == "_" or behind.isalnum() or behind == "_"):
                yield place

    def _places(self, part: str) -> Iterator[int]:
        place = self._text.find(part)
        while place >= 0:
            yield place
            place = self._text.find(part, place + len(part))


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+$", text)


def _definitions(body: list[ast.stmt]) -> Iterator[_Definition]:
    """Functions of the module and methods of its classes."""
    for stmt in body:
        if isinstance(stmt, _Definition):
            yield stmt
        elif isinstance(stmt, ast.ClassDef):
            yield from _definitions(stmt.body)
