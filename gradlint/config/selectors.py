"""Turns selectors (codes, prefixes like `GL2`, names, `ALL`) and presets into sets of rule codes."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable
from typing import NamedTuple

from gradlint.config.reading import unknown
from gradlint.model import SYNTAX_ERROR, Severity
from gradlint.registry import by_code, by_name, default_codes

ALL = "ALL"

#: configured severities, selectors still as written
Severities = tuple[tuple[str, Severity], ...]


class Layer(NamedTuple):
    """One source of choices; the command line's layer lies over the configuration file's."""

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fixable: tuple[str, ...] | None = None
    unfixable: tuple[str, ...] = ()
    preset: Preset | None = None


@functools.cache
def known_codes() -> frozenset[str]:
    return frozenset(by_code())


@functools.cache
def expand(selector: str) -> frozenset[str]:
    """The codes a selector stands for; empty when it stands for nothing."""
    if selector.upper() == ALL:
        return known_codes()
    if _is_code(selector):
        return frozenset(code for code in known_codes() if code.startswith(selector.upper()))
    rule = by_name().get(selector.lower().replace("_", "-"))
    return frozenset() if rule is None else frozenset({rule.meta.code})


def check(selectors: Iterable[str], *, where: str = "") -> None:
    """Raise on the first selector that stands for no rule."""
    for selector in selectors:
        if not expand(selector):
            raise unknown("rule", selector, valid_selectors(), where=where)


def valid_selectors() -> list[str]:
    codes = sorted(known_codes())
    prefixes = sorted({code[:3] for code in codes})
    return [ALL, *prefixes, *codes, *by_name()]


def _specificity(selector: str) -> int:
    """How narrow a selector is: `ALL` < `GL` < `GL1` < `GL10` < `GL101` and names."""
    if selector.upper() == ALL:
        return 0
    if _is_code(selector):
        return min(len(selector), 5)
    return 5


def _is_code(selector: str) -> bool:
    """A code or the beginning of one, in any case."""
    return selector[:2].upper() == "GL" and (selector[2:].isdecimal() or len(selector) == 2)


@functools.cache
def resolve(layers: tuple[Layer, ...], ground: frozenset[str]) -> frozenset[str]:
    """The codes that are on: the narrower selector wins, and `ignore` wins a tie. `ground` is the preset's choice.

    A layer with `select` starts afresh; one without changes what the layer below it chose. A preset of a layer takes
    the place of a `select` below it; what is added and ignored there still holds.
    A syntax error is told whatever was selected, unless it is ignored: nothing else can be found in such a file.
    """
    enabled = ground
    named = max((place for place, layer in enumerate(layers) if layer.preset is not None), default=0)
    for place, layer in enumerate(layers):
        select = layer.select if place >= named else None
        if select is not None:
            enabled = known_codes() & {SYNTAX_ERROR}
        enabled = _changed(enabled, (*(select or ()), *layer.extend_select), layer.ignore)
    return enabled


@functools.cache
def resolve_fixable(layers: tuple[Layer, ...]) -> frozenset[str]:
    """The codes whose fixes may be offered, chosen as rules are: `fixable` starts afresh, `unfixable` takes away."""
    fixable = known_codes()
    for layer in layers:
        if layer.fixable is not None:
            fixable = frozenset()
        fixable = _changed(fixable, layer.fixable or (), layer.unfixable)
    return fixable


def _changed(codes: frozenset[str], wanted: Iterable[str], unwanted: Iterable[str]) -> frozenset[str]:
    best_on, best_off = _best(wanted), _best(unwanted)
    on = {code for code, rank in best_on.items() if rank > best_off.get(code, -1)}
    off = {code for code, rank in best_off.items() if rank >= best_on.get(code, -1)}
    return (codes | on) - off


def _best(selectors: Iterable[str]) -> dict[str, int]:
    best: dict[str, int] = {}
    for selector in selectors:
        rank = _specificity(selector)
        for code in expand(selector):
            best[code] = max(rank, best.get(code, -1))
    return best


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
    own = {code: by_code()[code].meta.severity for code in default_codes()}
    return frozenset(code for code in own if (severity_of(code, severities) or own[code]) is Severity.ERROR)


@functools.cache
def severity_of(code: str, severities: Severities) -> Severity | None:
    """The configured severity, the narrowest selector's; None for the rule's own."""
    matching = [(len(expand(selector)), severity) for selector, severity in severities if code in expand(selector)]
    return min(matching, key=lambda pair: pair[0])[1] if matching else None
