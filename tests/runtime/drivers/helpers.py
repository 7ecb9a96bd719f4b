"""Updates that helpers, methods and closures share, and updates of other shapes: SAM, averages, hooks, generators."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.runtime.drivers import Load, drives, tiny


@drives
def averaged_at_boundary(load: Load) -> None:
    load().train(tiny.wide(outputs=1), tiny.regressed(34))


@drives
def averaged_weights(load: Load) -> None:
    load().train(tiny.wide(), tiny.classified(18))


@drives
def closure_clips_when_due(load: Load) -> None:
    load().train(tiny.wide(outputs=1), tiny.regressed(7))


@drives
def collected_and_clipped(load: Load) -> None:
    load().train(tiny.wide(), tiny.classified(26))


@drives
def criterion_of_window(load: Load) -> None:
    batches = list(tiny.classified(32))
    load().train(tiny.wide(), [batches[n : n + 4] for n in range(0, 32, 4)])


@drives
def gradient_penalty_r1(load: Load) -> None:
    load().train(tiny.net(outputs=1), tiny.net(outputs=4), tiny.classified(10, scale=2.0))


@drives
def helper_amp_branches(load: Load) -> None:
    load().train(tiny.wide(), tiny.classified(19), nn.CrossEntropyLoss())


@drives
def helper_backward_and_clip(load: Load) -> None:
    load().train(tiny.wide(), tiny.classified(34), nn.CrossEntropyLoss())


@drives
def helper_logs_and_schedules(load: Load) -> None:
    load().train(tiny.wide(outputs=1), tiny.regressed(19))


@drives
def helper_need_update(load: Load) -> None:
    load().main(tiny.wide(), tiny.classified(7))


@drives
def manual_optimization(load: Load) -> None:
    loop = load()
    loop.fit(loop.ManualModule(tiny.wide()), tiny.classified(12))


@drives
def methods_micro_step(load: Load) -> None:
    load().Trainer(tiny.wide(outputs=1)).fit(tiny.regressed(10), epochs=4)


@drives
def micro_batch_generator(load: Load) -> None:
    load().train(tiny.wide(), tiny.classified(10, batch=6))


@drives
def nan_skips_window(load: Load) -> None:
    """The sixth micro-batch gives NaN."""

    class Fussy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls = nn.Linear(4, 1), 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            out: Tensor = self.layer(x)
            return out * torch.nan if self.calls == 6 else out

    load().main(Fussy(), tiny.regressed(14))


@drives
def optimizer_in_backward(load: Load) -> None:
    load().train(tiny.wide(), tiny.classified(6))


@drives
def parameter_groups(load: Load) -> None:
    load().train(tiny.net(), tiny.classified(19))


@drives
def sharpness_aware(load: Load) -> None:
    load().train(tiny.wide(), tiny.classified(10), nn.CrossEntropyLoss())


@drives
def two_optimizers_one_loss(load: Load) -> None:
    load().train(nn.Linear(4, 6), nn.Linear(6, 3), tiny.classified(20))


@drives
def two_optimizers_two_losses(load: Load) -> None:
    rollouts = tiny.loader(tiny.features(24), tiny.labels(24, 2), tiny.features(24, width=1))
    load().Learner(tiny.wide(outputs=2), tiny.wide(outputs=1)).learn(rollouts)


@drives
def warmup_steps(load: Load) -> None:
    load().train(tiny.wide(), tiny.classified(5), nn.CrossEntropyLoss())


@drives
def while_with_restart(load: Load) -> None:
    load().train(tiny.wide(outputs=1), tiny.regressed(8))


@drives
def windows_from_generator(load: Load) -> None:
    load().train(tiny.wide(outputs=1), tiny.regressed(10))


@drives
def criterion_divides(load: Load) -> None:
    load().train(tiny.wide(outputs=1), tiny.regressed(34, scale=2.0))


@drives
def hook_divides(load: Load) -> None:
    load().train(tiny.wide(), tiny.classified(18), nn.CrossEntropyLoss())


@drives
def per_sample_gradients(load: Load) -> None:
    load().train(tiny.wide(), tiny.classified(10), nn.CrossEntropyLoss())


@drives
def projected_gradients(load: Load) -> None:
    def first(out: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(out, y)

    def second(out: Tensor, y: Tensor) -> Tensor:
        return (out.sum(dim=1) - y).square().mean()

    load().train(tiny.wide(), tiny.classified(10, scale=2.0), [first, second])


@drives
def warmup_backwards(load: Load) -> None:
    load().train(tiny.wide(), tiny.classified(5), nn.CrossEntropyLoss())
