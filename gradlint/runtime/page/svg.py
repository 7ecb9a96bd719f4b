"""SVG and HTML elements as text; everything that is not already an element is escaped."""

from __future__ import annotations

import html

from gradlint.runtime.page.words import clean


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
