"""One self-contained file from a template: styles and script inside, nothing fetched, everything escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from gradlint.registry import rule_url
from gradlint.runner.write import write_whole

if TYPE_CHECKING:
    from jinja2 import Environment


_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
#: what has no place in a page: control characters, lone surrogates, non-characters, and the marks that turn the
#: direction of text round, with which a file name could pose as another
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Without terminal colours and characters that a page cannot hold."""
    return _UNFIT.sub("\ufffd", _ANSI.sub("", text))


def number(value: float | None) -> str:
    """`65536`, `1.5e-05`, `0.0312`, `NaN`."""
    if value is None:
        return "–"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    if value == int(value) and abs(value) < 1e7:
        return str(int(value))
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{exponent}"


def numbers(values: Iterable[float], most: int = 4) -> str:
    """The different values in the order they came, the middle left out if there are many."""
    said = list(dict.fromkeys(number(v) for v in values))
    if len(said) > most:
        said = [*said[: most - 1], "…", said[-1]]
    return ", ".join(said)


def span(numbers_: Sequence[int]) -> str:
    """`3`, `3–8`, `3, 5–7`."""
    parts: list[str] = []
    start = last = None
    for value in [*numbers_, None]:
        if start is not None and last is not None and value != last + 1:
            parts.append(str(start) if start == last else f"{start}–{last}")
            start = None
        start, last = value if start is None else start, value
    return ", ".join(parts)


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True, slots=True)
class Badge:
    """A word with a sign and a colour: `look` is its class in the page."""

    text: str
    sign: str
    look: str


# -- elements ----------------------------------------------------------------------------------------------------------


class Markup(str):
    """Text that is markup already; templates leave it as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def tag(element: str, *children: str, **attributes: str | float | None) -> Markup:
    """`class_` stands for `class`, `stroke_width` for `stroke-width`; None leaves an attribute out."""
    said = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(_text(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inner = "".join(escaped(child) for child in children)
    return Markup(f"<{element}{said}>{inner}</{element}>" if inner else f"<{element}{said}/>")


def escaped(text: str) -> str:
    return text if isinstance(text, Markup) else html.escape(clean(text))


def _text(value: str | float) -> str:
    """Tenths of a pixel are enough."""
    if isinstance(value, str):
        return value
    return f"{value:.1f}".removesuffix(".0")


# -- the file ----------------------------------------------------------------------------------------------------------


_CODE = re.compile(r"GL\d{3}")


class PageError(Exception):
    """Why there is no page, in words for the user."""


def render(template: str, **context: object) -> str:
    """The whole text of a page."""
    style, script = asset("page.css"), asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # nothing but this very script may run, and nothing may be loaded from anywhere
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    return _environment().get_template(template).render(style=style, script=script, policy=policy, **context)


def write(text: str, path: Path) -> None:
    """The file whole or not at all; folders that are missing are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(str(path), text.encode("utf-8"))


def prose(text: str) -> Markup:
    """Messages set names of code in backticks."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # one without its partner is meant as it stands
        pieces[-2:] = ["`".join(pieces[-2:])]
    return Markup("".join(tag("code", piece) if n % 2 else escaped(piece) for n, piece in enumerate(pieces)))


def rule(code: str) -> Markup:
    """The code of a rule, and the way to its page."""
    if not _CODE.fullmatch(code):
        return Markup(escaped(code))
    return tag("a", code, class_="code", href=rule_url(code), rel="noreferrer")


def codes(text: str) -> Markup:
    """Plain words in which codes of rules lead to their pages."""
    pieces = re.split(f"({_CODE.pattern})", text)
    return Markup("".join(rule(piece) if n % 2 else escaped(piece) for n, piece in enumerate(pieces)))


@cache
def asset(name: str) -> str:
    """Line ends are made one: the digest of the script must fit on every system."""
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8").replace("\r\n", "\n")


@cache
def _environment() -> Environment:
    try:
        import jinja2
    except ImportError:
        raise PageError("pages need jinja2: pip install 'torch-gradlint[runtime]'") from None

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
    )
    environment.filters.update(prose=prose, rule=rule, codes=codes, number=number)
    return environment
