"""Runs made by hand, as the recorder would have written them, and what was judged of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gradlint.model import Severity
from gradlint.runtime.recording import (
    BackwardRan,
    Clipped,
    Ended,
    Forwarded,
    Gradient,
    Happening,
    Met,
    Place,
    Raised,
    Recording,
    Scheduled,
    Stepped,
    Synced,
    Unscaled,
    Updated,
    Zeroed,
)
from gradlint.runtime.verdicts import Claim, Cure, Judged, Side, Verdict, Verification

SCRIPT = "/home/me/project/train.py"

AMP = """\
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
scaler = torch.amp.GradScaler("cpu")
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = criterion(model(inputs), targets)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
"""

ACCUMULATION = """\
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (inputs, targets) in enumerate(loader):
    loss = criterion(model(inputs), targets)
    (loss / 4).backward()
    if (i + 1) % 4 == 0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
"""

GAN = """\
optimizer_d = torch.optim.Adam(critic.parameters(), lr=2e-4)
optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-4)
for real in loader:
    for _ in range(n_critic):
        optimizer_d.zero_grad()
        loss_d = critic(generator(noise()).detach()).mean() - critic(real).mean()
        loss_d.backward()
        optimizer_d.step()
    optimizer_g.zero_grad()
    loss_g = -critic(generator(noise())).mean()
    loss_g.backward()
    optimizer_g.step()
"""


@dataclass
class Run:
    """Writes a recording, happening by happening; lines are found by a piece of their text."""

    source: str
    file: str = SCRIPT
    happenings: list[Happening] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, kind: type[Happening], text: str, **about: Any) -> int:
        lines = self.source.splitlines()
        places = tuple(Place(self.file, n, "<module>") for n, line in enumerate(lines, 1) if text and text in line)[:1]
        self.happenings.append(kind(len(self.happenings), places=places, **about))
        return len(self.happenings) - 1

    def optimizer(self, identity: str, kind: str, text: str = "") -> None:
        self.add(Met, text, id=identity, role="optimizer", type=kind, parameters=12)

    def zero(self, text: str = "zero_grad", optimizer: str = "o1") -> int:
        return self.add(Zeroed, text, optimizers=(optimizer,), owner=optimizer)

    def forward(self, text: str = "model(inputs)", **about: Any) -> int:
        return self.add(Forwarded, text, **{"model": "m1", "type": "Net", **about})

    def backward(
        self, norm: float, text: str = ".backward()", optimizers: tuple[str, ...] = ("o1",), **about: Any
    ) -> int:
        scale = about.get("scale", 1.0)
        gradients = tuple(Gradient(o, norm * scale, scale, present=12, total=12) for o in optimizers)
        return self.add(BackwardRan, text, optimizers=optimizers, gradients=gradients, **{"loss": 0.7, **about})

    def unscale(self, norm: float, scale: float) -> int:
        return self.add(
            Unscaled, "unscale_", optimizers=("o1",), owner="o1", scaler="s1", scale=scale,
            before=(Gradient("o1", norm * scale, scale, present=12, total=12),),
            gradients=(Gradient("o1", norm, present=12, total=12),),
        )  # fmt: skip

    def clip(self, norm: float, limit: float = 1.0, scale: float = 1.0, text: str = "clip_grad_norm_") -> int:
        """`norm` in true units, before the clip."""
        after = norm * scale * min(1.0, limit / (norm * scale)) if norm and math.isfinite(norm) else norm
        return self.add(
            Clipped, text, optimizers=("o1",), function="clip_grad_norm_", limit=limit, returned=norm * scale,
            parameters=12, present=12, before=(Gradient("o1", norm * scale, scale, present=12, total=12),),
            gradients=(Gradient("o1", after, scale, clipped=True, present=12, total=12),),
        )  # fmt: skip

    def step(self, norm: float, text: str = "step(", optimizer: str = "o1", **about: Any) -> int:
        self.counts[optimizer] = self.counts.get(optimizer, 0) + 1
        used = Gradient(optimizer, norm, clipped=about.pop("clipped", False), present=12, total=12)
        return self.add(
            Stepped, text, optimizers=(optimizer,), owner=optimizer, number=self.counts[optimizer], before=(used,),
            **{"rates": (1e-3,), "moved": 0.01, **about},
        )  # fmt: skip

    def recording(self, **about: Any) -> Recording:
        self.add(Ended, "", how="enough")
        return Recording(**{"pid": 4711, "torch": "2.13.0", "happenings": self.happenings, **about})

    def side(self, **about: Any) -> Side:
        return Side([self.recording(**about)], 2.4, {self.file: self.source})


def norm_at(step: int) -> float:
    return 3.2 + 1.7 * math.sin(step * 1.3) + 6 / step


def amp(*, fixed: bool, steps: int = 8) -> tuple[Side, list[int]]:
    """The clip sees gradients that are multiplied by 65536 unless it is fixed; the clips' indices."""
    source = AMP if fixed else AMP.replace("    scaler.unscale_(optimizer)\n", "")
    run, scale, clips = Run(source), 65536.0, []
    run.optimizer("o1", "AdamW", "torch.optim.AdamW")
    run.add(Met, "GradScaler", id="s1", role="scaler", type="GradScaler", enabled=True)
    for step in range(1, steps + 1):
        norm, rate = norm_at(step), 1e-3 * (1 + math.cos(math.pi * step / 9)) / 2
        run.zero()
        run.forward(autocast="float16")
        skipped = step == 3
        norm = math.inf if skipped else norm
        run.backward(norm, scaler="s1", scale=scale)
        if fixed:
            run.unscale(norm, scale)
        clips.append(run.clip(norm, 1.0, 1.0 if fixed else scale))
        used = math.nan if skipped else min(norm, 1.0) if fixed else 1.0 / scale
        run.step(used, "scaler.step", scaler="s1", skipped=skipped, rates=(rate, rate / 10), clipped=True)
        after = scale / 2 if skipped else scale
        run.add(Updated, "scaler.update", scaler="s1", scale=scale, new_scale=after)
        scale = after
        run.add(
            Scheduled, "scheduler.step", optimizers=("o1",), owner="o1", scheduler="l1", rates=(rate,),
            new_rates=(rate * 0.9,),
        )  # fmt: skip
    return run.side(), clips


def amp_verification() -> Verification:
    before, marks = amp(fixed=False)
    after, marks_after = amp(fixed=True)
    clip = Judged(
        "GL201", "clip-scaled-gradients", Severity.ERROR,
        "`clip_grad_norm_` sees gradients multiplied by the scale: call `scaler.unscale_(optimizer)` first",
        SCRIPT, 10, Verdict.CONFIRMED,
        "clipped at a true norm of 1.5e-05 where 1 was asked for (scale 65536), in 8 of 8 steps", Cure.CURED,
        "clipped at a true norm of 1 in 8 of 8 steps", tuple(marks), tuple(marks_after),
    )  # fmt: skip
    order = Judged(
        "GL406", "scheduler-before-optimizer", Severity.WARNING, "`scheduler.step()` runs before `optimizer.step()`",
        SCRIPT, 13, Verdict.REFUTED, "the scheduler moved after the optimizer in 8 of 8 iterations",
    )  # fmt: skip
    missed = Judged(
        "GL304", "dropped-last-window", Severity.ADVICE, "the last, shorter window is never stepped", SCRIPT, 6,
        Verdict.NOT_SHOWN, "no epoch ended within 8 steps",
    )  # fmt: skip
    only = Judged(
        "GL105", "clip-threshold-too-small", Severity.WARNING, "the clip acts on every step", SCRIPT, 10,
        Verdict.CONFIRMED, "active in 8 of 8 steps", Cure.CURED, "active in 5 of 8 steps", tuple(marks[:1]),
    )  # fmt: skip
    hidden = Claim(
        "GL209", "scaler-with-bfloat16", Severity.ADVICE, "bfloat16 needs no GradScaler", SCRIPT, 5
    )  # fmt: skip
    return Verification(
        SCRIPT, ("--epochs", "3"), "cpu", 1, 0, [clip, order, missed], [only], [hidden], before, after,
        ["a scaler made for cuda was run on the CPU"],
    )  # fmt: skip


def accumulation(*, no_sync: bool, micro: int = 4, windows: int = 4) -> tuple[Side, list[int]]:
    """A window of micro-batches under DDP, with an all-reduce in each of them, or in the last only."""
    run, early = Run(ACCUMULATION), []
    run.optimizer("o1", "SGD", "torch.optim.SGD")
    for window in range(1, windows + 1):
        norm = norm_at(window) / micro
        for turn in range(micro):
            last = turn == micro - 1
            synced = last or not no_sync
            run.forward(type="DistributedDataParallel", sync=synced)
            if synced:
                marked = [
                    run.add(Synced, ".backward()", how="all-reduce", model="m1", elements=25_600) for _ in range(2)
                ]
                early += [] if last else marked
            run.backward(norm * (turn + 1), model="m1", factor=0.25, backward_sync=synced, syncs=2 * synced)
        run.clip(norm * micro)
        run.step(min(1.0, norm * micro), "optimizer.step", clipped=True)
        run.zero()
    return run.side(world=2), early


def accumulation_verification(micro: int = 4) -> Verification:
    before, marks = accumulation(no_sync=False, micro=micro)
    after, _ = accumulation(no_sync=True, micro=micro)
    sync = Judged(
        "GL501", "missing-no-sync", Severity.WARNING, "all ranks exchange gradients on every micro-batch", SCRIPT, 5,
        Verdict.CONFIRMED, f"{2 * micro} all-reduces per step where 2 would do", Cure.CURED,
        "2 all-reduces per step, and the ranks agree", tuple(marks),
    )  # fmt: skip
    return Verification(SCRIPT, device="cpu", nproc=2, findings=[sync], before=before, after=after)


def gan(*, critics: int = 1, turns: int = 4) -> Side:
    run = Run(GAN)
    run.optimizer("o1", "Adam", "optimizer_d =")
    run.optimizer("o2", "Adam", "optimizer_g =")
    for turn in range(1, turns + 1):
        for _ in range(critics):
            run.zero("optimizer_d.zero_grad", "o1")
            run.forward("loss_d = critic", type="Critic", model="d")
            run.backward(norm_at(turn), "loss_d.backward")
            run.step(norm_at(turn), "optimizer_d.step", "o1")
        run.zero("optimizer_g.zero_grad", "o2")
        run.forward("loss_g = -critic", type="Critic", model="d")
        run.backward(norm_at(turn) / 3, "loss_g.backward", ("o1", "o2"))
        run.step(norm_at(turn) / 3, "optimizer_g.step", "o2")
    return run.side()


def gan_verification(critics: int = 1) -> Verification:
    return Verification(SCRIPT, before=gan(critics=critics))


def raising_verification() -> Verification:
    """A second unscale_ raises in the first iteration; the fixed copy trains."""
    source = AMP.replace("    scaler.unscale_(optimizer)\n", "    scaler.unscale_(optimizer)\n" * 2)
    run = Run(source)
    run.optimizer("o1", "AdamW", "torch.optim.AdamW")
    run.zero()
    run.forward()
    run.backward(2.5, scaler="s1", scale=1024.0)
    run.unscale(2.5, 1024.0)
    message = "unscale_() has already been called on this optimizer since the last update()."
    raised = run.add(Raised, "unscale_", type="RuntimeError", message=message, during="unscale")
    double = Judged(
        "GL202", "double-unscale", Severity.ERROR, "`scaler.unscale_` is called twice before `update()`", SCRIPT, 11,
        Verdict.CONFIRMED, f"RuntimeError: {message}", Cure.CURED, "8 steps without an error", (raised,),
    )  # fmt: skip
    after, _ = amp(fixed=True)
    return Verification(SCRIPT, findings=[double], before=run.side(), after=after)


def failed_verification() -> Verification:
    where = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>'
    return Verification(SCRIPT, failure=f"{where}\n\x1b[31mFileNotFoundError: data.csv\x1b[0m")


def hostile_verification() -> Verification:
    """Every text that a user can write tries to leave its place."""
    evil = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
    run = Run(
        f"optimizer = SGD()\nfor x in loader:\n    loss.backward()  # {evil}</title></svg>\n    optimizer.step()\n",
        evil,
    )
    run.optimizer("o1", evil, "optimizer =")
    for _ in range(2):
        mark = run.backward(1.0, manager=evil)
        run.step(1.0, "optimizer.step")
    found = Judged(evil, evil, Severity.ERROR, evil, evil, 3, Verdict.CONFIRMED, evil, Cure.NOT_CURED, evil, (mark,))
    hidden = Claim(evil, evil, Severity.ERROR, evil, evil, 3)
    side = run.side(torch=evil, notes=[evil])
    return Verification(evil, (evil,), evil, 1, 0, [found], [found], [hidden], side, side, [evil], failure=evil)


#: every kind of page, by name
EXAMPLES: dict[str, Callable[[], Verification]] = {
    "amp": amp_verification,
    "accumulation": accumulation_verification,
    "many-micro-batches": lambda: accumulation_verification(32),
    "gan": gan_verification,
    "wgan": lambda: gan_verification(5),
    "raising": raising_verification,
    "failed": failed_verification,
    "empty": lambda: Verification("train.py"),
    "hostile": hostile_verification,
}
