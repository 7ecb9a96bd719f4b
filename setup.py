"""The README as the package index shows it: its links and pictures lead to the repository."""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent


def described() -> str:
    found = re.search(r'^Homepage = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert found is not None, "pyproject.toml names no homepage"
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:)", rf"\1{found[1]}/raw/main/", text)
    return re.sub(r"(?<!!)(\[[^\]]*\]\()(?!https?:|#)", rf"\1{found[1]}/blob/main/", text)


setup(long_description=described(), long_description_content_type="text/markdown")
