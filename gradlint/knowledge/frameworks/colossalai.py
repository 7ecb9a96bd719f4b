"""ColossalAI: it clips by its configuration, and logs the norm."""

from __future__ import annotations

from gradlint.events import Framework

COLOSSALAI = Framework(
    "ColossalAI", stem="colossalai", clips=True, logs_norms=True, trains=("colossalai", "colossalai.**")
)
