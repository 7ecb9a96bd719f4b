"""The examples of docs/monitor.md run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "monitor.md"


@pytest.mark.slow
def test_the_examples_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert len(names["monitor"].samples) == 21
    assert names["monitor"].findings == []
    assert (tmp_path / "gradients.html").stat().st_size > 0
    printed = capsys.readouterr().out
    assert printed.startswith("Sequential with AdamW: 200 steps, a sample every 10\n")
    assert "All finite: the loss" in printed
