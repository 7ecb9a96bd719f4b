"""Looks over the bytes of a file for numerics on the way to a loss; nothing is parsed.

Model files by the thousand hold `log`, `softmax` and `sqrt` that no rule asks about. A file is worth reading only if
something delicate stands in a function that has to do with a loss, or in a helper that such a function calls.
Plain searches for words come first, because they are quick; regular expressions see single lines only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.subjects import Kind

#: a fragment need not say where its names come from
_TORCH = re.compile(rb"torch|\b(?:F|nn)\b|\.backward\(|\.(?:log|sqrt|exp)\(\)")

#: what a file must hold to have a loss at all
_LOSS_WORDS = (
    b"loss", b"criterion", b"backward", b"likelihood", b"divergence", b"objective", b"penalty", b"cross_entropy",
    b"nll", b"kl_", b"_kl", b"training_step", b"bce",
)  # fmt: skip
#: a name that is a word of much else, too
_OTHER_LOSS = re.compile(rb"\bcost\w? *=[^=]")
#: words that a logarithm or a root is written with, and what it then looks like
_LOG = re.compile(rb"\b(?:torch|th|T|t)\.(?:log(?:1p|2|10)?|sqrt)\(|\.(?:log(?:1p|2|10)?|sqrt)\(\s*\)")
_BARE = re.compile(rb"(?<![.\w`/])(?<!def )(?:log|sqrt)\(")
_IMPORTED = re.compile(rb"from torch import [^\n]*\b(?:log|sqrt)\b")
_ROOT = re.compile(rb"(?<=[\w)\]]) ?\*\* ?0*\.5|pow\((?:.*, ?)?0*\.5\)")
#: the last thing in the brackets: a small number is added, and no zero is left
_GUARDED = re.compile(rb"\+ ?1(?:\.0*)?e-(?:0?[2-9]|1\d)\)$")
_PROSE = re.compile(rb"\s*(?:#|>>>|\.\.\.)|[^()]*`")
#: what an exp() has to meet in the same function, if it is not taken of logits
_SUMMED = re.compile(rb"log\w*\(|sum\(")
_OF_LOGITS = re.compile(rb"(?i)logits?\d*\b")
_EXP = re.compile(rb"(?<!math)(?<!np)\.exp\(")
_BROKEN_EXP = re.compile(rb"^\s*\.exp\(|exp\(\s*(?:#.*)?$")
_CROSS_ENTROPY = b"cross_entropy("
_CRITERIA = (_CROSS_ENTROPY, b"CrossEntropyLoss(", b"nll_loss(", b"NLLLoss(", b"BCELoss(")
_CRITERION = re.compile(rb"\s*(?:self\.)?(\w+)\s*=\s*[\w.]*Loss\(")
#: attention and routing weights leave their functions, too, and are no predictions
_KEPT = re.compile(rb"[ \t]*(\w+) *=(?!=)")
_NO_PREDICTION = re.compile(rb"(?<![a-z])(?:att|weight|scor|rout|gat|mask|align|pool)|log_prob")
#: a gate, a mask, a box; or prose
_NO_LAYER = re.compile(
    rb"^\s*(?:def |#|g\w* = )|\*= |ard(?:tanh|sigmoid)|log_?sigmoid|\) ?\*|\* ?\(?[\w.]*(?:sigmoid|tanh)\(|0\.5 ?\*|`|"
    rb"(?i:gate|att|mask|scor|prob|box|coord|logit|pred|ref|gelu|alpha|beta)"
)
_LOOP = re.compile(rb"\bfor [\w, ]+ in |\] \* \w")
_CLASS = b"\nclass "
_DEF = b"def "
_AS_VALUE = re.compile(
    rb"(?:torch|nn|F)\.(?:tanh|sigmoid|Tanh|Sigmoid)(?:,|\)|\n)|from torch\S* import [^\n]*\b(?:tanh|sigmoid)\b"
)
#: up to this size a helper with one activation is looked for in the rest of the file
_FOLLOWED = 40_000
_ATTRIBUTE = re.compile(rb"\s*self\.(\w+)\s*=\s*[\w.]*(?:Tanh|Sigmoid)\(")
_STACK = 3


#: what is looked for first, the words of a line, and what the line then looks like
_LOOKS: dict[Kind, tuple[tuple[bytes, tuple[bytes, ...], re.Pattern[bytes]], ...]] = {
    Kind.LOG: ((b".log", (b".log(", b".log2(", b".log10("), _LOG), (b"from torch import ", (b"log(",), _BARE)),
    Kind.LOG1P: ((b".log1p(", (b".log1p(",), _LOG),),
    Kind.ROOT: (
        (b".sqrt(", (b".sqrt(",), _LOG),
        (b"from torch import ", (b"sqrt(",), _BARE),
        (b".5", (b".5",), _ROOT),
    ),
    Kind.EXP: ((b".exp(", (b".exp(",), _EXP),),
}
#: one of these is where layers stand in a row
STACK_WORDS = (b"anh", b"igmoid")
_OF_PROBABILITIES = (Kind.CROSS_ENTROPY, Kind.NLL, Kind.BCE)


def alike(kind: Kind) -> Kind:
    """Kinds that look alike in a file are asked for once."""
    return Kind.CROSS_ENTROPY if kind in _OF_PROBABILITIES else kind


def words_of(kind: Kind) -> tuple[bytes, ...]:
    """One of these is in a file that may hold such an operation."""
    if kind is Kind.DIVIDE:
        return b"/", b".div"
    if kind in _OF_PROBABILITIES:
        return _CROSS_ENTROPY, b"oss("
    return tuple(stem for stem, _, _ in _LOOKS[kind])


def may_hold(source: bytes, kind: Kind) -> bool:
    """False means: no such operation stands near a loss here, or not in a way that a rule would ask about."""
    if kind is Kind.DIVIDE:
        return any(word in source for word in words_of(kind)) and _speaks_of_torch(source) and _speaks_of_loss(source)
    if kind in _OF_PROBABILITIES:
        if not _has_criterion(source) or not (b"oftmax(" in source or b"igmoid(" in source):
            return False
        return _speaks_of_torch(source) and (_trains(source) or _meets_a_criterion(source))
    places = _delicate(source, kind)
    return any(_trains(source) or _near_a_loss(source, place) for place in places) and _speaks_of_torch(source)


def may_hold_stack(source: bytes) -> bool:
    """False means: no class or function strings several saturating activations together."""
    small = len(source) < _FOLLOWED
    counts: dict[int, int] = {}
    for word in STACK_WORDS:
        for place in _places(source, word):
            line = _line(source, place)
            if not source.startswith(b"(", place + len(word)):
                if small and _AS_VALUE.search(line + b"\n"):
                    return True
                continue
            if _NO_LAYER.search(line):
                continue
            head = source.rfind(_CLASS, 0, place) + 1
            end = source.find(_CLASS, place)
            block = source[head : end if end >= 0 else len(source)]
            counts[head] = counts.get(head, 0) + _uses(block, line)
            if counts[head] >= _STACK or _in_loop(block, place - head, line):
                return True
            if small and _is_repeated(source, block, place - head, in_class=head > 0):
                return True
    return False


def _has_criterion(source: bytes) -> bool:
    if _CROSS_ENTROPY in source:
        return True
    return b"oss(" in source and any(word in source for word in _CRITERIA)


def _speaks_of_torch(source: bytes) -> bool:
    return b"torch" in source or _TORCH.search(source) is not None


def _trains(source: bytes) -> bool:
    """What any function gives may become the loss."""
    return b"backward(" in source


def _in_loop(block: bytes, place: int, line: bytes) -> bool:
    """A loop makes more layers than it writes down."""
    if _LOOP.search(line):
        return True
    depth = _indent(line)
    for above in reversed(block[:place].rsplit(b"\n", 5)[1:-1]):
        if above.strip() and _indent(above) < depth:
            if _LOOP.search(above):
                return True
            depth = _indent(above)
    return False


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip())


def _is_repeated(source: bytes, block: bytes, place: int, *, in_class: bool) -> bool:
    """The small module or function round this place is used again and again."""
    head = block if in_class else block[_function(block, place)[0] :]
    name = re.match(rb"(?:def |class )?(\w+)", head.lstrip())
    if name is None:
        return False
    calls = [call for call in _places(source, name[1] + b"(") if _is_call(source, call)]
    if len(calls) > _STACK:
        return True
    return any(source[call - 1 : call] == b"[" or _in_loop(source, call, _line(source, call)) for call in calls)


def _is_call(source: bytes, place: int) -> bool:
    """A name of its own, and not the one of a definition."""
    before = source[max(place - 6, 0) : place]
    return not before[-1:].isalnum() and before[-1:] not in (b"_", b".") and not before.endswith((b"def ", b"class "))


def _uses(block: bytes, line: bytes) -> int:
    """How often an activation is used: one that is kept in an attribute may be used again and again."""
    kept = _ATTRIBUTE.match(line)
    if kept is None:
        return 1
    places = [*_places(block, b"self." + kept[1] + b"(")]
    return _STACK if any(_in_loop(block, place, _line(block, place)) for place in places) else len(places)


def _delicate(source: bytes, kind: Kind) -> Iterator[int]:
    """Where such an operation may stand, and nothing keeps it away from where it is delicate."""
    for stem, words, looks in _LOOKS[kind]:
        if stem not in source or (looks is _BARE and not _imports_bare(source)):
            continue
        for word in words:
            for place in _places(source, word):
                line = _line(source, place)
                if looks.search(line) and not _is_guarded(line, looks):
                    if looks is not _EXP or _is_met(source, place, line):
                        yield place


def _is_met(source: bytes, place: int, line: bytes) -> bool:
    """The exp() is one of logits, by the name of what it is taken of, or something in its function makes it worse."""
    start, end = _function(source, place)
    if _OF_LOGITS.search(source, start, end) if _BROKEN_EXP.search(line) else _OF_LOGITS.search(line):
        return True
    return _SUMMED.search(source, start, end) is not None


def _imports_bare(source: bytes) -> bool:
    return any(_IMPORTED.match(source, place) for place in _places(source, b"from torch import "))


def _is_guarded(line: bytes, looks: re.Pattern[bytes]) -> bool:
    """Every logarithm or root of the line has a guard in what it is taken of."""
    if _PROSE.match(line):
        return True
    return looks is not _EXP and all(_guards(line, *found.span()) for found in looks.finditer(line))


def _guards(line: bytes, start: int, end: int) -> bool:
    if line[end - 1 : end] == b"(":
        return _GUARDED.search(line[end : _closing(line, end)]) is not None
    first = _opening(line, start)
    brackets = line[first : first + 1] == b"(" and _closing(line, first + 1) == start
    return brackets and _GUARDED.search(line[first:start]) is not None


def _closing(line: bytes, place: int) -> int:
    """Where the bracket closes that is open here."""
    depth = 1
    while place < len(line) and depth:
        depth += (line[place] in b"([") - (line[place] in b")]")
        place += 1
    return place


def _opening(line: bytes, place: int) -> int:
    """Where the expression begins that ends here: `torch.sigmoid(x)` of `y * torch.sigmoid(x).log()`."""
    depth = 0
    while place and (depth or line[place - 1] in b")]_." or line[place - 1 : place].isalnum()):
        place -= 1
        depth += (line[place] in b")]") - (line[place] in b"([")
    return place


def _near_a_loss(source: bytes, place: int) -> bool:
    """The function round this place speaks of a loss, or one that does so calls it."""
    if _line(source, place)[:1].strip():
        return _speaks_of_loss(source)  # any function may use what the module has
    start, end = _function(source, place)
    functions = ((start, end), *(_function(source, call) for call in _calls_of(source, start, end)))
    return any(_speaks_of_loss(source[first:last]) or _in_loss_class(source, first) for first, last in functions)


def _calls_of(source: bytes, start: int, end: int) -> Iterator[int]:
    """Where the function that stands here is called by its name, outside of itself."""
    name = re.match(rb"\s*(?:async )?def (\w+)", source[start : start + 200])
    if name is not None and name[1] not in (b"__init__", b"forward", b"__call__"):
        depth = _indent(_line(source, start))
        for call in _places(source, name[1] + b"("):
            # what stands round a function may go on behind it
            if not start <= call < end or (call > start + len(name[0]) and _indent(_line(source, call)) <= depth):
                yield call


def _meets_a_criterion(source: bytes) -> bool:
    """A softmax or sigmoid stands in the function that calls the criterion, in a caller of that, or leaves its own."""
    names: set[bytes] = set()
    for word in _CRITERIA:
        for place in _places(source, word):
            calls = _calls_of(source, *_function(source, place))
            if any(_has_probability(source, where) for where in (place, *calls)):
                return True
            kept = _CRITERION.match(_line(source, place))
            if kept is not None:
                names.add(kept[1])
    for name in names:
        if any(_has_probability(source, place) for place in _places(source, name + b"(")):
            return True
    if any(_is_prediction(source, place) for place in _places(source, b"nn.Softmax(")):
        return True
    return any(_leaves(source, place) for place in _places(source, b"softmax("))


def _has_probability(source: bytes, place: int) -> bool:
    """Something in the function round this place becomes a probability."""
    start, end = _function(source, place)
    if source.find(b"igmoid(", start, end) >= 0:
        return True
    return any(_is_prediction(source, where) for where in _places(source, b"oftmax(", start, end))


def _leaves(source: bytes, place: int) -> bool:
    """The softmax at this place is returned, in the same line or through a variable."""
    line = _line(source, place)
    if not _is_prediction(source, place):
        return False
    if b"return " in line:
        return True
    kept = _KEPT.match(line)
    if kept is None:
        return False
    _, end = _function(source, place)
    returned = re.compile(rb"return [^\n]*\b" + kept[1] + rb"\b")
    return returned.search(source, place, end) is not None


def _is_prediction(source: bytes, place: int) -> bool:
    """Not the weights of an attention, a router, a mixture of layers."""
    start = source.rfind(b"\n", 0, place) + 1
    # a function, or several statements, may stand in one line
    first = max(source.rfind(mark, start, place) for mark in (b":", b";", b"\n")) + 1
    said = source[max(start, first) : start + len(_line(source, place))]
    if _NO_PREDICTION.search(said.partition(b"=")[0]) is not None:
        return False
    if b"log_softmax(" in said or b"LogSoftmax(" in said or said.lstrip().startswith((b"#", b">>>", b"...", b"def ")):
        return False
    head = _line(source, _function(source, place)[0]).lstrip()
    if head.startswith((b"def ", b"async ")) and b"softmax" in head.partition(b"(")[0]:
        return False  # a variant of the function itself
    home = source.rfind(_CLASS, 0, place)
    return home < 0 or b"att" not in _line(source, home + 1).lower()


def _places(source: bytes, word: bytes, start: int = 0, end: int = 1 << 62) -> Iterator[int]:
    place = source.find(word, start, end)
    while place >= 0:
        yield place
        place = source.find(word, place + len(word), end)


def _line(source: bytes, place: int) -> bytes:
    start = source.rfind(b"\n", 0, place) + 1
    end = source.find(b"\n", place)
    return source[start : end if end >= 0 else len(source)]


def _function(source: bytes, place: int) -> tuple[int, int]:
    """From the `def` before a place to the next one behind it, or to a class; functions in it are passed over."""
    start = first = _header(source, place)
    depth = _indent(_line(source, place))
    while start > 0 and depth and _indent(_line(source, start)) >= depth:
        start = _header(source, start)
    start = start if start >= 0 else first
    end = source.find(_DEF, place + 1)
    while end >= 0 and not _is_header(source, end):
        end = source.find(_DEF, end + 1)
    end = end if end >= 0 else len(source)
    after = source.find(_CLASS, place, end)
    return max(0, start), after if after >= 0 else end


def _header(source: bytes, place: int, word: bytes = _DEF) -> int:
    """The last `def` or `class` in front of a place; -1 if there is none."""
    start = source.rfind(word, 0, place)
    while start > 0 and not _is_header(source, start):
        start = source.rfind(word, 0, start)
    return start


def _is_header(source: bytes, place: int) -> bool:
    """A function begins here; `def` may also stand in prose."""
    return source[source.rfind(b"\n", 0, place) + 1 : place].strip() in (b"", b"async")


def _in_loss_class(source: bytes, start: int) -> bool:
    """The method that starts here belongs to a class whose name speaks of a loss."""
    head = _header(source, start, b"class ")
    inside = source[start - 1 : start] in (b" ", b"\t")
    return head >= 0 and inside and _speaks_of_loss(_line(source, head))


def _speaks_of_loss(text: bytes) -> bool:
    low = text.lower()
    return any(word in low for word in _LOSS_WORDS) or _OTHER_LOSS.search(low) is not None
