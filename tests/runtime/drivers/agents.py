"""Several networks and optimizers: agents and generators."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from tests.runtime.drivers import Load, drives, tiny


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 1)

    def forward(self, seen: Tensor, done: Tensor) -> Tensor:
        return self.layer(torch.cat([seen, done], dim=1))  # type: ignore[no-any-return]


@drives
def actor_critic(load: Load) -> None:
    class Actor(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
            mean = self.layer(seen)
            act = mean + torch.randn_like(mean)
            return act, -(act.detach() - mean).square().sum(dim=1, keepdim=True)

    def sample(count: int) -> tuple[Tensor, ...]:
        return (*(torch.randn(8, width) * 3 for width in (4, 2, 1, 4)), torch.zeros(8, 1))

    agent = load().Agent(Actor(), Critic(), Critic())
    agent.learn(SimpleNamespace(sample=sample), updates=40)


@drives
def dqn_target_network(load: Load) -> None:
    """It warms up for 10,000 steps: the last few of them will do."""

    def step(action: int) -> tuple[Any, ...]:
        return torch.randn(4), 1.0, False, False, {}

    def sample(count: int) -> SimpleNamespace:
        return SimpleNamespace(
            observations=torch.randn(8, 4), next_observations=torch.randn(8, 4), rewards=torch.randn(8),
            dones=torch.zeros(8), actions=torch.randint(0, 2, (8, 1)),
        )  # fmt: skip

    env = SimpleNamespace(reset=lambda: (torch.zeros(4), {}), step=step)
    memory = SimpleNamespace(add=lambda *args: None, sample=sample)
    loop = load()
    with mock.patch.dict(loop.learn.__globals__, range=lambda total: range(9_990, 10_060)):
        loop.learn(env, tiny.net(outputs=2), tiny.net(outputs=2), memory)


@drives
def gan_two_optimizers(load: Load) -> None:
    load().train_gan(tiny.wide(100, 4), tiny.wide(4, 1), tiny.classified(4), n_epochs=4)


@drives
def ppo_minibatches(load: Load) -> None:
    class Agent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.policy, self.value = nn.Linear(4, 2), nn.Linear(4, 1)

        def act(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            chosen: Any = torch.distributions.Categorical(logits=self.policy(obs))
            action = chosen.sample()
            return action, chosen.log_prob(action), self.value(obs).squeeze(-1)

        def evaluate(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            chosen: Any = torch.distributions.Categorical(logits=self.policy(obs))
            return chosen.log_prob(action), chosen.entropy(), self.value(obs).squeeze(-1)

        def flatten(self, rollout: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
            obs, action, logprob, value, reward, _ = (torch.cat(part) for part in zip(*rollout, strict=True))
            return obs, action, logprob, (reward - value).detach(), reward

    def step(action: Any) -> tuple[Any, ...]:
        return torch.randn(2, 4) * 3, torch.randn(2) * 3, torch.zeros(2), None, None

    envs = SimpleNamespace(reset=lambda: (torch.randn(2, 4), {}), step=step)
    load().ppo(Agent(), envs, num_updates=3, num_steps=8, minibatch=8)


@drives
def wgan_n_critic(load: Load) -> None:
    class Judge(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.Tanh(), nn.Linear(4, 1))

        def forward(self, image: Tensor) -> Tensor:
            return self.layer(image)  # type: ignore[no-any-return]

    class Painter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(128, 16)

        def forward(self, z: Tensor) -> Tensor:
            return self.layer(z).view(-1, 1, 4, 4)  # type: ignore[no-any-return]

    images = itertools.islice(tiny.endless(lambda: torch.randn(3, 1, 4, 4)), 60)
    load().train(Painter(), Judge(), images)
