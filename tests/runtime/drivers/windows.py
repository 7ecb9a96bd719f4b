"""Several backwards for each step, in full precision. Where there are epochs, the last window of each is shorter."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tests.runtime.drivers import Load, drives, tiny


class Scored(nn.Module):
    """Returns its own loss, alone or behind the scores."""

    def __init__(self, scores: bool = False) -> None:
        super().__init__()
        self.layer = tiny.wide(outputs=1)
        self.scores = scores

    def forward(self, x: Tensor, target: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        found = self.layer(x)
        loss = nn.functional.mse_loss(found, target)
        return (found, loss) if self.scores else loss


def pair() -> tuple[Tensor, Tensor]:
    return torch.randn(4, 4) * 10, torch.randn(4, 1)


@drives
def accumulation_counter_reset(load: Load) -> None:
    data = tiny.classified(14)
    loop = load()
    student = tiny.wide()
    for _ in range(3):
        loop.distill(student, tiny.wide(), data)


@drives
def accumulation_inner_loop(load: Load) -> None:
    load().pretrain(Scored(scores=True), lambda split: pair())


@drives
def accumulation_last_of_window(load: Load) -> None:
    class Translator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.out = nn.Embedding(9, 6), nn.Linear(6, 9)

        def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
            return self.out(self.words(src) + self.words(tgt))  # type: ignore[no-any-return]

    def sentence(_: int) -> SimpleNamespace:
        words, nothing = torch.randint(0, 9, (2, 5)), torch.zeros(0)
        return SimpleNamespace(src=words, tgt=words, src_mask=nothing, tgt_mask=nothing, tgt_y=words, ntokens=10)

    sentences: Any = [sentence(n) for n in range(44)]
    data: DataLoader[Any] = DataLoader(sentences, batch_size=None, collate_fn=lambda one: one)
    load().main(Translator(), data, nn.CrossEntropyLoss())


@drives
def accumulation_modulo(load: Load) -> None:
    class Scorer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = tiny.wide()

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return self.layer(input_ids * attention_mask)  # type: ignore[no-any-return]

    args = SimpleNamespace(
        learning_rate=1e-3, max_steps=100, num_train_epochs=4, device="cpu", gradient_accumulation_steps=4,
        max_grad_norm=1.0, logging_steps=2,
    )  # fmt: skip
    data = tiny.loader(tiny.features(40), torch.ones(40, 1), tiny.labels(40))
    load().train(args, Scorer(), data, nn.CrossEntropyLoss())


@drives
def accumulation_one_based(load: Load) -> None:
    data = tiny.loader(tiny.features(40), tiny.features(40))
    loop = load()
    encoder, head = nn.Linear(4, 6), nn.Linear(6, 5)
    for _ in range(3):
        loop.pretrain(encoder, head, data)


@drives
def accumulation_preincremented(load: Load) -> None:
    runner = load().build(Scored())
    data = [{"x": x, "y": y} for x, y in (pair() for _ in range(36))]
    for _ in range(3):
        runner.run(data)


@drives
def config_object(load: Load) -> None:
    loop = load()
    loop.train(loop.Config(), tiny.wide(outputs=1), tiny.regressed(10))


@drives
def optimizers_in_list(load: Load) -> None:
    load().train(Scored(), tiny.endless(pair), steps=20)


@drives
def token_normalised(load: Load) -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.out = nn.Embedding(9, 6), nn.Linear(6, 9)

        def forward(self, ids: Tensor) -> Tensor:
            return self.out(self.words(ids))  # type: ignore[no-any-return]

    ids = torch.randint(0, 9, (80, 6))
    wanted = torch.where(torch.arange(6) < torch.randint(1, 7, (80, 1)), ids, -100)
    load().train(Words(), tiny.records(2, input_ids=ids, labels=wanted), "cuda", window=4)


@drives
def while_until_step(load: Load) -> None:
    class Vae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode, self.decode = nn.Linear(4, 2), nn.Linear(2, 4)

        def elbo_loss(self, x: Tensor, y: Tensor | None = None) -> Tensor:
            return nn.functional.mse_loss(self.decode(self.encode(x)), x)

    batches = [pair() for _ in range(5)]
    load().train_vae(Vae(), batches, [x for x, _ in itertools.islice(tiny.endless(pair), 4)], max_updates=20)
