"""The settings that hold for a file: which rules are on, how severe, with which options; and what a run is to fix."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gradlint.config.globs import one_of
from gradlint.config.selectors import Layer, expand, preset_codes, preset_of, resolve, resolve_fixable, severity_of
from gradlint.model import Severity
from gradlint.records import dataclass
from gradlint.registry import default_codes

if TYPE_CHECKING:
    from gradlint.model import Finding
    from gradlint.rule import OptionValue

Pairs = tuple[tuple[str, tuple[str, ...]], ...]


def _made(choices: FixChoice | RunChoice) -> dict[str, Any]:
    """Those that are no None."""
    return {name: value for name, value in choices._asdict().items() if value is not None}


class FixChoice(NamedTuple):
    """The four switches of `--fix` and its companions, as one source of choices gives them."""

    fix: bool | None = None
    unsafe_fixes: bool | None = None
    fix_only: bool | None = None
    show_fixes: bool | None = None

    def over(self, below: FixChoice) -> FixChoice:
        """These choices where they were made, else those below."""
        return below._replace(**_made(self))


class RunChoice(NamedTuple):
    """What else holds for a run as a whole, as one source of choices gives it."""

    fail_on: str | None = None
    output_format: str | None = None
    force_exclude: bool | None = None
    respect_gitignore: bool | None = None
    cache_dir: str | None = None

    def over(self, below: RunChoice) -> RunChoice:
        return below._replace(**_made(self))


@dataclass(frozen=True, slots=True)
class Settings:
    """All that shapes the findings of a file; plain, hashable and picklable, selectors still as written."""

    layers: tuple[Layer, ...] = ()
    per_file_ignores: Pairs = ()
    severities: tuple[tuple[str, Severity], ...] = ()
    options: tuple[tuple[str, tuple[tuple[str, bool | int | float | str], ...]], ...] = ()
    target_torch: tuple[int, int] | None = None
    root: str = ""
    source: str = ""
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    include_markdown: bool = False
    #: files are followed into those that they import, below the root and in these further folders: so it is where
    #: nobody says no; a text that stands for itself has none
    project: bool = False
    src: tuple[str, ...] = ()
    #: comments that silence findings are not read
    ignore_noqa: bool = False
    #: how the run is to be; no part of the fingerprint, for the findings are the same
    fixing: FixChoice = FixChoice()
    run: RunChoice = RunChoice()
    #: files whose bytes hold nothing that a rule needs are not read; no part of the fingerprint, either
    prefilter: bool = True
    #: fixes are looked for; no part of it, either: the cache knows whether they were
    offers: bool = True
    #: a file with findings that stay silent; the cache holds them all the same
    baseline: str | None = None

    def enabled_for(self, path: str) -> frozenset[str]:
        """The codes that are on for this file."""
        enabled = resolve(self.layers, preset_codes(preset_of(self.layers), self.severities))
        for pattern, selectors in self.per_file_ignores:
            if path_matches(path, pattern):
                for selector in selectors:
                    enabled = enabled - expand(selector)
        return enabled

    def watched_for(self, path: str) -> frozenset[str]:
        """The codes that a fix must not offend: those that are on, and those that are on by default and not ignored."""
        ignored = {code for layer in self.layers for selector in layer.ignore for code in expand(selector)}
        return self.enabled_for(path) | (default_codes() - ignored)

    def severity_of(self, code: str) -> Severity | None:
        """The configured severity, the narrowest selector's, or None for the rule's own."""
        return severity_of(code, self.severities)

    def with_severity(self, finding: Finding) -> Finding:
        """The finding with the severity that was configured for its rule."""
        severity = self.severity_of(finding.code)
        return finding if severity is None else finding.with_severity(severity)

    def options_for(self, code: str) -> Mapping[str, OptionValue]:
        for selector, values in self.options:
            if code in expand(selector):
                return dict(values)
        return {}

    def fixable(self, code: str) -> bool:
        """Whether fixes of this rule may be offered."""
        return code in resolve_fixable(self.layers)

    def fingerprint(self) -> str:
        """All that can change a result, in one word; part of the cache key."""
        return repr(
            (
                self.layers,
                self.per_file_ignores,
                self.severities,
                self.options,
                self.target_torch,
                self.project,
                self.src,
                self.ignore_noqa,
                # names are looked for from the root: moving the configuration moves them
                self.root if self.project else "",
            )
        )


@functools.cache
def _glob(pattern: str) -> re.Pattern[str]:
    return one_of([pattern])


def path_matches(path: str, pattern: str) -> bool:
    """Whether a pattern names this file: by its name, or by its whole path; `!` turns it round."""
    if pattern.startswith("!"):
        return not path_matches(path, pattern[1:])
    compiled = _glob(pattern)
    if "/" not in pattern:
        return compiled.fullmatch(os.path.basename(path)) is not None
    return compiled.fullmatch(os.path.abspath(path).replace(os.sep, "/")) is not None
