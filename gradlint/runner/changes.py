"""What has changed since a git revision, line by line: committed, staged, unstaged and new files alike.

As in a pull request, the revision is taken where this history left it (the merge base). git is asked, never changed.
The repository may have come from anywhere: no command that it names is run.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

from gradlint import documents
from gradlint.fingerprints import fingerprints
from gradlint.model import SYNTAX_ERROR, FileResult, Finding, Span, split_lines
from gradlint.records import replace
from gradlint.runner.files import SourceFile

#: what a patch says of the new name of a file in front of its hunks
_NAMED = re.compile(rb"(\+\+\+ b/|\+\+\+ \"b/|rename to )(.*)")
_HUNK = re.compile(rb"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")
#: a hook is told where its own repository is; here each repository is found by its folder
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE")
#: nothing is fetched, by whatever way, and nobody is asked
_ALONE = {
    "GIT_OPTIONAL_LOCKS": "0",  # looking must not refresh the index under someone else's feet
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_TERMINAL_PROMPT": "0",
}
_QUIET = (
    ("core.quotepath", "off"), ("core.fsmonitor", "false"), ("core.hooksPath", os.devnull),
    # or every file that was touched is read, of whatever size and kind
    ("diff.autoRefreshIndex", "false"),
)  # fmt: skip
_NO_FILTER = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
#: seconds for one question: a large checkout on a slow disk takes minutes
PATIENCE = 600.0
#: whatever the user has configured, the output is the one that is read here
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--ignore-submodules=all")
#: what holds programs, line by line and in cells; git reads nothing else, however large it is
_PROGRAMS, _NOTEBOOKS = (":(icase)*.py", ":(icase)*.md", ":(icase)*.markdown"), (":(icase)*.ipynb",)
_ENDINGS = (".py", ".md", ".markdown", ".ipynb")


class ChangesError(Exception):
    """Why git cannot say what has changed, in words for the user."""


class Change(NamedTuple):
    """What happened to one file: its new rows (None for all of them), and the object git keeps of it as it was."""

    rows: frozenset[int] | None
    before: str | None = None

    def touches(self, first: int, last: int) -> bool:
        return self.rows is None or any(row in self.rows for row in range(first, last + 1))


class Changes:
    """The changes since one revision, for files of any repository; each is asked when its first file comes."""

    def __init__(self, revision: str) -> None:
        if not revision or revision.startswith("-"):
            raise ChangesError(f"`{revision}` is no git revision")
        self._revision = revision
        self._here = os.path.realpath(os.getcwd())
        self._tops: dict[str, str | None] = {}
        self._repositories: dict[str, _Repository] = {}
        self._warnings: list[str] = []

    @property
    def warnings(self) -> list[str]:
        """What was not as it should be, so far."""
        return [*self._warnings, *(told for one in self._repositories.values() for told in one.warnings())]

    def of(self, path: str) -> Change | None:
        """None for a file that is as it was."""
        repository, inside = self._found(path)
        return repository.change(inside)

    def before(self, path: str) -> bytes | None:
        """The file as it was, under whatever name; None for one that was not there."""
        repository, inside = self._found(path)
        change = repository.change(inside)
        return None if change is None or change.before is None else repository.content(change.before)

    def _found(self, path: str) -> tuple[_Repository, str]:
        real = os.path.realpath(path)  # to git, a link is a file of its own
        top = self._top(os.path.dirname(real))
        if top is None:
            raise ChangesError(f"{path} is in no git repository")
        return self._repository(top), os.path.relpath(real, top).replace(os.sep, "/")

    def _top(self, folder: str) -> str | None:
        if folder not in self._tops:
            parent = os.path.dirname(folder)
            if os.path.exists(os.path.join(folder, ".git")):
                self._tops[folder] = folder
            else:
                self._tops[folder] = None if parent == folder else self._top(parent)
        return self._tops[folder]

    def _repository(self, top: str) -> _Repository:
        if top not in self._repositories:
            self._repositories[top] = _Repository(top, self._base(top))
        return self._repositories[top]

    def _base(self, top: str) -> str | None:
        """The commit to compare with; None if the outer repository did not have this one yet."""
        outer = self._top(os.path.dirname(top)) if os.path.dirname(top) != top else None
        if outer is None or _within(self._here, top):
            return self._merge_base(top)
        # the revision is one of the repository round it, and that says which commit the submodule was at
        above = self._repository(outer).base
        commit = None if above is None else _submodule_commit(outer, above, os.path.relpath(top, outer))
        if commit is not None and _git(top, "cat-file", "-e", f"{commit}^{{commit}}").returncode:
            self._warnings.append(
                f"{top} does not have its commit of `{self._revision}`: all of its lines count as new"
            )
            return None
        return commit

    def _merge_base(self, top: str) -> str:
        asked = _git(top, "rev-parse", "--verify", "--quiet", f"{self._revision}^{{commit}}")
        if asked.returncode:
            said = asked.stderr.decode("utf-8", "replace").strip()
            if said:
                raise ChangesError(f"git in {top}: {_reason(said)}")
            raise ChangesError(
                f"git does not know `{self._revision}` in {top}; a shallow clone may lack it "
                "(actions/checkout: fetch-depth: 0)"
            )
        commit = asked.stdout.decode().strip()
        shared = _git(top, "merge-base", commit, "HEAD")
        if shared.returncode:
            self._warnings.append(f"`{self._revision}` and HEAD share no commit here: compared with it as it is now")
            return commit
        return shared.stdout.decode().split()[0]


class _Repository:
    """One repository against one of its commits."""

    def __init__(self, top: str, base: str | None) -> None:
        self._top = top
        self.base = base
        self._changed: dict[str, Change] = {}
        self._tracked: frozenset[str] = frozenset()
        self._asked: set[str] = set()
        #: files of which the clone does not have what they were
        self._lacking: list[str] = []
        if base is not None:
            listed = _output(top, "ls-files", "-z", "--cached").split(b"\0")
            self._tracked = frozenset(os.fsdecode(name) for name in listed if name)
            self._ask(base, _PROGRAMS, lines=True)
            self._ask(base, _NOTEBOOKS, lines=False)  # whose lines mean little

    def warnings(self) -> Iterator[str]:
        if self._lacking:
            many = "a changed file" if len(self._lacking) == 1 else f"{len(self._lacking)} changed files"
            yield (
                f"{self._top} is a partial clone without the older text of {many}: all lines count as new there "
                "(actions/checkout: no `filter`)"
            )

    def change(self, inside: str) -> Change | None:
        if self.base is not None and not inside.lower().endswith(_ENDINGS) and inside not in self._asked:
            self._asked.add(inside)
            self._ask(self.base, (f":(literal){inside}",), lines=True)
        known = self._changed.get(inside)
        if known is None and inside not in self._tracked:
            return Change(None)
        return known

    def content(self, blob: str) -> bytes:
        return _output(self._top, "cat-file", "blob", blob)

    def _ask(self, base: str, paths: tuple[str, ...], *, lines: bool) -> None:
        """What has happened to these paths; without their lines only which have changed, and what they were."""
        modified: list[tuple[str, str]] = []
        renames, listing = self._listing(base, paths)
        for status, blob, path in _raw(listing):
            self._changed[path] = Change(None)
            if status in (b"M", b"R", b"C"):
                modified.append((path, blob))
        if not lines:
            self._changed |= {path: Change(frozenset(), blob) for path, blob in modified if self._has(path, blob)}
            return
        rows = self._rows(base, renames, paths) if modified else {}
        for path, blob in modified:
            alone = rows if rows is not None else self._rows(base, renames, (f":(literal){path}",))
            if alone is not None:
                self._take(path, blob, alone.get(path))
            elif self._is(path, blob):
                del self._changed[path]
            else:
                self._lacking.append(path)

    def _take(self, path: str, blob: str, rows: frozenset[int] | None) -> None:
        if rows is None:  # it was touched, and is what it was
            del self._changed[path]
        else:
            self._changed[path] = Change(rows, blob)

    def _listing(self, base: str, paths: tuple[str, ...]) -> tuple[str, bytes]:
        """Files under new names are compared with what they were; for that, a partial clone may lack the text."""
        raw = ("--raw", "--no-abbrev", "-z", base, "--", *paths)
        asked = _git(self._top, "diff", *_DIFF, "--find-renames", *raw)
        if asked.returncode == 0:
            return "--find-renames", asked.stdout
        # the index alone; it takes a file that was only touched for a changed one
        return "--no-renames", _output(self._top, "diff-index", *_DIFF, "--no-renames", *raw)

    def _rows(self, base: str, renames: str, paths: tuple[str, ...]) -> dict[str, frozenset[int]] | None:
        """The new rows of each file that is not what it was; None if git does not have all that they were."""
        asked = _git(
            self._top, "diff", *_DIFF, renames, "--diff-filter=MRC", "--patch", "--text", "--unified=0",
            "--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/", base, "--", *paths,
        )  # fmt: skip
        return _new_rows(asked.stdout) if asked.returncode == 0 else None

    def _is(self, path: str, blob: str) -> bool:
        """Whether the file is what it was."""
        named = _git(self._top, "hash-object", "--", path)
        return named.returncode == 0 and named.stdout.decode().strip() == blob

    def _has(self, path: str, blob: str) -> bool:
        found = _git(self._top, "cat-file", "-e", blob).returncode == 0
        if not found:
            self._lacking.append(path)
        return found


def _raw(listing: bytes) -> list[tuple[bytes, str, str]]:
    """Status, old object and new path of each changed file, from `git diff --raw -z`."""
    words = listing.split(b"\0")
    found = []
    at = 0
    while at + 1 < len(words):
        _, _, blob, _, status = words[at].split(b" ")
        at += 2 if status[:1] in (b"R", b"C") else 1
        found.append((status[:1], blob.decode(), os.fsdecode(words[at])))
        at += 1
    return found


def _new_rows(patch: bytes) -> dict[str, frozenset[int]]:
    """For each file of a patch, by its new path, the rows that were added or changed."""
    files: dict[str, set[int]] = {}
    rows: set[int] = set()
    in_header = False
    for line in patch.split(b"\n"):  # lines of the files themselves begin with + or -
        if line.startswith(b"diff --git "):
            rows, in_header = set(), True
        elif hunk := _HUNK.match(line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            rows |= set(range(first, first + count))
            in_header = False
        elif in_header and (named := _NAMED.match(line)):
            quote = b'"' if named[1].endswith(b'"b/') else b""
            files[_path(quote + named[2])] = rows
    return {path: frozenset(rows) for path, rows in files.items()}


def _path(named: bytes) -> str:
    """A path as a patch has it: with the quotes and escapes of C where it needs them, else perhaps a tab behind it."""
    if named.startswith(b'"'):
        return os.fsdecode(ast.literal_eval(named.decode("latin-1")).encode("latin-1"))
    return os.fsdecode(named.removesuffix(b"\t"))


def _submodule_commit(outer: str, commit: str, inside: str) -> str | None:
    listed = _output(outer, "ls-tree", "-z", "--full-tree", commit, "--", inside.replace(os.sep, "/"))
    words = listed.split(b"\t")[0].split()
    return words[2].decode() if len(words) == 3 and words[1] == b"commit" else None


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def _reason(said: str) -> str:
    """git's own words, all of them: they may tell what to do."""
    return " ".join(said.split()).removeprefix("fatal: ").removeprefix("error: ").rstrip(".")


def _output(top: str, *arguments: str) -> bytes:
    asked = _git(top, *arguments)
    if asked.returncode:
        said = asked.stderr.decode("utf-8", "replace").strip() or f"`git {arguments[0]}` failed"
        raise ChangesError(f"git in {top}: {_reason(said)}")
    return asked.stdout


def _git(top: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return _run(top, _pairs(_tame(top)), *arguments)


@functools.cache
def _tame(top: str) -> tuple[tuple[str, str], ...]:
    """Settings over those of a repository that may have come from anywhere: git runs no command that they name.

    Filters cannot be turned off as such, only each by its name. So files count as they are, and not as a filter (of
    the user's own, too) would store them.
    """
    listed = _run(top, {}, "config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.").stdout
    filters = {os.fsdecode(key).rpartition(".")[0] for key in listed.split(b"\0") if key}
    off = [(f"{name}.{key}", value) for name in sorted(filters) for key, value in _NO_FILTER]
    return (*_QUIET, *off)


def _pairs(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """As variables: on the command line a name with `=` in it would end there."""
    pairs = list(settings)
    found = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        found[f"GIT_CONFIG_KEY_{number}"] = key
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return found


def _run(top: str, settings: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    environment |= _ALONE | settings
    try:
        return subprocess.run(
            ["git", "-C", top, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False,
            timeout=PATIENCE,
        )  # fmt: skip
    except FileNotFoundError:
        raise ChangesError("git is not installed, or not on the PATH") from None
    except subprocess.TimeoutExpired:
        raise ChangesError(f"git in {top}: no answer to `git {arguments[0]}` within {PATIENCE:.0f} seconds") from None
    except OSError as error:
        raise ChangesError(f"git cannot be started: {error.strerror}") from None


class _Before(NamedTuple):
    """A file as it was: its findings by rule, function and line, and the cells of a notebook."""

    findings: Counter[tuple[str, str, str]]
    cells: Counter[str]


class Touched:
    """One changed file: its findings count if their lines or those of their story changed, or if they are new.

    A finding on lines that stayed is new if the file had no such finding before: a line that is gone, or one far away,
    has made it wrong.
    """

    def __init__(self, file: SourceFile, text: str, changes: Changes) -> None:
        self._change = changes.of(file.path) or Change(frozenset())
        self._file = file
        self._text = text
        self._changes = changes

    def keep(self, result: FileResult, text: str) -> FileResult:
        """The findings that count; `text` may be the original with fixes applied."""
        if self._change.rows is None or not result.findings:
            return result
        touches = self._cells(result, text) if result.cells else self._rows(text)
        ordered = result.ordered()
        counting = [finding.code == SYNTAX_ERROR or self._told_on(finding, touches) for finding in ordered]
        if not all(counting):
            keys = [
                (f.code, one.function, one.line) for f, one in zip(ordered, fingerprints(result, text), strict=True)
            ]
            aside = [n for n, counts in enumerate(counting) if not counts and not _crosses(ordered[n])]
            for place in self._new(aside, keys, text):
                counting[place] = True
        left = [finding for finding, counts in zip(ordered, counting, strict=True) if counts]
        return result if len(left) == len(ordered) else replace(result, findings=tuple(left))

    def _told_on(self, finding: Finding, touches: Callable[[Span], bool]) -> bool:
        lines = ((self._touched_in(line.path) if line.path else touches)(line.span) for line in finding.related)
        return touches(finding.span) or any(lines)

    def _touched_in(self, path: str) -> Callable[[Span], bool]:
        """The same for another file."""
        try:
            change = self._changes.of(path) or Change(frozenset())
        except ChangesError:  # a folder of `src` may be in no repository
            change = Change(frozenset())
        return lambda span: change.touches(span.start.row, span.end.row)

    def _new(self, places: list[int], keys: list[tuple[str, str, str]], text: str) -> list[int]:
        """Those of the findings that the file did not have; a function may have got another name meanwhile."""
        known = Counter(self._before.findings)
        strange = []
        for place in places:
            if known[keys[place]] <= 0:
                strange.append(place)
            known[keys[place]] -= 1
        renamed: Counter[tuple[str, str]] = Counter()
        for (code, function, line), count in known.items():
            if count > 0 and not _defines(text, function):
                renamed[code, line] += count
        new = []
        for place in strange:
            code, _, line = keys[place]
            if renamed[code, line] <= 0:
                new.append(place)
            renamed[code, line] -= 1
        return new

    def _rows(self, text: str) -> Callable[[Span], bool]:
        change = self._change if text == self._text else Change(self._rows_after_fixes(text))
        return lambda span: change.touches(span.start.row, span.end.row)

    def _rows_after_fixes(self, text: str) -> frozenset[int]:
        """The changed rows where they are now, and the rows that the fixes wrote."""
        old, new = split_lines(self._text), split_lines(text)
        rows = set(range(1, len(new) + 1))
        for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
            for offset in range(block.size):
                if not self._change.touches(block.a + offset + 1, block.a + offset + 1):
                    rows.discard(block.b + offset + 1)
        return frozenset(rows)

    def _cells(self, result: FileResult, text: str) -> Callable[[Span], bool]:
        """The lines of a notebook's file mean little: a cell is touched if its text was in no cell before."""
        known = Counter(self._before.cells)
        touched: set[int | None] = set()
        for cell, source in zip(result.cells, _cell_texts(result, text), strict=True):
            if known[source] <= 0:
                touched.add(cell.number)
            known[source] -= 1
        return lambda span: not touched.isdisjoint((result.place(span.start).cell, result.place(span.end).cell))

    @functools.cached_property
    def _before(self) -> _Before:
        source = self._changes.before(self._file.path)
        if source is None:
            return _Before(Counter(), Counter())
        result = documents.lint(source, self._file.shown, self._file.settings)
        text = documents.program_text(source, self._file.shown)
        pairs = zip(result.ordered(), fingerprints(result, text), strict=True)
        return _Before(
            Counter((finding.code, one.function, one.line) for finding, one in pairs),
            Counter(_cell_texts(result, text)),
        )


def _defines(text: str, function: str) -> bool:
    """Whether the program still has a function, or class, of this name; its own level it always has."""
    name = re.escape(function.rpartition(".")[2])
    return not name or re.search(rf"\b(?:def|class)\s+{name}\b", text) is not None


def _cell_texts(result: FileResult, text: str) -> list[str]:
    lines = split_lines(text)
    return ["\n".join(lines[cell.first_row - 1 : cell.first_row - 1 + cell.rows]) for cell in result.cells]


def _crosses(finding: Finding) -> bool:
    """Whether its story has a line in another file: what the file by itself was before does not tell if it is new."""
    return any(line.path for line in finding.related)
