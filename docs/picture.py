"""The README's picture, drawn from a real run."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "check.svg"
_WIDTH = 112
COMMAND = ("check", "examples/train_with_mistakes.py")


def picture() -> str:
    """The SVG of the shipped example's findings, in colour, whatever terminal this runs in."""
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    run = subprocess.run(
        [sys.executable, "-m", "gradlint", *COMMAND, "--isolated", "--no-cache"],
        cwd=ROOT,
        env={**environment, "FORCE_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if run.returncode != 1 or run.stderr:
        raise SystemExit(f"the example did not give findings (exit {run.returncode}): {run.stderr}")
    return terminal_svg(run.stdout, title=f"gradlint {' '.join(COMMAND)}")


def words(svg: str) -> list[str]:
    """What the picture says: another version of rich may draw it differently."""
    return re.findall(r"GL\d{3}|[a-z]+(?:-[a-z]+){1,4}(?=<)", re.sub(r"<style>.*?</style>", "", svg, flags=re.DOTALL))


def terminal_svg(ansi: str, *, title: str) -> str:
    """What a terminal would show, drawn; the same output always gives the same picture."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(ansi))
    svg = console.export_svg(title=title, theme=MONOKAI, unique_id="gradlint")
    # viewers need no network: the picture names common fonts instead of fetching one
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace").rstrip() + "\n"
