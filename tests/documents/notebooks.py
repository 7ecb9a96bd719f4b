"""Notebooks for tests, written as Jupyter writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence

CLIP_LATE = """\
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"""

CLIP_RIGHT = """\
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()"""


def notebook(*cells: str, indent: int | None = 1, as_list: bool = True, end: str = "\n", **more: object) -> bytes:
    """A file with a title and these code cells; the first code cell is number 2."""
    made: list[dict[str, object]] = [{"cell_type": "markdown", "id": "t", "metadata": {}, "source": ["# A title"]}]
    for number, text in enumerate(cells):
        made.append(
            {
                "cell_type": "code",
                "execution_count": number + 1,
                "id": f"c{number}",
                "metadata": {"collapsed": False},
                "outputs": [{"name": "stdout", "output_type": "stream", "text": ["é \u2028 loss.backward()\n"]}],
                "source": lines(text) if as_list else text,
            }
        )
    whole = {"cells": made, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    return (json.dumps({**whole, **more}, indent=indent, ensure_ascii=False) + end).encode()


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def sources(data: bytes) -> Sequence[str]:
    """The code cells' texts."""
    return ["".join(cell["source"]) for cell in json.loads(data)["cells"] if cell["cell_type"] == "code"]
