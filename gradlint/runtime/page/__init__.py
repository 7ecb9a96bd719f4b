"""One self-contained HTML page for what a run or a monitor has seen. Needs jinja2, never torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gradlint.runtime.page.render import PageError, write

if TYPE_CHECKING:
    from gradlint.runtime.monitor.data import MonitorData
    from gradlint.runtime.verification import Verification

__all__ = ["PageError", "monitor_page", "verification_page", "write_monitor", "write_verification"]


def verification_page(verification: Verification) -> str:
    """The text of the page; the same verification always gives the same text."""
    from gradlint.runtime.page.verified import page

    return page(verification)


def write_verification(verification: Verification, path: Path) -> None:
    write(verification_page(verification), path)


def monitor_page(data: MonitorData) -> str:
    """The text of the page; the same data always give the same text."""
    from gradlint.runtime.page.monitored import page

    return page(data)


def write_monitor(data: MonitorData, path: Path) -> None:
    write(monitor_page(data), path)
