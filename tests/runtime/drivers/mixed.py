"""Mixed precision: a scaler made for CUDA works on the CPU under the recorder."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from tests.runtime.drivers import Load, drives, tiny


@drives
def accumulation_chunks(load: Load) -> None:
    data = tiny.classified(10, batch=12, scale=100.0)
    load().train_large_batches(tiny.wide(), data, nn.CrossEntropyLoss(), chunk=4)


@drives
def amp_accumulation(load: Load) -> None:
    load().main(tiny.wide(), tiny.classified(20), epochs=4)


@drives
def amp_behind_flag(load: Load) -> None:
    model = tiny.wide(outputs=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    load().fit(model, tiny.regressed(10), optimizer, nn.MSELoss(), use_amp=True, clip=1.0)


@drives
def amp_counter_reset(load: Load) -> None:
    loop = load()
    model = tiny.wide()
    for _ in range(3):
        loop.finetune_vit(model, tiny.classified(10, batch=4), torch.device("cuda"), target_batch=16)


@drives
def amp_enabled_switch(load: Load) -> None:
    images, masks = torch.randn(16, 1, 4, 4) * 10, torch.randint(0, 2, (16, 4, 4))
    unet = nn.Conv2d(1, 1, 3, padding=1)
    held_out = [(images[:2], masks[:2, None])]
    cfg = {"device": "cuda", "amp": True, "lr": 1e-3, "epochs": 4, "val": held_out}
    load().train_segmentation(unet, tiny.records(image=images, mask=masks), cfg)


@drives
def amp_flagged_accumulation(load: Load) -> None:
    load().main(tiny.wide(), tiny.classified(10), epochs=4)


@drives
def amp_unscale_clip(load: Load) -> None:
    load().train(tiny.wide(), tiny.classified(4), epochs=4)


@drives
def class_amp_accumulation(load: Load) -> None:
    class Detector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.boxes, self.kinds = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, images: Tensor, targets: Tensor) -> dict[str, Tensor]:
            kinds = nn.functional.cross_entropy(self.kinds(images), targets)
            return {"kinds": kinds, "boxes": self.boxes(images).square().mean()}

    trainer = load().DetectorTrainer(Detector(), lr=1e-3)
    data = tiny.records(images=tiny.features(40), targets=tiny.labels(40))
    for _ in range(4):
        trainer.train_epoch(data)


@drives
def gan_amp_one_scaler(load: Load) -> None:
    class Judge(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.layer(torch.cat([x, y], dim=1))  # type: ignore[no-any-return]

    data = tiny.loader(tiny.features(16), tiny.features(16))
    load().main(Judge(), tiny.wide(outputs=4), data)


@drives
def import_aliases(load: Load) -> None:
    class Denoiser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(1, 1, 3, padding=1)

        def forward(self, x: Tensor, t: Tensor) -> Tensor:
            return self.layer(x)  # type: ignore[no-any-return]

    average = SimpleNamespace(update=lambda model: None)
    images = tiny.endless(lambda: torch.randn(2, 1, 4, 4) * 20)
    load().train_denoiser(Denoiser(), images, torch.linspace(1e-4, 0.02, 10), average)
