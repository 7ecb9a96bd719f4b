"""Two losses of one rollout, two optimizers, and a target network that follows slowly."""
import copy

import torch
from torch import nn
from torch.distributions import Categorical

actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
target = copy.deepcopy(critic)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
for step in range(40):
    state, following = torch.randn(16, 4), torch.randn(16, 4)
    policy = Categorical(logits=actor(state))
    action = policy.sample()
    reward = torch.randn(16)
    with torch.no_grad():
        wanted = reward + 0.9 * target(following).squeeze(1)
    value = critic(state).squeeze(1)
    advantage = (wanted - value).detach()
    actor_loss = -(policy.log_prob(action) * advantage).mean()
    critic_loss = nn.functional.mse_loss(value, wanted)
    actor_opt.zero_grad()
    critic_opt.zero_grad()
    actor_loss.backward()
    critic_loss.backward()
    actor_opt.step()
    critic_opt.step()
    if step % 4 == 0:
        for p, q in zip(critic.parameters(), target.parameters()):
            q.data.mul_(0.95).add_(p.data, alpha=0.05)
