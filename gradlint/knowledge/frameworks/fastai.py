"""fastai: its learner trains, and its callbacks tell norms."""

from __future__ import annotations

from gradlint.events import Framework

FASTAI = Framework("fastai", logs_norms=True, trains=("fastai", "fastai.**"))
