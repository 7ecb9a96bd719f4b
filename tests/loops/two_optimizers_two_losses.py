"""A policy and a value network, each with a method that holds its whole update."""

import torch
from torch import nn


class Learner:
    def __init__(self, policy, value, lr=1e-2, limit=0.5):
        self.policy, self.value, self.limit = policy, value, limit
        self.policy_optimizer = torch.optim.Adam(self.policy.parameters(), lr=lr)
        self.value_optimizer = torch.optim.SGD(self.value.parameters(), lr=lr)

    def learn_value(self, seen, returns):
        loss = nn.functional.mse_loss(self.value(seen), returns)
        self.value_optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.value.parameters(), self.limit)
        self.value_optimizer.step()
        return loss.item()

    def learn_policy(self, seen, actions, advantage):
        scores = torch.log_softmax(self.policy(seen), dim=1).gather(1, actions[:, None])
        loss = -(scores * advantage).mean()
        self.policy_optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.policy.parameters(), self.limit)
        self.policy_optimizer.step()
        return loss.item()

    def learn(self, rollouts):
        for seen, actions, returns in rollouts:
            with torch.no_grad():
                advantage = returns - self.value(seen)
            print(self.learn_value(seen, returns), self.learn_policy(seen, actions, advantage))
