"""Decides from the bytes of a file whether a rule can have anything to say about it: most files are never parsed.

What has to be in a file follows from what a rule declares (its hooks, `calls`, `operations`, `configured`, `needs`, and
`words` with `looks`) and from the words that `knowledge` has for it, and from nothing else. A *clause* is all that must
be there for one hook of one rule; one clause of one rule is enough. What is asked of a file is answered once, whatever
the number of rules.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from gradlint.events import Backward, Clip, Mark, Schedule, Step, Unscale, Update
from gradlint.knowledge import looks
from gradlint.knowledge.rows import About, Setting
from gradlint.knowledge.torch_api import USUAL_NAMES
from gradlint.knowledge.words import Need, Stems, Text, as_bytes, needs, stems
from gradlint.registry import all_rules
from gradlint.rule import EVENT_HOOKS
from gradlint.subjects import ClipSetting, DivisionSetting, Kind

if TYPE_CHECKING:
    from gradlint.rule import Rule

#: one of these has to be there; an operation, or layers in a row, have to look like it, too
Part = frozenset[Need] | Kind | str
Clause = tuple[Part, ...]

#: loops are everywhere: a mark has no words
_EVENTS: dict[str, About] = {hook: event for event, hook in EVENT_HOOKS.items() if event is not Mark}
_SETTINGS: dict[type, About] = {ClipSetting: Setting.LIMIT, DivisionSetting: Setting.DIVISION}
#: events that few files have; one of them is in each clause of what stands on paths
_TELLING = (Unscale, Update, Backward, Schedule, Step, Clip)
#: what is asked on the way along a path
_PATHS = frozenset({*_EVENTS, "on_mark", "on_trace"})
STACK = "layers in a row"
#: a file below this size is read as quickly as it is looked through for comments
_SMALL = 2_000


class _Held:
    """What is in one file, each part looked for once."""

    def __init__(self, given: bytes, stems: Stems, others: bytes = b"", own: _Held | None = None) -> None:
        """`others`: code of other files, without comments and prose, that counts as if it stood in the file, of which
        `own` knows what it holds by itself."""
        self.given = given
        self.source: bytes = as_python_reads(given) if own is None else own.source + others
        self._others = others
        self.text = Text(self.source, stems)
        if own is not None:
            self.text.known = {word: True for word, found in own.text.known.items() if found}
        self._known: dict[Part, bool] = {}
        self._in_code: dict[Part, bool] = {}
        self._code: Text | None = None

    def all_of(self, clause: Clause) -> bool:
        return all(map(self.part, clause))

    def for_certain(self, clause: Clause) -> bool:
        """The same if words in comments and in prose do not count; how operations look is seen in the file as it is."""
        if not self.all_of(clause):
            return False
        return len(self.source) < _SMALL or all(map(self._stands_in_code, clause))

    def _stands_in_code(self, part: Part) -> bool:
        if not isinstance(part, frozenset):
            return True
        found = self._in_code.get(part)
        if found is None:
            if self._code is None:  # few files come so far
                own = self.source[: len(self.source) - len(self._others)]
                self._code = Text(without_prose(own) + self._others, self.text.stems)
            found = self._in_code[part] = any(need.is_in(self._code) for need in part)
        return found

    def part(self, part: Part) -> bool:
        found = self._known.get(part)
        if found is None:
            if isinstance(part, frozenset):
                found = any(need.is_in(self.text) for need in part)
            elif isinstance(part, Kind):
                found = looks.may_hold(self.source, part)
            else:
                found = looks.may_hold_stack(self.source)
            self._known[part] = found
        return found


class Prefilter:
    """The clauses of some rules."""

    def __init__(self, rules: Iterable[type[Rule]]) -> None:
        chosen = list(rules)
        self._of = {rule.meta.code: tuple(clauses_of(rule)) for rule in chosen}
        self._clauses = _least({clause for found in self._of.values() for clause in found})
        #: what stands on a path may be in several files; a call, an operation or layers are those of one file
        self._on_paths = _least({c for rule in chosen for c in clauses_of(rule, rule.hooks & _PATHS)})
        self._telling = tuple(map(needs, _TELLING))
        self._training = (needs(Backward), needs(Step))
        ask = self.telling
        self._asking: dict[Part, Callable[[bytes], frozenset[Part]]] = dict.fromkeys(self._telling, ask)
        groups = (part for clause in self._clauses for part in clause if isinstance(part, frozenset))
        self._stems = stems({word for group in groups for need in group for word in (*need.words, *need.beside)})
        self._gates = _Gates(self._clauses, self._stems)
        self._last = _Held(b"", self._stems)

    def accepts(self, source: bytes) -> bool:
        """Whether the file is worth reading by itself."""
        if self._last.given == source:  # it was asked about just now
            return any(map(self._last.for_certain, self._clauses))
        self._last = held = _Held(source, self._stems)
        clauses, held.text.known = self._gates.open(held.source)
        return any(map(held.for_certain, clauses))

    def accepts_with(self, source: bytes, elsewhere: Callable[[Part], bool]) -> bool:
        """Whether it is with what is in the files that it imports; where it has nothing of its own, they must train.

        What few files have is asked of these first.
        """
        held = self._held(source)
        whole = (
            clause for clause in self._on_paths
            if all(elsewhere(part) or held.part(part) for part in clause if part in self._telling)
            and all(held.part(part) or elsewhere(part) for part in clause)
        )  # fmt: skip
        return any(any(map(elsewhere, self._training)) or any(map(held.part, clause)) for clause in whole)

    def holds_any(self, source: bytes) -> bool:
        """Whether anything is in a file that is asked for, though perhaps not all of a clause."""
        held = self._held(source)
        return any(held.part(part) for clause in self._clauses for part in clause)

    def speaking(self, source: bytes, others: bytes = b"") -> frozenset[str]:
        """The codes of the rules that can have anything to say about the file, with code of others."""
        held = self._held(source)
        if others:
            held = _Held(source, self._stems, others, held)
        return frozenset(code for code, clauses in self._of.items() if any(map(held.for_certain, clauses)))

    def _held(self, source: bytes) -> _Held:
        """A file that is let in is asked about again at once: by whom it is read, and who can speak of it."""
        if self._last.given != source:
            self._last = _Held(source, self._stems)
        return self._last

    def asking(self, part: Part) -> Callable[[bytes], frozenset[Part]]:
        """Who tells whether a part is in a text, and perhaps others with it; who is asked once need not be again."""
        if part not in self._asking:
            self._asking[part] = lambda source: frozenset(filter(_Held(source, self._stems).part, (part,)))
        return self._asking[part]

    def any_of(self, texts: Iterable[bytes]) -> Callable[[Part], bool]:
        """Whether a part is in one of these."""
        held = [_Held(text, self._stems) for text in texts]
        return lambda part: any(one.part(part) for one in held)

    def telling(self, source: bytes) -> frozenset[Part]:
        """What of that which few files have is in this one."""
        return frozenset(filter(_Held(source, self._stems).part, self._telling))


@functools.cache
def prefilter(codes: frozenset[str] | None = None) -> Prefilter:
    """For the rules of these codes; None: for those that are on unless somebody turns them off."""
    return Prefilter(r for r in all_rules() if (r.meta.default if codes is None else r.meta.code in codes))


class _Gates:
    """A first look: of each clause the shortest words of some parts. They are looked for in each file, and in many of
    them that is all."""

    def __init__(self, clauses: Iterable[Clause], stems: Stems) -> None:
        self._stems = stems
        self._bits: dict[bytes, int] = {}
        ordered = sorted(clauses, key=len)  # where there is only one part, its words are looked for in any case
        self._asked = tuple((clause, tuple(self._asked_of(clause))) for clause in ordered)
        self._open: dict[int, tuple[Clause, ...]] = {}

    def open(self, source: bytes) -> tuple[tuple[Clause, ...], dict[bytes, bool]]:
        """The clauses that may be whole in a file, and what was looked for."""
        words = {word: word in source for word in self._bits}
        found = sum(bit for word, bit in self._bits.items() if words[word])
        clauses = self._open.get(found)
        if clauses is None:  # few answers differ
            clauses = tuple(clause for clause, asked in self._asked if all(found & one for one in asked))
            self._open[found] = clauses
        return clauses, words

    def _asked_of(self, clause: Clause) -> Iterator[int]:
        """Of each part that is looked for any way the bits of its words; of one part in any case."""
        words = [frozenset().union(*self._of(part)) for part in clause]
        known = [group for group in words if group <= self._bits.keys()] or words[:1]
        for group in known:
            yield sum(self._bits.setdefault(word, 1 << len(self._bits)) for word in group)

    def _of(self, part: Part) -> Iterator[frozenset[bytes]]:
        """One of these is in each file in which a part is."""
        if isinstance(part, Kind):
            yield frozenset(looks.words_of(part))
        elif isinstance(part, str):
            yield frozenset(looks.STACK_WORDS)
        else:
            for need in part:
                words, beside = map(self._shortest, (need.words, need.beside))
                yield beside if beside and beside <= self._bits.keys() else words

    def _shortest(self, words: frozenset[bytes]) -> frozenset[bytes]:
        while not words.isdisjoint(self._stems):
            words = frozenset(self._stems[word][0] if word in self._stems else word for word in words)
        return words


def _least(clauses: set[Clause]) -> list[Clause]:
    """A clause that asks for more than another one adds nothing."""
    least = [c for c in clauses if not any(set(other) < set(c) for other in clauses)]
    return sorted(least, key=lambda clause: [_cost(part) for part in clause])


def clauses_of(rule: type[Rule], hooks: Iterable[str] | None = None) -> Iterator[Clause]:
    """What a file must hold for each hook of a rule; a rule from which nothing follows is refused."""
    always = {looks.alike(need) if isinstance(need, Kind) else needs(need) for need in rule.needs}
    for hook in sorted(rule.hooks if hooks is None else hooks):
        for found in list(_of_hook(rule, hook)) or [()]:
            if not found and not always:
                raise ValueError(f"{rule.meta.code}: nothing follows from {hook} by which a file could be found")
            yield tuple(sorted({*found, *(always if hook != "on_setting" else ())}, key=_cost))


def _of_hook(rule: type[Rule], hook: str) -> Iterator[tuple[Part, ...]]:
    if hook in _EVENTS:
        yield (needs(_EVENTS[hook]),)
    elif hook == "on_operation":
        # an operation that the rule needs is there in any case; else each of them will do
        kinds = map(looks.alike, rule.operations)
        yield from ([()] if any(isinstance(x, Kind) for x in rule.needs) else [(kind,) for kind in kinds])
    elif hook == "on_setting":
        yield from [(needs(_SETTINGS[kind]),) for kind in rule.configured]
    elif hook == "on_stack":
        yield (STACK,)
    elif hook == "on_file" and rule.words:
        yield (frozenset({Need(as_bytes(rule.words), looks=re.compile(rule.looks.encode()) if rule.looks else None)}),)
    elif hook in ("on_call", "on_file"):
        yield from (_of_call(name) for name in rule.calls)
    else:  # `on_mark` and `on_trace`: there are paths wherever there is what the rule needs
        yield ()


def _of_call(name: str) -> tuple[Part, ...]:
    """It is called, or imported under another name; and its modules stand somewhere, but for a well-known last part."""
    *modules, last = name.split(".")
    called = Need(as_bytes((last,)), looks=re.compile(rf"\b{last}\s*[(,)]|\b{last} as\b".encode()))
    if len(modules) < 2 or USUAL_NAMES.get(last) == name:
        return (frozenset({called}),)
    pairs = (".".join(two) for two in pairwise((*modules, last)))
    return frozenset({called}), frozenset({Need(as_bytes(tuple(pairs)[:2]))})


def _cost(part: Part) -> tuple[int, int, str]:
    """What is quickly seen to be missing comes first."""
    if not isinstance(part, frozenset):
        return 2, 0, str(part)
    words = sorted(word for need in part for word in need.words)
    return int(len(part) > 1), len(words) - min(map(len, words)), str(words)


def as_python_reads(source: bytes) -> bytes:
    """Names are the same however wide or ornate their letters are."""
    if source.isascii():
        return source
    try:
        text = source.decode()
    except UnicodeDecodeError:
        return source
    return source if unicodedata.is_normalized("NFKC", text) else unicodedata.normalize("NFKC", text).encode()


# -- words in comments and prose are none of the code ------------------------------------------------------------------


#: in front of an f-string or a t-string, which may be raw as well
_COMPUTES = re.compile(rb"[fFtT][rR]?\Z")
_SPACE = re.compile(rb"\s")
_HOLE = re.compile(rb"\{[^{}]*\}")


@functools.cache  # made when somebody asks: the small files of a short run do not
def _piece() -> re.Pattern[bytes]:
    """A comment, a string in quotes of any kind, or a quotation mark that ends nothing."""
    return re.compile(
        rb'#[^\r\n]*|"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
        rb"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
        rb'|"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"|\'[^\'\\\r\n]*(?:\\.[^\'\\\r\n]*)*\'|["\']',
        re.DOTALL,
    )


class _UnclearError(Exception):
    """Where a string ends cannot be told without a parser."""


@functools.lru_cache(maxsize=1)  # the same file is asked about twice: whether to read it, and who can speak of it
def without_prose(source: bytes) -> bytes:
    """Without comments and without the text of strings that hold more than one word; as it is where that is unclear.

    Nothing is read out of such strings: a word that stands for a name stands alone. What an f-string computes stays.
    """
    try:
        return _piece().sub(_code_of, source)
    except _UnclearError:
        return source


def _code_of(piece: re.Match[bytes]) -> bytes:
    text = piece[0]
    if text[:1] == b"#":
        return b""
    if len(text) == 1:
        raise _UnclearError
    start = piece.start()
    if _COMPUTES.search(piece.string, max(0, start - 2), start):
        # what it computes may have strings in the same quotation marks, since Python 3.12
        if b"{{" in text or b"}}" in text or text.count(b"{") != text.count(b"}"):
            raise _UnclearError
        if not _SPACE.search(text) or b"{" in _HOLE.sub(b"", text):
            return text
        return b'""' + b" ".join(_HOLE.findall(text))
    return b'""' if _SPACE.search(text) else text
