"""A soft actor-critic update: three optimizers, a target network, no accumulation."""

import torch
import torch.nn.functional as F


class Agent:
    def __init__(self, actor, critic, target, gamma=0.99, tau=0.005, target_entropy=-6.0):
        self.actor, self.critic, self.target = actor, critic, target
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=3e-4)
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], lr=3e-4)
        self.gamma, self.tau, self.target_entropy = gamma, tau, target_entropy

    def learn(self, replay, updates, policy_frequency=2):
        for update in range(updates):
            obs, act, rew, nxt, done = replay.sample(256)
            with torch.no_grad():
                next_act, next_logp = self.actor(nxt)
                backup = rew + self.gamma * (1 - done) * (self.target(nxt, next_act) - self.log_alpha.exp() * next_logp)
            critic_loss = F.mse_loss(self.critic(obs, act), backup)
            self.critic_optimizer.zero_grad()
            critic_loss.backward()
            torch.nn.utils.clip_grad_norm_(self.critic.parameters(), 10.0)
            self.critic_optimizer.step()

            if update % policy_frequency == 0:
                new_act, logp = self.actor(obs)
                actor_loss = (self.log_alpha.exp().detach() * logp - self.critic(obs, new_act)).mean()
                self.actor_optimizer.zero_grad()
                actor_loss.backward()
                self.actor_optimizer.step()

                alpha_loss = -(self.log_alpha * (logp + self.target_entropy).detach()).mean()
                self.alpha_optimizer.zero_grad()
                alpha_loss.backward()
                self.alpha_optimizer.step()

            for p, q in zip(self.critic.parameters(), self.target.parameters(), strict=True):
                q.data.lerp_(p.data, self.tau)
