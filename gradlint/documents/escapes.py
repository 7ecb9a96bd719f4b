"""Hides what only IPython understands (magics, shell lines, help) behind Python, and brings it back.

Hidden text stays a line of its own at its own row and indentation, so that rows mean the same before and after.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from gradlint.python.source import Source, lines_of, parses, read
from gradlint.records import dataclass

#: cell magics whose body is Python that runs in the notebook's own process
_PYTHON_CELLS = frozenset(
    {"capture", "debug", "ipytest", "memit", "mprun", "prun", "pypy", "python", "python3", "time", "timeit", "wandb"}
)
#: commands that IPython takes without their `%`
_AUTOMAGIC = frozenset(
    {"cat", "cd", "clear", "conda", "cp", "env", "ls", "ll", "mamba", "man", "mkdir", "mv", "pip", "pwd", "rm", "rmdir",
     "uv", "who", "whos"}
)  # fmt: skip

_HIDDEN = re.compile(r"(?:(?:pass|get_ipython\(\))  )?# %hidden (\d+)\b")
#: `/f x`, `,f a b` and `;f a b` are calls
_ESCAPE = re.compile(r"(?P<indent>[ \t]*)(?P<text>[%!?/,;].*)")
_ASSIGNED = re.compile(r"=[ \t]*(?=[!%])")
_HELP = re.compile(r"(?P<indent>[ \t]*)(?P<text>(?P<asked>[^ \t?].*?)\?{1,2}[ \t]*;?[ \t]*)")
_PATTERN = re.compile(r"[\w.*%]+")
_COMMAND = re.compile(r"(?P<indent>[ \t]*)(?P<text>(?P<word>\w+)(?:[ \t]+(?:[^ \t=(.\[:,]|\.[./]).*)?)$")
_CELL_MAGIC = re.compile(r"(?:[ \t]*(?:#.*)?\r?\n)*[ \t]*%%(?P<name>!|[\w.]+)(?P<rest>[^\r\n]*)")
#: cell magics that write their body to a file instead of running it
_WRITING_CELLS = frozenset({"file", "writefile"})
_APPENDING = frozenset({"-a", "--append"})
#: in notebooks of Databricks one `%` says the language of the whole cell
_LANGUAGE = re.compile(r"\s*%(?:fs|md|md-sandbox|r|scala|sh|sql)\b")
#: a session that was copied from a terminal: IPython takes it, but its columns are not those of a program
_PROMPT = re.compile(r"\s*(?:>>> |In \[\d+\]: )")

_PIECE = re.compile(
    r"(?P<prefix>[A-Za-z]{0,2})(?P<quote>'''|\"\"\"|'|\")|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<comment>#)"
)


@dataclass(frozen=True, slots=True)
class Hidden:
    """Python with nothing of IPython in it, and what stands for what."""

    text: str
    originals: tuple[str, ...]

    def restored(self, text: str) -> str:
        """A part of the text, as it was written."""
        return _HIDDEN.sub(self._original, text)

    def _original(self, found: re.Match[str]) -> str:
        number = int(found[1])  # a comment of the user's may look like ours
        return self.originals[number] if number < len(self.originals) else found[0]


@dataclass(frozen=True, slots=True)
class Written:
    """A cell whose body is a Python file: the file's name, whether it goes on there, and the row of its magic."""

    name: str
    appends: bool
    row: int


def written(text: str) -> Written | None:
    """The Python file that a cell writes, if it does."""
    magic = _CELL_MAGIC.match(text)
    if magic is None or magic["name"] not in _WRITING_CELLS:
        return None
    words = magic["rest"].split()
    name = " ".join(word for word in words if word not in _APPENDING).strip("'\"")
    row = len(lines_of(magic.group()))
    return Written(name, not _APPENDING.isdisjoint(words), row) if name.endswith(".py") else None


def holds_hidden(text: str) -> int:
    """How many hidden pieces a text holds."""
    return len(_HIDDEN.findall(text))


def hide(text: str, counted: int = 0) -> Hidden | None:
    """A cell as Python; None if it is in another language. The hidden pieces are numbered from `counted` on."""
    if parses(text):
        return Hidden(text, ())  # nearly every cell
    if _is_foreign(text):
        return None
    originals: list[str] = []

    def keep(original: str) -> int:
        originals.append(original)
        return counted + len(originals) - 1

    hidden = "".join(_hidden_lines(lines_of(text), keep))
    return None if _LANGUAGE.match(text) and not is_python(hidden) else Hidden(hidden, tuple(originals))


def _is_foreign(text: str) -> bool:
    """Whether the cell's magic, or one that it is handed on to, runs something else than the notebook's Python."""
    magic = _CELL_MAGIC.match(text)
    while magic is not None:
        if magic["name"] not in _PYTHON_CELLS:
            return True
        magic = _CELL_MAGIC.match(text, magic.end())
    return _PROMPT.match(text) is not None


def _hidden_lines(lines: list[str], keep: Callable[[str], int]) -> Iterator[str]:
    state = _Lines()
    continued = False
    for line in lines:
        body = line.rstrip("\r\n")
        end = line[len(body) :]
        if continued:  # a shell command goes on behind a backslash
            continued = body.endswith("\\")
            yield f"# %hidden {keep(body)}{end}"
            continue
        made = _replaced(body, keep) if state.begins_statement else None
        if made is None:
            state.feed(body)
            yield line
        else:
            continued = body.endswith("\\")
            yield made + end


def _replaced(line: str, keep: Callable[[str], int]) -> str | None:
    """A line of IPython's own, hidden; None for a line of Python."""
    if found := _ESCAPE.fullmatch(line):
        return f"{found['indent']}pass  # %hidden {keep(found['text'])}"
    found = _HELP.fullmatch(line)
    if found and (_PATTERN.fullmatch(found["asked"]) or _is_code(found["asked"])):
        return f"{found['indent']}pass  # %hidden {keep(found['text'])}"
    for equals in _ASSIGNED.finditer(line):
        head = line[: equals.end()]
        if _is_code(f"{head.strip()} 0"):
            return f"{head}get_ipython()  # %hidden {keep(line[equals.end() :])}"
    found = _COMMAND.fullmatch(line)
    if found and found["word"] in _AUTOMAGIC and (found["text"] == found["word"] or not parses(line.strip())):
        return f"{found['indent']}pass  # %hidden {keep(found['text'])}"
    return None


def _is_code(text: str) -> bool:
    """Whether a piece of a line is Python; what ends within a comment is not."""
    return parses(text) and not parses(f"{text})")


class _Lines:
    """Knows, line by line, whether the next one begins a statement: not inside brackets, strings or behind a `\\`."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""
        self._joined = False

    @property
    def begins_statement(self) -> bool:
        return not (self._depth or self._quote or self._joined)

    def feed(self, line: str) -> None:
        place = 0
        while place < len(line):
            if self._quote:
                place = self._string_end(line, place)
                continue
            found = _PIECE.search(line, place)
            if found is None or found["comment"]:
                break
            place = found.end()
            if found["quote"]:
                self._quote = found["quote"]
            else:
                self._depth = max(0, self._depth + (1 if found["open"] else -1))
        if len(self._quote) == 1 and not line.endswith("\\"):
            self._quote = ""  # a simple string ends with its line, whole or not
        self._joined = not self._quote and line.endswith("\\")

    def _string_end(self, line: str, place: int) -> int:
        while place < len(line):
            if line[place] == "\\":
                place += 2
            elif line.startswith(self._quote, place):
                place += len(self._quote)
                self._quote = ""
                return place
            else:
                place += 1
        return len(line)


def is_python(text: str) -> bool:
    """The same with a second opinion, as for a file: the grammar of a newer Python is no mistake."""
    if parses(text):
        return True
    try:
        return isinstance(read(text.encode()), Source)
    except UnicodeEncodeError:  # JSON can hold half a character
        return False
