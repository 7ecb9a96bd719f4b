"""One self-contained file from a template: styles and script inside, nothing fetched, everything escaped."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from gradlint.registry import rule_url
from gradlint.runtime.page.text import Markup, clean, escaped, tag

if TYPE_CHECKING:
    from jinja2 import Environment


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
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(text.encode("utf-8"))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


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
    environment.filters["prose"] = prose
    environment.filters["rule"] = rule
    environment.filters["codes"] = codes
    return environment
