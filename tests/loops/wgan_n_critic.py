"""`i % n_critic` is how often the generator learns, not an accumulation window."""

import torch
from torch.autograd import grad as autograd_grad


def gradient_penalty(critic, real, fake):
    alpha = torch.rand(real.size(0), 1, 1, 1, device=real.device)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    slopes = autograd_grad(critic(mixed).sum(), mixed, create_graph=True)[0]
    return ((slopes.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


def train(generator, critic, images, *, n_critic=5, lambda_gp=10.0, z_dim=128):
    opt_g = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    for i, real in enumerate(images):
        z = torch.randn(real.size(0), z_dim, device=real.device)

        opt_c.zero_grad()
        fake = generator(z).detach()
        c_loss = critic(fake).mean() - critic(real).mean() + lambda_gp * gradient_penalty(critic, real, fake)
        c_loss.backward()
        opt_c.step()

        if i % n_critic == 0:
            opt_g.zero_grad()
            g_loss = -critic(generator(z)).mean()
            g_loss.backward()
            opt_g.step()
        if i % 500 == 0:
            print(i, c_loss.item(), g_loss.item())
