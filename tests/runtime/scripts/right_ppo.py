"""Several epochs of mini-batches over one rollout, clipped at every step; the loss is a sum of three."""
import torch
from torch import nn
from torch.distributions import Categorical


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.policy, self.value = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, x):
        h = self.body(x)
        return Categorical(logits=self.policy(h)), self.value(h).squeeze(1)


agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
for update in range(5):
    states = torch.randn(64, 4)
    with torch.no_grad():
        policy, values = agent(states)
        actions = policy.sample()
        old = policy.log_prob(actions)
    advantages, returns = torch.randn(64), torch.randn(64)
    for epoch in range(2):
        for rows in torch.randperm(64).split(32):
            policy, value = agent(states[rows])
            ratio = (policy.log_prob(actions[rows]) - old[rows]).exp()
            gain = advantages[rows]
            policy_loss = torch.max(-gain * ratio, -gain * ratio.clamp(0.8, 1.2)).mean()
            loss = policy_loss + 0.5 * (value - returns[rows]).pow(2).mean() - 0.01 * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
