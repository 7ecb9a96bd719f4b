"""Reports name files from the root of the checkout: here that is the current folder, wherever the tests run."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
