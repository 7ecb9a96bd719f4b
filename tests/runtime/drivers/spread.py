"""DistributedDataParallel, with as many ranks as there are workers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tests.runtime.drivers import Load, drives, tiny


@drives
def ddp_amp_no_sync(load: Load) -> None:
    cfg = SimpleNamespace(device="cuda", accum_steps=4, clip_grad=1.0, local_rank=0, lr=1e-3, total_steps=40, epochs=4)
    load().launch(tiny.wide(), tiny.classified(10), cfg)


@drives
def ddp_class_trainer(load: Load) -> None:
    class Unet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, noisy: Tensor, t: Tensor) -> Tensor:
            return self.layer(noisy)  # type: ignore[no-any-return]

    def diffuse(images: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        noise = torch.randn_like(images)
        return images + noise, noise

    schedule = SimpleNamespace(steps=10, diffuse=diffuse)
    data = iter(torch.split(tiny.features(4 * 40), 4))
    load().DiffusionTrainer(Unet(), schedule, torch.device("cuda", 0)).train(data, num_steps=20)


@drives
def ddp_context_helper(load: Load) -> None:
    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.passage = nn.Linear(4, 5), nn.Linear(4, 5)

        def forward(self, query: Tensor, passages: Tensor) -> Tensor:
            return self.query(query) @ self.passage(passages).T  # type: ignore[no-any-return]

    data = tiny.records(
        query=tiny.features(40, 3.0), passages=tiny.features(40, 3.0), positive=torch.arange(40) % 4
    )  # fmt: skip
    loop = load()
    for _ in range(3):
        loop.train_retriever(Towers(), data, torch.device("cuda", 0), accumulate=4)


@drives
def ddp_exit_stack(load: Load) -> None:
    engine = load().Engine(tiny.wide(), 0, accumulate_every=4)
    for _ in range(4):
        engine.epoch(tiny.classified(10))


@drives
def ddp_if_else_context(load: Load) -> None:
    class Listener(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 5)

        def forward(self, speech: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
            return self.layer(speech).log_softmax(-1), lengths

    count = 40
    speech = torch.randn(count, 12, 4, generator=tiny.source()) * 20
    text = torch.randint(1, 5, (count, 3), generator=tiny.source())
    data = tiny.loader(speech, torch.full((count,), 12), text, torch.full((count,), 3))
    loop = load()
    for _ in range(3):
        loop.train_asr(Listener(), data, 0)


@dataclass
class Output:
    """As of a library's model; the wrappers look for tensors in it."""

    loss: Tensor


@drives
def ddp_inner_micro_batches(load: Load) -> None:
    class Base(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = tiny.wide()

        def forward(self, ids: Tensor, attention_mask: Tensor) -> Output:
            return Output(self.layer(ids).square().mean())

    batches = iter(torch.split(tiny.features(4 * 100), 4))
    load().finetune(Base(), lambda: (next(batches), torch.ones(4, 4)), gpu=0, steps=20)


@drives
def ddp_no_sync_inline(load: Load) -> None:
    """It would make and end the process group itself; there is one already."""

    def loader(rank: int, world: int) -> Any:
        data = tiny.classified(10)
        data.sampler.set_epoch = lambda epoch: None  # type: ignore[attr-defined]
        return data

    loop = load()
    with (
        mock.patch.dict(os.environ, LOCAL_RANK="0"),
        mock.patch.object(dist, "init_process_group"),
        mock.patch.object(dist, "destroy_process_group"),
    ):
        loop.main(tiny.wide, loader, epochs=4)


@drives
def ddp_no_sync_stored(load: Load) -> None:
    data = tiny.records(frames=tiny.features(80), next=tiny.features(80))
    loop = load()
    for _ in range(3):
        loop.train_ddp(tiny.wide(outputs=4), data, 0)


@drives
def ddp_require_sync(load: Load) -> None:
    class Writer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = tiny.wide()

        def forward(self, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
            scores = self.layer(tokens)
            return scores, nn.functional.cross_entropy(scores, targets)

    batches = iter(tiny.classified(200))
    load().train(Writer(), lambda: next(batches), torch.device("cuda", 0), total_steps=20, micro_steps=4)
