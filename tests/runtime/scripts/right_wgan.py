"""Several critic steps for one generator step, weight clamps, and a gradient penalty that needs a second graph."""
import torch
from torch import autograd, nn

N_CRITIC = 3
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
critic = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))


def gradient_penalty(real, fake):
    weight = torch.rand(real.size(0), 1)
    mixed = (weight * real + (1 - weight) * fake).requires_grad_(True)
    score = critic(mixed)
    (grad,) = autograd.grad(score, mixed, torch.ones_like(score), create_graph=True, retain_graph=True)
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


for i in range(60):
    real, noise = torch.randn(16, 8), torch.randn(16, 4)
    opt_c.zero_grad()
    fake = generator(noise)
    loss_c = critic(fake.detach()).mean() - critic(real).mean() + 10 * gradient_penalty(real, fake.detach())
    loss_c.backward()
    opt_c.step()
    for p in critic.parameters():
        p.data.clamp_(-0.5, 0.5)
    if i % N_CRITIC == 0:
        opt_g.zero_grad()
        loss_g = -critic(generator(noise)).mean()
        loss_g.backward()
        opt_g.step()
