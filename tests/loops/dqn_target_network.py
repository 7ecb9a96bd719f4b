"""Deep Q-learning: `train_frequency` and target updates are no accumulation."""

import torch
import torch.nn.functional as F


def learn(env, q_network, target_network, buffer, total=500_000, train_frequency=4, target_every=1000):
    optimizer = torch.optim.Adam(q_network.parameters(), lr=2.5e-4)
    obs, _ = env.reset()
    for global_step in range(total):
        action = q_network(torch.as_tensor(obs)[None]).argmax(dim=1).item()
        nxt, reward, terminated, truncated, _ = env.step(action)
        buffer.add(obs, nxt, action, reward, terminated)
        obs = env.reset()[0] if terminated or truncated else nxt
        if global_step < 10_000:
            continue
        if global_step % train_frequency == 0:
            data = buffer.sample(128)
            with torch.no_grad():
                best = target_network(data.next_observations).max(dim=1).values
                td_target = data.rewards + 0.99 * best * (1 - data.dones)
            old = q_network(data.observations).gather(1, data.actions).squeeze(1)
            loss = F.mse_loss(old, td_target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if global_step % target_every == 0:
            target_network.load_state_dict(q_network.state_dict())
