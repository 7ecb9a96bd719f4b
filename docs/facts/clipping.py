"""GL1: clips in the wrong place, of the wrong kind, of nothing."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from docs.facts.experiment import at_least, experiment, listed, row, warning
from docs.facts.lab import (
    Axes,
    N,
    batches,
    clip,
    cosine,
    found,
    gradient,
    loss_of,
    mean_loss,
    network,
    norm,
    sgd,
    update,
)
from gradlint.docs.facts import Row

#: targets so large that the gradient is far above the limit
STEEP = 20.0


@experiment("GL101", "One update of a small network by SGD with lr=1, so the update is the gradient; max_norm=1.0.")
def clip_after_step() -> Iterator[Row]:
    def run(late: bool) -> tuple[float, float]:
        model, returned = network(), []
        optimizer = sgd(model)
        loss_of(model, batches(1, spread=STEEP)[0]).backward()

        def act() -> None:
            if not late:
                returned.append(clip(model))
            optimizer.step()
            if late:
                returned.append(clip(model))

        return norm(update(model, act)), returned[0]

    (bad, bad_log), (good, good_log) = run(late=True), run(late=False)
    yield row("norm of the update", bad, good)
    yield row("norm that the clip returns", bad_log, good_log)


@experiment("GL102", "One update of a small network by SGD with lr=1, so the update is the gradient; max_norm=1.0.")
def clip_before_backward() -> Iterator[Row]:
    def run(early: bool) -> tuple[str, float, float]:
        model = network()
        optimizer = sgd(model)
        optimizer.zero_grad()
        loss = loss_of(model, batches(1, spread=STEEP)[0])
        if early:
            seen, returned = found(model), clip(model)
            loss.backward()
        else:
            loss.backward()
            seen, returned = found(model), clip(model)
        return seen, returned, norm(update(model, optimizer.step))

    (bad_seen, bad_log, bad), (good_seen, good_log, good) = run(early=True), run(early=False)
    yield row("gradients that the clip finds", bad_seen, good_seen)
    yield row("norm that the clip returns", bad_log, good_log)
    yield row("norm of the update", bad, good)


@experiment("GL103", "Four micro-batches with gradients of equal length, each on an axis of its own; max_norm=1.0.")
def clip_partial_accumulation() -> Iterator[Row]:
    def run(every_time: bool) -> torch.Tensor:
        model = Axes()
        for i in range(N):
            (model.loss(i, slope=40.0) / N).backward()
            if every_time or i == N - 1:
                clip(model)
        return gradient(model)

    bad, good = run(every_time=True), run(every_time=False)
    large_batch = torch.ones(N)
    yield row("part of micro-batches 1, 2, 3, 4 in the update", listed(bad.tolist()), listed(good.tolist()))
    yield row("cosine to the large batch's gradient", cosine(bad, large_batch), cosine(good, large_batch))


@experiment("GL104", "The gradient (10, 0.5, 0.1), clipped by value (1.0) and by norm (1.0).")
def value_clipping() -> Iterator[Row]:
    before = torch.tensor([10.0, 0.5, 0.1])

    def run(by_value: bool) -> torch.Tensor:
        parameter = nn.Parameter(torch.zeros(3))
        parameter.grad = before.clone()
        if by_value:
            nn.utils.clip_grad_value_([parameter], 1.0)
        else:
            nn.utils.clip_grad_norm_([parameter], 1.0)
        return parameter.grad

    bad, good = run(by_value=True), run(by_value=False)
    yield row("gradient after the clip", listed(bad.tolist()), listed(good.tolist()))
    yield row("cosine to the gradient before it", cosine(bad, before), cosine(good, before))
    yield row("norm after the clip", norm(bad), norm(good))


@experiment("GL105", "A small network, 200 updates with lr=0.05; max_norm=0.001 against max_norm=1.0.")
def clip_threshold_too_small() -> Iterator[Row]:
    data = batches(20, spread=0.3)

    def run(optimizer_type: type[torch.optim.Optimizer], max_norm: float) -> tuple[str, float]:
        model, acted = network(), 0
        optimizer = optimizer_type(model.parameters(), lr=0.05)  # type: ignore[call-arg]  # the base class has no lr
        for i in range(200):
            optimizer.zero_grad()
            loss_of(model, data[i % len(data)]).backward()
            acted += clip(model, max_norm) > max_norm
            optimizer.step()
        return f"{acted} of 200", mean_loss(model, data)

    (bad_acted, bad), (good_acted, good) = run(torch.optim.SGD, 0.001), run(torch.optim.SGD, 1.0)
    yield row("updates that were clipped (SGD)", bad_acted, good_acted)
    yield row("loss at the end (SGD)", bad, good)
    yield row("loss at the end (AdamW)", run(torch.optim.AdamW, 0.001)[1], run(torch.optim.AdamW, 1.0)[1])


@experiment(
    "GL106", "`model.parameters()` kept under a name, given to SGD (lr=1) and then to a clip with max_norm=1.0."
)
def clip_exhausted_generator() -> Iterator[Row]:
    def run(as_list: bool) -> tuple[float, float]:
        model = network()
        parameters = list(model.parameters()) if as_list else model.parameters()
        optimizer = torch.optim.SGD(parameters, lr=1.0)
        loss_of(model, batches(1, spread=STEEP)[0]).backward()
        returned = float(nn.utils.clip_grad_norm_(parameters, 1.0))
        return returned, norm(update(model, optimizer.step))

    def used_up(parameters: Iterator[nn.Parameter]) -> Iterator[nn.Parameter]:
        list(parameters)
        return parameters

    def clip_of(parameters: Iterator[nn.Parameter]) -> str:
        return warning(lambda: nn.utils.clip_grad_norm_(used_up(parameters), 1.0))

    (bad_log, bad), (good_log, good) = run(as_list=False), run(as_list=True)
    yield row("norm that the clip returns", bad_log, good_log)
    yield row("norm of the update", bad, good)
    fine = warning(lambda: nn.utils.clip_grad_norm_(list(network().parameters()), 1.0))
    yield row("what torch says, for `parameters()`", clip_of(network().parameters()), fine)
    learning = filter(lambda p: p.requires_grad, network().parameters())
    yield row("what torch says, for `filter(…)`", clip_of(learning), fine)


@experiment("GL107", "A student learns from a teacher by SGD with lr=1; the clip (max_norm=1.0) gets one of the two.")
def clip_misses_parameters() -> Iterator[Row]:
    def run(clip_teacher: bool) -> tuple[float, float]:
        student, teacher = network(), network()
        x, _ = batches(1)[0]
        with torch.no_grad():
            wanted = teacher(x) + STEEP
        nn.functional.mse_loss(student(x), wanted).backward()
        returned = clip(teacher if clip_teacher else student)
        return returned, norm(update(student, sgd(student).step))

    (bad_log, bad), (good_log, good) = run(clip_teacher=True), run(clip_teacher=False)
    yield row("norm that the clip returns", bad_log, good_log)
    yield row("norm of the student's update", bad, good)


class Recurrent(nn.Module):
    """An LSTM that learns the sum of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.lstm, self.head = nn.LSTM(1, 16, batch_first=True), nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(x.unsqueeze(-1))
        return self.head(states[:, -1])  # type: ignore[no-any-return]  # what a module returns is Any


@experiment(
    "GL108",
    "An LSTM, 100 updates by SGD with lr=0.05; the last one with targets 1000 times too large; max_norm=1.0.",
)
def missing_clip() -> Iterator[Row]:
    data = [(x, x.sum(dim=1, keepdim=True)) for x, _ in batches(20)]

    def run(clipped: bool) -> tuple[float, float, float, float]:
        model = Recurrent()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        usual = before = seen = 0.0
        for i in range(100):
            x, y = data[i % len(data)]
            bad_batch = i == 99
            if bad_batch:
                before, usual = mean_loss(model, data), seen
            optimizer.zero_grad()
            loss_of(model, (x, 1000 * y if bad_batch else y)).backward()
            seen = clip(model, 1.0 if clipped else float("inf"))
            optimizer.step()
        return usual, seen, before, mean_loss(model, data)

    (bad_usual, bad_spike, bad_before, bad_after) = run(clipped=False)
    (usual, spike, before, after) = run(clipped=True)
    # thrown so far off, a network lands anywhere: how far is no number that another machine would see
    spikes = (at_least(bad_spike / bad_usual, 1000), at_least(spike / usual, 1000))
    yield row("norm of the gradients on the bad batch / usual", *spikes)
    yield row("loss on all data before the bad batch", bad_before, before)
    yield row("loss on all data behind it / before", at_least(bad_after / bad_before, 1000), after / before)


@experiment("GL109", "A CNN with batch norm, 50 updates by SGD (lr=0.05, momentum 0.9), with max_norm=5.0 and without.")
def needless_clip() -> Iterator[Row]:
    def run(clipped: bool) -> tuple[str, float, float]:
        torch.manual_seed(4)
        model = nn.Sequential(
            nn.Conv2d(1, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2),
        )  # fmt: skip
        images, labels = torch.randn(32, 1, 8, 8), torch.arange(32) % 2
        images += labels.view(-1, 1, 1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        norms = []
        for _ in range(50):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            norms.append(clip(model, 5.0 if clipped else float("inf")))
            optimizer.step()
        acted = f"{sum(n > 5.0 for n in norms)} of 50" if clipped else "no clip"
        return acted, max(norms), loss.item()

    (bad_acted, bad_norm, bad_loss), (acted, largest, loss) = run(clipped=True), run(clipped=False)
    yield row("updates that were clipped", bad_acted, acted)
    yield row("largest norm of the gradients", bad_norm, largest)
    yield row("loss at the end", bad_loss, loss)


@experiment("GL110", "The gradient of one batch, clipped with max_norm=1.0 by each of the two functions.")
def deprecated_clip() -> Iterator[Row]:
    def run(name: str) -> tuple[str, float]:
        model = network()
        loss_of(model, batches(1, spread=STEEP)[0]).backward()
        function = getattr(nn.utils, name)
        said = warning(lambda: function(model.parameters(), 1.0), FutureWarning)
        return said, norm(gradient(model))

    (bad_said, bad), (said, good) = run("clip_grad_norm"), run("clip_grad_norm_")
    yield row("what torch says", bad_said, said)
    yield row("norm after the clip", bad, good)


@experiment("GL111", "The gradient of one batch; a clip with max_norm=1.0 before the edit, and behind it.")
def gradient_edit_after_clip() -> Iterator[Row]:
    def noise(model: nn.Module) -> None:
        source = torch.Generator().manual_seed(5)
        for p in model.parameters():
            if p.grad is not None:
                p.grad.add_(torch.randn(p.shape, generator=source))

    def factor(model: nn.Module) -> None:
        for p in model.parameters():
            if p.grad is not None:
                p.grad.mul_(4)

    for name, edit in (("noise is added", noise), ("`p.grad.mul_(4)`", factor)):
        norms = []
        for clip_first in (True, False):
            model = network()
            loss_of(model, batches(1, spread=STEEP)[0]).backward()
            for act in (clip, edit) if clip_first else (edit, clip):
                act(model)
            norms.append(norm(gradient(model)))
        yield row(f"norm at the step, if {name}", *norms)

    shares = []
    for clip_first in (True, False):
        axes = Axes(2)  # one axis for each of two ranks, the second with a gradient that is 10 times longer
        ranks = [torch.tensor([10.0, 0.0]), torch.tensor([0.0, 100.0])]
        if clip_first:
            ranks = [g / max(1.0, norm(g)) for g in ranks]
        axes.weight.grad = (ranks[0] + ranks[1]) / 2
        clip(axes)
        shares.append((axes.weight.grad[1] / axes.weight.grad[0]).item())
    yield row("average over ranks: part of a rank with a 10 times longer gradient / part of the other", *shares)


@experiment("GL112", "Four batches, the third with targets 100 times too large; max_norm=1.0.")
def norm_measured_after_clip() -> Iterator[Row]:
    behind, returned = [], []
    for i, (x, y) in enumerate(batches(4)):
        model = network()
        loss_of(model, (x, 100 * y if i == 2 else y)).backward()
        returned.append(clip(model))
        behind.append(norm(gradient(model)))
    yield row("norms in the log", listed(behind), listed(returned))
    yield row("largest of them / the median", *(max(log) / sorted(log)[2] for log in (behind, returned)))
