"""Where something happened: file names as people know them, and the text of the line."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gradlint.model import Cell
from gradlint.runtime.lines import Files
from gradlint.runtime.page.words import shortened
from gradlint.runtime.recording import Place

_SEPARATOR = re.compile(r"[\\/]+")
_LONGEST = 160


class Places:
    """The files of one run, seen from the folder of its script."""

    def __init__(
        self, sources: Mapping[str, str], script: str, cells: Mapping[str, tuple[Cell, ...]] | None = None
    ) -> None:
        self._sources = sources
        self._cells = cells or {}
        self.files = Files(sources)
        self._names: dict[str, str] = {}
        self._texts: dict[tuple[str, int], str] = {}
        self._folder = _parts(self._known(script))[:-1]

    def name(self, file: str) -> str:
        """`src/train.py` within the script's folder; elsewhere the file and the folder it is in."""
        file = self._known(file)
        parts = _parts(file)
        if self._folder and parts[: len(self._folder)] == self._folder and len(parts) > len(self._folder):
            return "/".join(parts[len(self._folder) :])
        if not _rooted(file):
            return "/".join(parts)
        return "/".join(parts if len(parts) <= 2 else ["…", *parts[-2:]])

    def text(self, place: Place) -> str:
        """`train.py:41`."""
        return self.at(place.file, place.line)

    def at(self, file: str, line: int) -> str:
        """`train.py:41`, `train.ipynb:cell 3:2`."""
        for cell in reversed(self._cells.get(self._known(file), ())):
            if cell.first_row <= line:
                return f"{self.name(file)}:cell {cell.number}:{line - cell.first_row + 1}"
        return f"{self.name(file)}:{line}"

    def source(self, file: str, line: int) -> str:
        """The statement that stands there, on one line; empty if the file is not known."""
        if (file, line) not in self._texts:
            self._texts[file, line] = shortened(self.files[self._known(file)].source(line), _LONGEST)
        return self._texts[file, line]

    def _known(self, file: str) -> str:
        """The same file under the name it ran under: a finding may say `train.py`, the run `/home/me/train.py`."""
        if file in self._sources:
            return file
        if file not in self._names:
            wanted = _parts(file)
            alike = [name for name in self._sources if _ends_alike(_parts(name), wanted)]
            self._names[file] = alike[0] if len(alike) == 1 else file
        return self._names[file]


def _ends_alike(one: list[str], other: list[str]) -> bool:
    length = min(len(one), len(other))
    return length > 0 and one[-length:] == other[-length:]


def _parts(file: str) -> list[str]:
    return [part for part in _SEPARATOR.split(file) if part not in ("", ".")]


def _rooted(file: str) -> bool:
    return file.startswith(("/", "\\")) or file[1:2] == ":"
