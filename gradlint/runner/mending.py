"""What becomes of fixed text: it is written to its file, or kept so that it can be shown as a diff."""

from __future__ import annotations

import os
from typing import NamedTuple

from gradlint.model import Finding, Fixed
from gradlint.runner.files import SourceFile
from gradlint.runner.write import WriteError, replace_file


class FixPlan(NamedTuple):
    """Which fixes a run applies, and whether it writes files or only says what it would write."""

    unsafe: bool = False
    write: bool = True


class FixedFile(NamedTuple):
    """A file that was fixed, or would be."""

    path: str
    before: bytes
    after: bytes
    applied: tuple[Finding, ...]


class Failure(NamedTuple):
    """A file that should have been fixed and was left as it was."""

    path: str
    reason: str


class Mender:
    """Keeps the account of one run; every file on the disk is fixed under one of its names at a time."""

    def __init__(self, plan: FixPlan) -> None:
        self.plan = plan
        self.files: list[FixedFile] = []
        self.failures: list[Failure] = []
        self._unwritten: dict[str, bytes] = {}
        self._paths: dict[str, str] = {}

    def apart(self, files: list[SourceFile]) -> tuple[list[SourceFile], list[SourceFile]]:
        """Each file of the disk once, under its own name rather than a link's; then all other names, for later."""
        first: dict[str, SourceFile] = {}
        for file in sorted(files, key=lambda file: (self._real(file) != file.path, file.path)):
            first.setdefault(self._real(file), file)
        now = [file for file in files if first[self._real(file)] is file]
        return now, [file for file in files if first[self._real(file)] is not file]

    def _real(self, file: SourceFile) -> str:
        """The file itself, whatever links led to it."""
        if file.path not in self._paths:
            self._paths[file.path] = os.path.realpath(file.path)
        return self._paths[file.path]

    def content(self, file: SourceFile) -> bytes | None:
        """What the file would hold by now, had it been written; else None."""
        return self._unwritten.get(self._real(file))

    def take(self, file: SourceFile, before: bytes, fixed: Fixed) -> bool:
        """Write or keep the new text; whether the file is that text now."""
        if self.plan.write:
            try:
                replace_file(file.path, before, fixed.source)
            except WriteError as error:
                self.failures.append(Failure(file.shown, str(error)))
                return False
        else:
            self._unwritten[self._real(file)] = fixed.source
        self.files.append(FixedFile(file.shown, before, fixed.source, fixed.applied))
        return self.plan.write
