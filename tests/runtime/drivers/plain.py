"""One backward for each step: plain loops, classes, closures, helpers."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from tests.runtime.drivers import Load, drives, tiny


@drives
def class_split_methods(load: Load) -> None:
    load().run(tiny.wide(outputs=1), tiny.regressed(5))


@drives
def closures_in_loop(load: Load) -> None:
    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = tiny.wide(outputs=1)

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            return self.layer(x)  # type: ignore[no-any-return]

    def piece(_: int) -> SimpleNamespace:
        nothing = torch.zeros(0)
        return SimpleNamespace(x=torch.randn(4, 4) * 10, edge_index=nothing, batch=nothing, y=torch.randn(4, 1))

    task = SimpleNamespace(loss=nn.functional.mse_loss)
    load().run(task, Graph(), [piece(n) for n in range(3)], num_epochs=4)


@drives
def function_one_cycle(load: Load) -> None:
    loop = load()
    tagger = loop.Tagger
    loop.Tagger = lambda vocab, tags: tagger(50, 5, width=8)
    tokens = torch.randint(0, 50, (20, 6))
    with mock.patch.dict(loop.main.__globals__, Tagger=loop.Tagger):
        loop.main(tiny.loader(tokens, torch.randint(0, 5, (20, 6))), epochs=3)


@drives
def grads_set_to_none(load: Load) -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.rnn, self.out = nn.Embedding(11, 6), nn.LSTM(6, 6), nn.Linear(6, 11)

        def init_hidden(self, batch: int) -> tuple[Tensor, Tensor]:
            return torch.zeros(1, batch, 6), torch.zeros(1, batch, 6)

        def forward(self, data: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            found, state = self.rnn(self.embed(data), state)
            return self.out(found), state

    load().train_lm(Words(), torch.randint(0, 11, (35 * 10 + 1, 2)), ntokens=11, lr=2.0, batch_size=2)


@drives
def helper_apply_gradients(load: Load) -> None:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, image: Tensor) -> Tensor:
            return self.head(self.body(image))  # type: ignore[no-any-return]

    batches = tiny.records(image=tiny.features(48), label=tiny.labels(48))
    load().finetune(Classifier(), batches, torch.ones(3))


@drives
def lbfgs_closure(load: Load) -> None:
    series = torch.sin(torch.linspace(0, 6, 24, dtype=torch.float64)).reshape(2, 12)
    load().fit(series[:, :-1], series[:, 1:], rounds=10)


@drives
def optimizers_in_dict(load: Load) -> None:
    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 1)

        def forward(self, shared: Tensor, wanted: Tensor) -> Tensor:
            return nn.functional.mse_loss(self.layer(shared), wanted)

    heads = nn.ModuleDict({"depth": Head(), "normal": Head()})
    batches = tiny.records(inputs=tiny.features(40, scale=3.0), depth=torch.randn(40, 1), normal=torch.randn(40, 1))
    load().MultiTask(nn.Linear(4, 6), heads).train(batches)


@drives
def script_step_lr(load: Load) -> None:
    """It reads its arguments, downloads its data, and saves what it has learnt."""

    def digits(*args: Any, **kwargs: Any) -> Any:
        images = torch.randn(64 * 2, 1, 28, 28, generator=tiny.source())
        return torch.utils.data.TensorDataset(images, tiny.labels(len(images), 10))

    vision: Any = ModuleType("torchvision")
    vision.datasets = SimpleNamespace(MNIST=digits)
    vision.transforms = SimpleNamespace(ToTensor=lambda: None)
    with (
        mock.patch.dict(sys.modules, torchvision=vision),
        mock.patch.object(sys, "argv", ["script_step_lr.py", "--epochs", "5"]),
        mock.patch.object(torch, "save"),
    ):
        load()


@drives
def skips_bad_batches(load: Load) -> None:
    """The third batch gives NaN, the fifth does not fit."""

    class Fussy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls = nn.Linear(4, 1), 0

        def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            self.calls += 1
            if self.calls == 5:
                raise torch.cuda.OutOfMemoryError("too much")
            loss = nn.functional.mse_loss(self.layer(x), y)
            return {"loss": loss * torch.nan if self.calls == 3 else loss}

    load().main(Fussy(), tiny.records(x=tiny.features(48), y=torch.randn(48, 1)))
