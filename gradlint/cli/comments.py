"""`gradlint check --add-ignore`: comments for all findings, written into the files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradlint.documents.ignores import ignored
from gradlint.model import counted
from gradlint.runner.files import SourceFile, read_bytes
from gradlint.runner.write import WriteError, replace_file

if TYPE_CHECKING:
    from gradlint.cli.output import Output
    from gradlint.runner.run import Run


def add_comments(run: Run, files: Sequence[SourceFile], reason: str, output: Output, *, quiet: bool) -> int:
    """The exit code: 2 if a file could not be written, 1 if something is left that no comment can silence."""
    paths = {file.shown: file.path for file in files}
    seen: set[str] = set()
    silenced = written = left = failed = 0
    for result in run.results:
        real = os.path.realpath(paths[result.path])
        if not result.findings or real in seen:  # one file may have several names
            continue
        seen.add(real)
        try:
            source = read_bytes(real)
            found = ignored(source, result, reason)
            if found.source != source:
                replace_file(real, source, found.source)
                written += 1
        except (OSError, WriteError) as error:
            output.error(f"{result.path}: not written: {getattr(error, 'strerror', None) or error}")
            failed += 1
            continue
        silenced += found.silenced
        left += len(result.findings) - found.silenced
        for wish in found.left:
            output.warn(f"{result.path}:{wish.first}: {wish.code} stays: no comment can stand on this line")
    if not quiet:
        many = f"{counted(silenced, 'finding')} in {counted(written, 'file')}"
        output.lines([f"Silenced {many}" if silenced else "Nothing to silence"])
    return 3 if any(result.crashes for result in run.results) else 2 if failed else 1 if left else 0
