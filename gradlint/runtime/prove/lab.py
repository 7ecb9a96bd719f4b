"""What the cases train on: small models and data that never change, and the gradient that a step should have used."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gradlint.runtime.prove import case


def _device() -> str:
    """Ranks need a GPU each; without that they train on the CPU."""
    wanted = os.environ.get(case.DEVICE, "cpu")
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    return wanted if ranks == 1 or (wanted == "cuda" and torch.cuda.device_count() >= ranks) else "cpu"


#: where the cases run; `gradlint prove` chooses it
DEVICE = _device()
#: what the ranks talk through
BACKEND = "nccl" if DEVICE == "cuda" else "gloo"
#: a label that does not count
PADDING = -100

Batch = tuple[Tensor, Tensor]


def mean_square(model: nn.Module, batch: Batch) -> Tensor:
    x, y = batch
    return nn.functional.mse_loss(model(x), y)


def mean_over_tokens(model: nn.Module, batch: Batch) -> Tensor:
    tokens, labels = batch
    return nn.functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=PADDING)


@dataclass
class Session:
    """What a script was given: from it follows the gradient that each of its steps should use."""

    model: nn.Module | None = None
    #: an untouched copy to compute with, without the hooks and wraps that the script's own gets
    twin: nn.Module | None = None
    loss: Callable[[nn.Module, Batch], Tensor] = mean_square
    #: the micro-batches of each rank, in order
    data: list[list[Batch]] = field(default_factory=list)

    def reference(self, weights: Tensor, update: int, window: int) -> Tensor:
        """The gradient of one large batch of all samples that belong to this update (counted from 0), on all ranks."""
        assert self.twin is not None
        # a script that goes through its data more than once begins again at the first
        turns = range(update * window, (update + 1) * window)
        parts = [own[turn % len(own)] for own in self.data for turn in turns]
        nn.utils.vector_to_parameters(weights, self.twin.parameters())
        large = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
        made = torch.autograd.grad(self.loss(self.twin, large), list(self.twin.parameters()))
        return torch.cat([gradient.flatten() for gradient in made])


#: of the script that runs, or ran last
session = Session()


def begin() -> None:
    """Forgets what the last script was given."""
    global session
    session = Session()


def network() -> nn.Sequential:
    """A small regression network, the same each time."""
    return _given(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))


def tagger() -> nn.Sequential:
    """Gives each token of a sentence scores for 20 classes."""
    return _given(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 20)))


def batches(count: int, *, size: int = 8, spread: float = 1.0) -> list[Batch]:
    """Batches of one regression task, other ones on each rank; the larger the spread, the larger the gradients."""
    source = torch.Generator().manual_seed(2)
    truth = torch.randn(8, 1, generator=source)
    made = []
    for _ in range(count * _world()):
        x, noise = torch.randn(size, 8, generator=source), torch.randn(size, 1, generator=source)
        made.append((x.to(DEVICE), (spread * (x @ truth + 0.3 * noise)).to(DEVICE)))
    return _shared(made, count, mean_square)


def sentences(lengths: Sequence[int]) -> list[Batch]:
    """One sentence a batch, padded to the longest; `lengths` counts the tokens that are real."""
    source = torch.Generator().manual_seed(6)
    longest = max(lengths)
    made = []
    for length in lengths:
        labels = torch.randint(20, (1, longest), generator=source)
        labels[:, length:] = PADDING
        made.append((torch.randn(1, longest, 8, generator=source).to(DEVICE), labels.to(DEVICE)))
    return _shared(made, len(lengths), mean_over_tokens)


def images(count: int) -> list[Batch]:
    """Batches of small grey images in two classes, of which one is brighter."""
    source = torch.Generator().manual_seed(4)
    labels = torch.arange(32) % 2
    made = [torch.randn(32, 1, 8, 8, generator=source) + labels.view(-1, 1, 1, 1) for _ in range(count)]
    return [(image.to(DEVICE), labels.to(DEVICE)) for image in made]


def join() -> int:
    """This process's rank; the processes meet first, if they have not met."""
    if not dist.is_initialized():
        dist.init_process_group(BACKEND)
    return dist.get_rank()


def _given(model: nn.Sequential) -> nn.Sequential:
    source = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            bound = parameter.shape[-1] ** -0.5
            parameter.copy_((2 * torch.rand(parameter.shape, generator=source) - 1) * bound)
    model = model.to(DEVICE)
    if session.model is None:  # a second one is not the one that is trained
        session.model, session.twin = model, copy.deepcopy(model)
    return model


def _shared(made: list[Batch], count: int, loss: Callable[[nn.Module, Batch], Tensor]) -> list[Batch]:
    session.loss = loss
    session.data = [made[start : start + count] for start in range(0, len(made), count)]
    return session.data[dist.get_rank() if _world() > 1 else 0]


def _world() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
