"""OpenMMLab's MMEngine: its hooks train, and its loggers can tell norms."""

from __future__ import annotations

from gradlint.events import Framework

MMENGINE = Framework("MMEngine", logs_norms=True, trains=("mmengine", "mmengine.**"))
