"""Tests run on all processors, and on one more: some of them only wait for processes that they have started."""

from __future__ import annotations

import os


def pytest_xdist_auto_num_workers() -> int:
    return min(8, (os.cpu_count() or 1) + 1)
