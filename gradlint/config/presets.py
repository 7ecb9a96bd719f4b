"""Ready-made sets of rules: `strict`, `default` and `quiet`."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable

from gradlint.config.errors import unknown
from gradlint.config.selectors import Layer, default_codes, expand, known_codes
from gradlint.model import Severity

#: configured severities, selectors still as written
Severities = tuple[tuple[str, Severity], ...]


class Preset(enum.Enum):
    """Which rules are on before `select`, `extend-select` and `ignore` have their say."""

    #: every rule, those that are off by default as well
    STRICT = "strict"
    DEFAULT = "default"
    #: of the default rules those that are errors: the training that runs is not the one that was meant
    QUIET = "quiet"


def preset_named(name: str, *, where: str) -> Preset:
    """The preset of this name; a wrong name is told with the nearest right one."""
    presets = {preset.value: preset for preset in Preset}
    if name not in presets:
        raise unknown("preset", name, presets, where=where)
    return presets[name]


def preset_of(layers: Iterable[Layer]) -> Preset:
    """The preset that holds: the uppermost layer that names one decides."""
    named = [layer.preset for layer in layers if layer.preset is not None]
    return named[-1] if named else Preset.DEFAULT


@functools.cache
def preset_codes(preset: Preset, severities: Severities = ()) -> frozenset[str]:
    """The codes of a preset. What counts as an error is the user's to say: `[severity]` shapes `quiet`."""
    if preset is Preset.STRICT:
        return known_codes()
    if preset is Preset.DEFAULT:
        return default_codes()
    from gradlint.registry import by_code

    own = {code: by_code()[code].meta.severity for code in default_codes()}
    return frozenset(code for code in own if (severity_of(code, severities) or own[code]) is Severity.ERROR)


@functools.cache
def severity_of(code: str, severities: Severities) -> Severity | None:
    """The configured severity, the narrowest selector's; None for the rule's own."""
    matching = [(len(expand(selector)), severity) for selector, severity in severities if code in expand(selector)]
    return min(matching, key=lambda pair: pair[0])[1] if matching else None
