"""Reads files that came with a checkout: nothing that could block, and nothing larger than it should be.

What is wrong with them is told with the file, the key and the nearest valid value.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator

from gradlint.registry import closest

#: what configuration and lists of dependencies may take; real ones are a hundredth of it
LARGEST = 1_000_000
#: what a list of patterns may take: to compile a pattern costs far more than to read it
MOST_PATTERNS = 100_000
_FLAGS = (
    os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    # a pipe that nobody writes to would be waited for
    | getattr(os, "O_NONBLOCK", 0)
)  # fmt: skip
IRREGULAR = "not a regular file"
# the parser takes time by the square of a key's parts
_MOST_DOTS = 50
_STRING = r"""\"(?:[^"\\\n]|\\.)*\"?|'[^'\n]*'?"""


class ConfigError(Exception):
    """A wrong option or configuration value; the command line prints it and exits with 2."""


def nearest(wrong: str, valid: Iterable[str]) -> str | None:
    """The valid word most like the wrong one, if any is like it at all."""
    folded = {word.lower(): word for word in valid}
    found = closest(wrong.lower(), folded, 0.5)
    return None if found is None else folded[found]


def unknown(kind: str, wrong: str, valid: Iterable[str], *, where: str = "") -> ConfigError:
    """`gradlint.toml: unknown key `selct`; did you mean `select`?`"""
    choices = list(valid)
    hint = nearest(wrong, choices)
    if hint is None and len(choices) <= 40:
        tail = f"valid: {', '.join(f'`{choice}`' for choice in sorted(choices))}"
    else:
        tail = f"did you mean `{hint}`?" if hint else "run `gradlint rules` for the list"
    return ConfigError(f"{where}{': ' if where else ''}unknown {kind} `{wrong}`; {tail}")


def read_small(path: str, limit: int = LARGEST) -> bytes:
    """A whole file of bounded size. Raises OSError where there is none, and ConfigError for one that is refused."""
    mode = os.stat(path).st_mode  # some devices act on being opened
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ConfigError(f"{path}: {IRREGULAR}")
    with open(os.open(path, _FLAGS), "rb") as file:
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise ConfigError(f"{path}: larger than {limit:,} bytes, which is the most that is read")
    return raw


def folders_up(folder: str) -> Iterator[str]:
    """An absolute folder, and those that it stands in, from the inside out."""
    inside = ""
    while folder != inside:
        yield folder
        inside, folder = folder, os.path.dirname(folder)


def parse_toml(raw: bytes, path: str) -> dict[str, object]:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # type: ignore[no-redef,unused-ignore] # the same parser under its older name
    try:
        text = raw.decode("utf-8-sig")
        if any(line.count(".") > _MOST_DOTS for line in re.sub(_STRING, "", text).splitlines()):
            raise ConfigError(f"{path}: a key of more than {_MOST_DOTS} parts")
        return tomllib.loads(text)
    except ValueError as error:  # of the syntax, the encoding, or a number of thousands of digits
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: not valid TOML: nested too deeply") from None
