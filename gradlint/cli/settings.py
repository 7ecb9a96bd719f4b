"""`gradlint check --show-settings`: what holds for a file, in the words of a configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gradlint.config.selectors import preset_of
from gradlint.config.settings import Settings
from gradlint.model import FixSafety
from gradlint.registry import by_code
from gradlint.runner.files import DEFAULT_EXCLUDES


def settings_lines(settings: Settings, path: str) -> Iterator[str]:
    """As TOML; what is not set and has no value stands in a comment."""
    on = sorted(settings.enabled_for(path))
    yield f"# settings for {path}"
    yield f"# from {settings.source or 'no file: the defaults, and the command line'}"
    torch = settings.target_torch
    fixing, run = settings.fixing, settings.run
    exclude = DEFAULT_EXCLUDES if settings.exclude is None else settings.exclude
    values: dict[str, object] = {
        "preset": preset_of(settings.layers).value,
        "select": on,
        "fixable": [code for code in on if settings.fixable(code) and by_code()[code].meta.fix is not FixSafety.NONE],
        "fix": bool(fixing.fix),
        "unsafe-fixes": bool(fixing.unsafe_fixes),
        "fix-only": bool(fixing.fix_only),
        "show-fixes": bool(fixing.show_fixes),
        "fail-on": run.fail_on or "warning",
        "output-format": run.output_format or "full",
        "target-torch": None if torch is None else f"{torch[0]}.{torch[1]}",
        "baseline": settings.baseline,
        "exclude": exclude,
        "extend-exclude": settings.extend_exclude,
        "force-exclude": bool(run.force_exclude),
        "respect-gitignore": run.respect_gitignore is not False,
        "include-markdown": settings.include_markdown,
        "project": settings.project,
        "src": settings.src,
        "cache-dir": run.cache_dir,
    }
    for key, value in values.items():
        yield f"# {key}: not set" if value is None else f"{key} = {json.dumps(value, ensure_ascii=False)}"
    if settings.per_file_ignores:
        yield from ("", "[per-file-ignores]")
        yield from (
            f"{json.dumps(pattern)} = {json.dumps(list(rules))}" for pattern, rules in settings.per_file_ignores
        )
    severities = {code: settings.severity_of(code) for code in on}
    if any(severities.values()):
        yield from ("", "[severity]")
        yield from (f'{code} = "{severity.label}"' for code, severity in severities.items() if severity is not None)
    for code in on:
        if options := settings.options_for(code):
            yield from ("", f"[rules.{by_code()[code].rule_name()}]")
            yield from (f"{name} = {json.dumps(value)}" for name, value in options.items())
