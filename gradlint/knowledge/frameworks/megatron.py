"""NVIDIA Megatron-LM: it clips by its configuration, and logs the norm."""

from __future__ import annotations

from gradlint.events import Framework

MEGATRON = Framework("Megatron-LM", stem="megatron", clips=True, logs_norms=True, trains=("megatron", "megatron.**"))
