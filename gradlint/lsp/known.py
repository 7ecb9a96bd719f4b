"""Findings that a baseline knows are as silent in an editor as they are on the command line."""

from __future__ import annotations

import os
from collections.abc import Callable

from gradlint.baseline import Baseline, BaselineError, read_baseline
from gradlint.lsp.jobs import UNNAMED, Job
from gradlint.model import FileResult

#: what of a result counts, given the program
Keep = Callable[[FileResult, str], FileResult]


class Known:
    """The baselines that were read, as long as their files stay the same."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[tuple[int, int], Baseline]] = {}

    def keep(self, job: Job) -> Keep | None:
        """None where everything counts; BaselineError if the file is no baseline."""
        file = job.settings.baseline
        if file is None or job.path == UNNAMED:
            return None
        try:
            status = os.stat(file)
        except OSError as error:
            raise BaselineError(f"{file}: cannot be read: {error.strerror}") from None
        stamp = status.st_mtime_ns, status.st_size
        stamped, baseline = self._read.get(file, (None, None))
        if baseline is None or stamped != stamp:
            baseline = read_baseline(file)
            self._read[file] = stamp, baseline
        return baseline.silence
