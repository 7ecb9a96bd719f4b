"""The parts of the recorder, in the order they are put in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gradlint.runtime.recorder import backward, compiler, forwards, frameworks, optimizers, scaler, schedulers
from gradlint.runtime.recorder.by_hand import ByHand
from gradlint.runtime.recorder.clips import Clips
from gradlint.runtime.recorder.distributed import Distributed
from gradlint.runtime.recorder.gradients import Gradients
from gradlint.runtime.recorder.importing import Imports
from gradlint.runtime.recorder.survey import Survey
from gradlint.runtime.recorder.warned import Warnings

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder


class Parts:
    """Each watches one thing; they find each other here."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.gradients = Gradients(recorder)
        self.by_hand = ByHand(recorder)
        self.clips = Clips(recorder)
        self.distributed = Distributed(recorder)
        self.imports = Imports(recorder)
        self.warnings = Warnings(recorder)
        self.survey = Survey(recorder)

    def install(self) -> None:
        recorder = self.recorder
        self.imports.install()
        optimizers.install(recorder)
        backward.install(recorder)
        scaler.install(recorder)
        schedulers.install(recorder)
        self.clips.install()
        self.distributed.install()
        forwards.install(recorder)
        frameworks.install(recorder)
        self.warnings.install()
        self.gradients.install()
        recorder.patches.watch_everywhere(torch, "compile", compiler.in_pieces)
        recorder.patches.bind()
