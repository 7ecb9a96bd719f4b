"""Configuration mistakes, told with the file, the key and the nearest valid value."""

from __future__ import annotations

from collections.abc import Iterable


class ConfigError(Exception):
    """A wrong option or configuration value; the command line prints it and exits with 2."""


def nearest(wrong: str, valid: Iterable[str]) -> str | None:
    """The valid word most like the wrong one, if any is like it at all."""
    import difflib  # costs milliseconds, and only mistakes need it

    folded = {word.lower(): word for word in valid}
    close = difflib.get_close_matches(wrong.lower(), list(folded), n=1, cutoff=0.5)
    return folded[close[0]] if close else None


def unknown(kind: str, wrong: str, valid: Iterable[str], *, where: str = "") -> ConfigError:
    """`gradlint.toml: unknown key `selct`; did you mean `select`?`"""
    choices = list(valid)
    hint = nearest(wrong, choices)
    if hint is None and len(choices) <= 20:
        tail = f"valid: {', '.join(f'`{choice}`' for choice in sorted(choices))}"
    else:
        tail = f"did you mean `{hint}`?" if hint else "run `gradlint rules` for the list"
    return ConfigError(f"{where}{': ' if where else ''}unknown {kind} `{wrong}`; {tail}")
