"""What of the other files of a project a file may come by: found by names alone, before anything of them is parsed."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TypeVar, cast

from gradlint.python.named import ELSEWHERE, Asked, Named, files_of
from gradlint.python.outline import Outline, Piece, words_in
from gradlint.python.roots import Roots, shared
from gradlint.records import dataclass, field

#: all that one analysis reads of other files
MOST_READ = 64_000
#: how many files lie between a file and what it may come by, and how many pieces are looked at on the way
_FARTHEST = 3
_MOST_PIECES = 600
#: how often a name may lead on to another file
MOST_HOPS = 4
#: how many modules of which all names are imported are searched for one that is not named
_MOST_STARS = 16
_MOST_OUTLINES = 4096
#: a definition that is no longer, and a value, is read for its own sake by whoever names it
_SHORT = 600
_LONGEST_VALUE = 4_000

T = TypeVar("T")

#: a piece of a file
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a full name means: a file, and names in it."""

    path: str
    names: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Kept:
    """What is read of other files: pieces by their numbers, and what was left out, in sentences."""

    pieces: dict[str, frozenset[int]] = field(default_factory=dict)
    #: the last parts of all names that mean something of these
    names: set[str] = field(default_factory=set)
    asked: Asked = field(default_factory=Asked)
    exhausted: list[str] = field(default_factory=list)


class Surroundings:
    """The files below some folders. All that is known of them stays known: it is made for one look at the disk."""

    def __init__(self, folders: Sequence[str]) -> None:
        self.roots = Roots(folders)
        self.named = Named(self.roots)
        self._found: dict[tuple[str, str, int], tuple[Meaning | None, Asked]] = {}
        self._sought: dict[tuple[tuple[str, ...], int, tuple[str, ...], int], tuple[Meaning | None, Asked]] = {}
        self._gives: dict[tuple[str, tuple[str, ...], int], tuple[Meaning | None, Asked]] = {}
        self._next: dict[Place, tuple[tuple[Place, ...], Asked]] = {}
        self._last: tuple[str, bytes, Kept] | None = None
        self._outlines: dict[str, Outline | None] = {}
        #: what was made of a file, and of what is readable of it
        self._made: dict[tuple[str, Callable[[bytes], object], bool], object] = {}
        #: what a piece is called wherever it is asked for
        self._called: dict[Place, set[str]] = {}

    def outline(self, path: str) -> Outline | None:
        """What stands at the top of a file; None if it is not there."""
        if path not in self._outlines:
            data = self.roots.read(path)
            if len(self._outlines) >= _MOST_OUTLINES:
                del self._outlines[next(iter(self._outlines))]
            self._outlines[path] = None if data is None else outline_of(data)
        return self._outlines[path]

    # -- names

    def find(self, dotted: str, importer: str, asked: Asked, hops: int = MOST_HOPS) -> Meaning | None:
        """The file that defines what a full name of an import means, seen from another one."""
        key = os.path.dirname(importer), dotted, hops
        if key not in self._found:
            self._found[key] = self._seen_from(*key)
        found, inner = self._found[key]
        asked.add(inner)
        return found

    def _seen_from(self, folder: str, dotted: str, hops: int) -> tuple[Meaning | None, Asked]:
        """The same from a folder; from many of them a name is looked for in the same ones."""
        level = len(dotted) - len(dotted.lstrip("."))
        parts = tuple(part for part in dotted[level:].split(".") if part)
        if not level and (not parts or parts[0] in ELSEWHERE):
            return None, Asked()
        asked = Asked()
        key = self.named.bases(folder, level, frozenset(files_of(parts[0]) if parts else ()), asked), level, parts, hops
        if key not in self._sought:
            inner = Asked()
            self._sought[key] = self._search(*key, inner), inner
        found, inner = self._sought[key]
        asked.add(inner)
        return found, asked

    def _search(
        self, bases: Iterable[str], level: int, parts: Sequence[str], hops: int, asked: Asked
    ) -> Meaning | None:
        for base in bases:
            for length in range(len(parts), 0 if parts else -1, -1):
                path = self.named.module(os.path.join(base, *parts[:length]), asked)
                if path is not None:
                    found = self._inside(path, parts[length:], hops, asked)
                    if found is None and length < len(parts) - 1:
                        self._miss(path, parts[length], asked)
                    return found
            if level and parts:
                asked.miss(os.path.join(base, *(parts[:-1] or parts)) + ".py")
        return None

    def _miss(self, package: str, name: str, asked: Asked) -> None:
        """Take down that an import names a file which is not there; a package may define the name itself."""
        outline = self.outline(package) if package.endswith("__init__.py") else None
        if outline is not None and not outline.binds(name.encode()):
            asked.miss(os.path.join(os.path.dirname(package), name) + ".py")

    def _inside(self, path: str, names: Sequence[str], hops: int, asked: Asked) -> Meaning | None:
        """A name of a file, a name of a class of it, or the file itself."""
        if not names:
            return Meaning(path, ())
        outline = self.outline(path) if len(names) <= 2 else None
        if outline is None:
            return None
        first = names[0].encode()
        if first in outline.defined:
            return Meaning(path, tuple(names))
        if first in outline.imports:
            onward = ".".join((outline.imports[first][0], *names[1:]))
            return self.find(onward, path, asked, hops - 1) if hops else None
        if first in outline.names:
            return Meaning(path, tuple(names)) if len(names) == 1 else None
        for star in outline.stars[:_MOST_STARS] if hops else ():
            module = self.find(star, path, asked, hops - 1)
            if module is not None and not module.names:
                found = self._given(module.path, tuple(names), hops - 1, asked)
                if found is not None:
                    return found
        return None

    def _given(self, path: str, names: tuple[str, ...], hops: int, asked: Asked) -> Meaning | None:
        """The same of a module of which all names are imported; most of these are asked for most names."""
        key = path, names, hops
        if key not in self._gives:
            inner = Asked(path)
            words = self.once(path, words_in) or frozenset()
            may = names[0].encode() in words or b"*" in words
            self._gives[key] = self._inside(path, names, hops, inner) if may else None, inner
        found, inner = self._gives[key]
        asked.add(inner)
        return found

    def once(self, path: str, make: Callable[[bytes], T]) -> T | None:
        """What a function makes of the content of a file; it is asked once."""
        if (path, make, False) not in self._made:
            data = self.roots.read(path)
            self._made[path, make, False] = None if data is None else make(data)
        return cast("T | None", self._made[path, make, False])

    def readable(self, path: str, make: Callable[[bytes], T]) -> T | None:
        """The same of the code of a file that may be read for the sake of others: without strings and comments, and
        without what is too long for that."""
        if (path, make, True) not in self._made:
            outline = self.outline(path)
            pieces = () if outline is None else (piece.code for piece in outline.pieces if not _is_too_long(piece))
            self._made[path, make, True] = None if outline is None else make(b"\n".join(pieces))
        return cast("T | None", self._made[path, make, True])

    # -- what a file may come by

    def kept(self, path: str, source: bytes) -> Kept:
        """What there is to read of other files for the sake of a text."""
        if self._last is None or self._last[0] != path or self._last[1] != source:
            self._last = path, source, self._collect(path, Piece.whole(source))
        return self._last[2]

    def _collect(self, path: str, whole: Piece) -> Kept:
        """From one piece to the next; no further than enough was found to read."""
        kept = Kept()
        after: dict[Place, tuple[Place, ...]] = {}
        matters = _matters_to(whole)
        begin: set[Place] = set()
        distances: dict[Place, int] = {}
        later: list[Place] = []
        left = MOST_READ
        for place in self._in_turn(whole, path, begin, later, kept.asked):
            piece = self._piece(place)
            left -= piece.end - piece.start if matters(piece) else 0
            if left < 0 or len(after) >= _MOST_PIECES:
                kept.exhausted.append(f"{place[0]} was not read to its end: enough other files were")
                # what is read may have names, too, that did not have their turn
                kept.names.update(part for one in whole.imports for part in one.dotted.split(".")[-2:])
                break
            after[place], asked = self._after(place)
            kept.asked.add(asked)
            for other in after[place]:
                distance = (1 if place in begin else distances[place]) + (other[0] != place[0])
                if other not in distances and distance <= _FARTHEST:
                    distances[other] = distance
                    later.append(other)
        self._take(kept, after, begin, matters)
        return kept

    def _in_turn(self, whole: Piece, path: str, begin: set[Place], later: list[Place], asked: Asked) -> Iterator[Place]:
        """The pieces that a text itself names, and then those that are found on the way; no name is looked for before
        it has its turn: there may be enough to read by then."""
        for place in self._imported(whole, path, Outline([]), asked):
            if place not in begin:
                begin.add(place)
                yield place
        yield from (place for place in later if place not in begin)  # it grows

    def _take(
        self, kept: Kept, after: Mapping[Place, tuple[Place, ...]], begin: Set[Place],
        matters: Callable[[Piece], bool],
    ) -> None:  # fmt: skip
        """Take the pieces that matter, those that lead to one, and the short ones that they name."""
        places = list(after)
        piece_at = {place: self._piece(place) for place in places}
        before: dict[Place, list[Place]] = {}
        for place in places:
            for other in after[place]:
                before.setdefault(other, []).append(place)
        needed = {place for place in places if matters(piece_at[place])}
        _spread(needed, lambda place: before.get(place, ()))
        short = {place for place in places if _is_short(piece_at[place])}
        beside = {place for place in short if place in begin}
        beside |= {other for place in needed for other in after[place] if other in short}
        _spread(beside, lambda place: [other for other in after[place] if other in short])
        chosen: dict[str, set[int]] = {}
        for path, number in (place for place in places if place in needed or place in beside):
            chosen.setdefault(path, set()).add(number)
            kept.names |= self._called.get((path, number), set())
        for path, numbers in chosen.items():
            kept.pieces[path] = frozenset(numbers | self._importing(path, numbers))

    def _importing(self, path: str, numbers: set[int]) -> set[int]:
        """The import statements of the names in some pieces."""
        outline = self.outline(path)
        assert outline is not None
        words = frozenset().union(*(outline.pieces[number].words for number in numbers))
        found = {number for name in words & outline.importing.keys() for number in outline.importing[name]}
        return found | {n for n, piece in enumerate(outline.pieces) if any(x.local == b"*" for x in piece.imports)}

    def _piece(self, place: Place) -> Piece:
        outline = self.outline(place[0])
        assert outline is not None
        return outline.pieces[place[1]]

    def _after(self, place: Place) -> tuple[tuple[Place, ...], Asked]:
        """The pieces that a piece leads to at once."""
        if place not in self._next:
            path, number = place
            outline = self.outline(path)
            assert outline is not None
            asked = Asked(path)
            piece = outline.pieces[number]
            beside = (outline.defined, outline.names)
            own = ((path, n) for table in beside for name in sorted(piece.words & table.keys()) for n in table[name])
            found = dict.fromkeys((*own, *self._imported(piece, path, outline, asked)))
            found.pop(place, None)
            self._next[place] = tuple(found), asked
        return self._next[place]

    def _imported(self, piece: Piece, path: str, outline: Outline, asked: Asked) -> Iterator[Place]:
        """The pieces of other files that the imports of its file, and its own, give a piece."""
        for name in sorted(piece.words & outline.imports.keys()) if outline.imports else ():
            for dotted in outline.imports[name]:
                yield from self._meant(piece, name, dotted, path, asked)
        stars = [*outline.stars]
        for one in piece.imports if piece.is_definition else ():
            if one.local == b"*":
                stars.append(one.dotted)
            else:
                yield from self._meant(piece, one.local, one.dotted, path, asked)
        for star in stars[:_MOST_STARS]:
            yield from self._of_star(star, path, piece.words, asked, MOST_HOPS)

    def _meant(self, piece: Piece, local: bytes, dotted: str, importer: str, asked: Asked) -> Iterator[Place]:
        """The pieces that a name of an import means; of a module those that are looked up in it."""
        meaning = self.find(dotted, importer, asked)
        whole = dotted.partition(".")[0].encode() == local and "." in dotted  # `import a.b`
        if meaning is not None and meaning.names:
            yield from self._pieces_of(meaning, dotted)
        elif meaning is not None or whole:
            base = dotted.partition(".")[0] if whole else dotted
            for chain in piece.looked_up_in(local):
                found = self.find(f"{base}.{chain}", importer, asked)
                if found is not None and found.names:
                    yield from self._pieces_of(found, chain)

    def _pieces_of(self, meaning: Meaning, dotted: str) -> Iterator[Place]:
        outline = self.outline(meaning.path)
        assert outline is not None
        name = meaning.names[0].encode()
        for number in (*outline.defined.get(name, ()), *outline.names.get(name, ())):
            self._called.setdefault((meaning.path, number), set()).update((meaning.names[0], *dotted.split(".")[-2:]))
            yield meaning.path, number

    def _of_star(self, star: str, importer: str, words: frozenset[bytes], asked: Asked, hops: int) -> Iterator[Place]:
        """The pieces that some words mean in a module of which all names are imported."""
        module = self.find(star, importer, asked)
        outline = self.outline(module.path) if module is not None and not module.names else None
        if module is None or outline is None:
            return
        path = module.path
        for name in sorted(words & (outline.defined.keys() | outline.names.keys())):
            yield from self._pieces_of(Meaning(path, (name.decode(errors="replace"),)), "")
        for name in sorted(words & outline.imports.keys() - outline.defined.keys()):
            found = self.find(outline.imports[name][0], path, asked)
            if found is not None and found.names:
                yield from self._pieces_of(found, name.decode(errors="replace"))
        for other in outline.stars[:_MOST_STARS] if hops else ():
            yield from self._of_star(other, path, words, asked, hops - 1)


def _matters_to(whole: Piece) -> Callable[[Piece], bool]:
    """Which pieces matter to a text: models do to one that trains, and losses also to one that has a criterion."""
    if any(word in whole.code for word in (b"backward", b".step(", b"ptimizer")):
        return lambda piece: piece.trains or piece.is_trained
    if any(word in whole.code for word in (b"entropy", b"Loss(", b"nll_loss")):
        return lambda piece: piece.trains or piece.is_loss
    return lambda piece: piece.trains


def _is_too_long(piece: Piece) -> bool:
    """It matters, and there is no room for it."""
    return piece.end - piece.start > MOST_READ and piece.trains


def _is_short(piece: Piece) -> bool:
    return piece.end - piece.start <= (_SHORT if piece.is_definition else _LONGEST_VALUE)


def _spread(places: set[Place], to: Callable[[Place], Iterable[Place]]) -> None:
    """Add all that these lead to."""
    waiting = list(places)
    while waiting:
        for other in to(waiting.pop()):
            if other not in places:
                places.add(other)
                waiting.append(other)


def around(folders: Sequence[str]) -> Surroundings:
    """What lies below some folders; known already where the disk is taken for unchanged."""
    known = shared()
    key = tuple(folders)
    if known is None:
        return Surroundings(folders)
    if key not in known:
        known[key] = Surroundings(folders)
    return cast("Surroundings", known[key])


outline_of = functools.lru_cache(maxsize=_MOST_OUTLINES)(Outline.of)
