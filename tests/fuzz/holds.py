"""What holds for any input, whatever it is: one function of a file's name and bytes.

Nothing raises, every format tells what was found, and a fix that is offered gives a text that parses, that needs no
second fixing, and in which nothing is wrong that was not wrong before.
"""

from __future__ import annotations

import ast
import json
import os
import re
import tempfile
import warnings
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from gradlint import documents, engine
from gradlint.cli.output import rendered
from gradlint.config import ConfigError, Layer, Settings
from gradlint.config.load import ConfigTree
from gradlint.config.schema import FOR_PROGRAMS
from gradlint.inquiry import Inquiry, Reading
from gradlint.model import FileResult, Finding, Fixed, Severity
from gradlint.python.source import Source
from gradlint.records import replace
from gradlint.repair.rounds import edited
from gradlint.report.document import Report
from gradlint.report.text import Paint, concise, full
from gradlint.runner.files import GitIgnore
from tests.fuzz.mutants import Input
from tests.fuzz.shapes import files_of

#: all rules, and no file left out unread
EVERYTHING = Settings(layers=(Layer(select=("ALL",)),), prefilter=False)
#: files are left out unread if they hold nothing that a rule needs
PREFILTERED = Settings(layers=(Layer(select=("ALL",)),), offers=False)
#: what has a finding, a fix, and an option to be told by a configuration
PROGRAM = b"""\
import torch
model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Sigmoid(), torch.nn.Linear(1, 1), torch.nn.Sigmoid())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    model(x).log().mean().backward()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""
#: fixes that are tried one by one
_MOST = 6
PATHS = ("train.py", "a/b/c.py", "build", "data/x.ipynb", "a" * 40, "keep.pyc", "é/ü.py")


class Failed(Exception):  # noqa: N818 # a find, not a mistake of ours
    """Something does not hold; `kind` in a word, `story` for people."""

    def __init__(self, kind: str, story: str) -> None:
        super().__init__(kind, story)
        self.kind = kind
        self.story = story

    def __str__(self) -> str:
        return f"{self.kind}: {self.story}"


def check(given: Input) -> frozenset[Hashable]:
    """The marks of the way that an input took; raises `Failed`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python's parser, about the input
        if given.name.endswith((".py", ".ipynb", ".md")):
            return frozenset(_document(given))
        if given.name == ".gitignore":
            return frozenset(_ignore_file(given.data))
        if given.name == "files":
            return frozenset(_project(given.data.decode("utf-8", "replace")))
        return frozenset(_configuration(given))


# -- programs, and what holds them


@lru_cache(maxsize=64)
def _linted(given: Input) -> tuple[FileResult, Reading | None]:
    """Each text is read once; what repeats another finding is told as well, because it is mended as well."""
    if not given.name.endswith(".py"):
        return documents.lint(given.data, given.name, EVERYTHING), None
    readings: list[Reading] = []

    def read(inquiry: Inquiry, source: Source) -> Reading:
        readings.append(inquiry.read(source))
        return readings[-1]

    result = engine.lint(given.data, given.name, EVERYTHING, repeats=True, read=read)
    return result, readings[0] if readings else None


def _fixed(given: Input) -> Fixed:
    if not given.name.endswith(".py"):
        return documents.fix(given.data, given.name, EVERYTHING, unsafe=True)

    def lint(text: bytes, repeats: bool) -> FileResult:
        return _linted(Input(given.name, text))[0]

    return Fixed(
        *engine.fixed(
            given.data, given.name, EVERYTHING, unsafe=True, lint=lint, programs=lambda text: (text,), edited=edited
        )
    )  # fmt: skip


def _document(given: Input) -> Iterator[Hashable]:
    result, reading = _linted(given)
    _nothing_raised(result)
    _formats_tell_it(result, given.data)
    if reading is not None:
        yield from _way(reading)
    for finding in result.findings:
        yield finding.code, finding.severity, finding.grade, finding.fix is not None
    for note in (*result.notes, *result.exhausted):
        yield re.sub(r"\d+|`[^`]*`", "_", note)
    if result.findings:
        _prefiltered(given, result)
    if any(finding.fix is not None for finding in result.findings):
        yield from _fixes_are_good(given, result)


def _prefiltered(given: Input, result: FileResult) -> None:
    """What is left out unread has no findings."""
    if given.name.endswith(".py"):
        read = engine.lint(given.data, given.name, PREFILTERED, repeats=True)
    else:
        read = documents.lint(given.data, given.name, PREFILTERED)
    told, all_told = (Counter((f.code, f.span) for f in x.findings) for x in (read, result))
    if lost := all_told - told:
        raise Failed("prefilter", f"it hides {sorted(code for code, _ in lost)}")


def _project(text: str) -> Iterator[Hashable]:
    """Each file is followed into the others; what is mended in one is right beside them."""
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        files = {os.path.join(folder, path): inside for path, inside in files_of(text).items()}
        settings = replace(EVERYTHING, project=True, root=folder)
        for path, inside in files.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
                file.write(inside)
        for path, inside in files.items():
            if not path.endswith(".py"):
                continue
            data = inside.encode("utf-8", "surrogatepass")
            result = engine.lint(data, path, settings, repeats=True)
            _nothing_raised(result)
            yield tuple((f.code, f.grade, f.fix is not None, len(f.related)) for f in result.findings)
            yield tuple(f.code for f in result.elsewhere)
            if any(finding.fix is not None for finding in result.findings):
                _project_is_mended(data, path, settings, result)


def _project_is_mended(data: bytes, path: str, settings: Settings, before: FileResult) -> None:
    whole = engine.fix(data, path, settings, unsafe=True)
    if parses(Input("train.py", data)) and not parses(Input("train.py", whole.source)):
        raise Failed("unparsable", f"{_codes(whole.applied)} give\n{whole.source!r}")
    _nothing_raised(whole.result)
    if come := _errors(whole.result) - Counter(finding.code for finding in before.findings):
        raise Failed("worse", f"{_codes(whole.applied)} bring {sorted(come)}:\n{whole.source!r}")
    if (again := engine.fix(whole.source, path, settings, unsafe=True)).source != whole.source:
        raise Failed("unstable", f"fixed again, it becomes\n{again.source!r}\nand was\n{whole.source!r}")


def _nothing_raised(result: FileResult) -> None:
    if result.crashes:
        raise Failed("crash", result.crashes[0].traceback)
    for note in result.notes:
        if "its fixer failed" in note:
            raise Failed("fixer", note)


def _formats_tell_it(result: FileResult, data: bytes) -> None:
    if not result.findings and result.unreadable is None:
        return
    report = Report([result], 1, lambda path: data)
    told = {name: _encoded(rendered(name, report), name) for name in FOR_PROGRAMS}
    for colours in (False, True):
        _encoded(full([result], report.read, Paint(colours)), "full")
        _encoded(concise([result], Paint(colours)), "concise")
    for name in ("json", "sarif", "gitlab"):
        json.loads(told[name])
    for line in (*told["jsonl"].splitlines(), *told["lsp"].splitlines()):
        json.loads(line)
    ElementTree.fromstring(told["junit"])


def _encoded(lines: Iterable[str], name: str) -> bytes:
    try:
        return "\n".join(lines).encode()
    except UnicodeEncodeError as error:
        raise Failed("format", f"{name}: {error}") from None


def _fixes_are_good(given: Input, result: FileResult) -> Iterator[Hashable]:
    parsed = parses(given)
    if given.name.endswith(".py"):
        offered = [(finding, finding.fix.edits) for finding in result.findings if finding.fix is not None]
        for finding, edits in offered[:_MOST]:
            _is_better(Input(given.name, edited(given.data, edits)), result, [finding], parsed=parsed)
    whole = _fixed(given)
    fixed = Input(given.name, whole.source)
    _is_better(fixed, result, whole.applied, parsed=parsed)
    if (again := _fixed(fixed)).source != fixed.data:
        raise Failed("unstable", f"fixed again, it becomes\n{again.source!r}\nand was\n{fixed.data!r}")
    yield "fixed", tuple(sorted(Counter(finding.code for finding in whole.applied).items()))


def _is_better(fixed: Input, before: FileResult, mended: Sequence[Finding], *, parsed: bool) -> None:
    if parsed and not parses(fixed):
        raise Failed("unparsable", f"{_codes(mended)} give\n{fixed.data!r}")
    after = _linted(fixed)[0]
    _nothing_raised(after)
    # what was told with an "if" before may be seen now, and an error
    if come := _errors(after) - Counter(finding.code for finding in before.findings):
        raise Failed("worse", f"{_codes(mended)} bring {sorted(come)}:\n{fixed.data!r}")


def _codes(findings: Sequence[Finding]) -> str:
    return ", ".join(finding.code for finding in findings)


def _errors(result: FileResult) -> Counter[str]:
    return Counter(finding.code for finding in result.findings if finding.severity is Severity.ERROR)


def parses(given: Input) -> bool:
    if given.name.endswith(".md"):
        return False  # its blocks are linted one by one, and broken ones among them
    try:
        ast.parse(documents.runnable(given.data, given.name))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _way(reading: Reading) -> Iterator[Hashable]:
    """What happened on each path, in order; what repeats itself is one."""
    for path in reading.paths:
        kinds = [kind for kind, _ in groupby(type(event).__name__ for event in path.events)]
        yield "path", *kinds[:24]
        yield "decisions", len(path.decisions), len(path.optimizers), path.unusual
    yield from _nested(reading.source.tree)


def _nested(tree: ast.AST) -> set[tuple[str, str]]:
    """Which constructs stand in which."""
    return {
        (type(node).__name__, type(child).__name__) for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
    }  # fmt: skip


# -- what comes with a checkout


def _ignore_file(data: bytes) -> Iterator[Hashable]:
    ignore = GitIgnore(data.decode("utf-8", "replace"))
    yield tuple(ignore.decision(path, os.path.basename(path), folder) for path in PATHS for folder in (False, True))


def _configuration(given: Input) -> Iterator[Hashable]:
    """The folder's settings, or a message; and whatever they are, a program is linted with them."""
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        with open(os.path.join(folder, given.name), "wb") as file:
            file.write(given.data)
        try:
            settings = ConfigTree().at(folder, {given.name, ".git"})
        except ConfigError as error:
            message = str(error)
            _encoded([message], "message")
            yield re.sub(r"[\w./-]*/|\d+|`[^`]*`|\"[^\"]*\"|'[^']*'", "_", message)[:60]
            return
        settings.fingerprint()
        for path in PATHS:
            settings.enabled_for(os.path.join(folder, path))
        yield settings.target_torch
        if settings.layers or settings.options or settings.severities or settings.per_file_ignores:
            result = engine.lint(PROGRAM, os.path.join(folder, "train.py"), settings)
            _nothing_raised(result)
            yield tuple((finding.code, finding.severity, finding.fix is not None) for finding in result.findings)


#: files of a moment need no disk
_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
