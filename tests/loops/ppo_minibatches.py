"""PPO: several epochs over one rollout, `env.step` beside `optimizer.step`."""

import numpy as np
import torch
from torch import nn


def ppo(agent, envs, num_updates, num_steps=128, minibatch=256, clip_coef=0.2, max_grad_norm=0.5):
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    obs = torch.as_tensor(envs.reset()[0])
    for update in range(1, num_updates + 1):
        optimizer.param_groups[0]["lr"] = 2.5e-4 * (1.0 - (update - 1.0) / num_updates)
        rollout = []
        for _ in range(num_steps):
            with torch.no_grad():
                action, logprob, value = agent.act(obs)
            nxt, reward, done, _, _ = envs.step(action.cpu().numpy())
            rollout.append((obs, action, logprob, value, torch.as_tensor(reward), torch.as_tensor(done)))
            obs = torch.as_tensor(nxt)
        b_obs, b_act, b_logp, b_adv, b_ret = agent.flatten(rollout)

        inds = np.arange(len(b_obs))
        for _ in range(4):
            np.random.shuffle(inds)
            for start in range(0, len(inds), minibatch):
                mb = inds[start : start + minibatch]
                newlogp, entropy, newvalue = agent.evaluate(b_obs[mb], b_act[mb])
                ratio = (newlogp - b_logp[mb]).exp()
                adv = b_adv[mb]
                pg_loss = torch.max(-adv * ratio, -adv * ratio.clamp(1 - clip_coef, 1 + clip_coef)).mean()
                v_loss = 0.5 * ((newvalue - b_ret[mb]) ** 2).mean()
                loss = pg_loss - 0.01 * entropy.mean() + 0.5 * v_loss

                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), max_grad_norm)
                optimizer.step()
