"""Compares a fresh run with the tables that are kept: to the letter, but for the last digit of what was measured."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

from gradlint.docs.facts import Facts

_MEASURED = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[+-]?\d+)?(?![\w.])")


def all_differences(kept: Mapping[str, Facts], fresh: Mapping[str, Facts]) -> Iterator[str]:
    for code in sorted({*kept, *fresh}):
        if code not in kept:
            yield f"{code}: not in the file"
        elif code not in fresh:
            yield f"{code}: in the file, but there is no experiment"
        else:
            yield from differences(kept[code], fresh[code])


def differences(kept: Facts, fresh: Facts) -> Iterator[str]:
    if kept.torch != fresh.torch:
        yield f"{kept.code}: measured with torch {kept.torch}, this is {fresh.torch}"
    if kept.setting != fresh.setting:
        yield f"{kept.code}: the setting is {kept.setting!r} in the file, {fresh.setting!r} now"
    if len(kept.rows) != len(fresh.rows):
        yield f"{kept.code}: {len(kept.rows)} rows in the file, {len(fresh.rows)} measured"
        return
    for old, new in zip(kept.rows, fresh.rows, strict=True):
        for before, now in zip(old.cells, new.cells, strict=True):
            if not same(before, now):
                yield f"{kept.code}: {old.what}: {before} in the file, {now} measured"


def same(before: str, now: str) -> bool:
    """Words and counts to the letter; what has a decimal point was measured, and may be off by one in its last digit.

    Experiments compute with many more digits than they show, so another machine can at most round the other way.
    """
    if _MEASURED.sub("#", before) != _MEASURED.sub("#", now):
        return False
    pairs = zip(_MEASURED.findall(before), _MEASURED.findall(now), strict=True)
    return all(_close(Decimal(old), Decimal(new)) for old, new in pairs)


def _close(old: Decimal, new: Decimal) -> bool:
    return abs(old - new) <= max(_last_digit(old), _last_digit(new))


def _last_digit(number: Decimal) -> Decimal:
    """What one more in the last digit counts: 0.01 in 1.25."""
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "only numbers are compared, not nan and inf"
    return Decimal((0, (1,), exponent))
