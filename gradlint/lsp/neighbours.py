"""What the files that import an open one know of it; what was found in them stays known as long as it holds."""

from __future__ import annotations

from gradlint import engine
from gradlint.config.load import ConfigTree, Overrides
from gradlint.config.settings import Settings
from gradlint.model import FileResult, Unreadable
from gradlint.records import dataclass, replace
from gradlint.runner.cache import digest_of
from gradlint.runner.files import UNKNOWN, SourceFile, bytes_now
from gradlint.runner.importers import Importers
from gradlint.runner.ledger import Analysed, Ledger
from gradlint.runner.run import lint_one, worth_parsing

#: files whose results are remembered
_MOST = 64


@dataclass(frozen=True, slots=True)
class _Known:
    settings: Settings
    digest: str
    result: FileResult


class Neighbours:
    """The results of files that are not looked at, but import one that is."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def settled(self, path: str, settings: Settings, result: FileResult, overrides: Overrides) -> FileResult:
        """What was found in a file, with what the files that import it know of it; as `gradlint check` of it says."""

        def as_here(found: Settings) -> Settings:
            return replace(found, project=settings.project)

        file = SourceFile(path, path, UNKNOWN, settings, True)
        importers = Importers(ConfigTree(overrides), (), as_here)
        others = [Analysed(other, self._result(other)) for other in importers.of([file])]
        (whole,) = Ledger([Analysed(file, result), *others], importers.counts).settled([file], frozenset())
        return whole

    def _result(self, file: SourceFile) -> FileResult:
        try:
            source = bytes_now(file.path)
        except OSError:
            return FileResult(file.shown, unreadable=Unreadable("it cannot be read"))
        digest = digest_of(source)
        known = self._known.pop(file.path, None)
        if known is None or known.digest != digest or known.settings != file.settings or _is_stale(known, file):
            known = _Known(file.settings, digest, _linted(source, file))
        self._known[file.path] = known
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return known.result


def _linted(source: bytes, file: SourceFile) -> FileResult:
    project = engine.project_of(file.path, file.settings)
    if worth_parsing(source, file.settings, file.path, project):
        return lint_one(source, file)
    return FileResult(file.shown, probes=() if project is None else tuple(project.probes.items()))


def _is_stale(known: _Known, file: SourceFile) -> bool:
    """Whether a file that the result was made of holds something else by now."""
    project = engine.project_of(file.path, file.settings)
    assert project is not None
    return project.differs(dict(known.result.probes))
