"""The terminal output as an SVG picture, from a real run."""

from __future__ import annotations

import io
import re

_WIDTH = 112


def terminal_svg(ansi: str, *, title: str) -> str:
    """What a terminal would show, drawn; the same output always gives the same picture."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(ansi))
    svg = console.export_svg(title=title, theme=MONOKAI, unique_id="gradlint")
    # viewers need no network: the picture names common fonts instead of fetching one
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace").rstrip() + "\n"
