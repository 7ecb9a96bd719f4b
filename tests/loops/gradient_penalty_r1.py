"""A discriminator with a lazy gradient penalty: some updates have a second backward of their own."""

import torch
import torch.nn.functional as F


def r1_penalty(judge, real):
    real = real.detach().requires_grad_(True)
    (slope,) = torch.autograd.grad(judge(real).sum(), real, create_graph=True)
    return slope.square().flatten(1).sum(dim=1).mean()


def judge_step(judge, painter, optimizer, real, z, gamma, lazy):
    optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        fake = painter(z)
    loss = F.softplus(judge(fake)).mean() + F.softplus(-judge(real)).mean()
    loss.backward()
    if lazy:
        penalty = gamma / 2 * r1_penalty(judge, real)
        penalty.backward()
    torch.nn.utils.clip_grad_norm_(judge.parameters(), 1.0)
    optimizer.step()


def painter_step(judge, painter, optimizer, z):
    judge.requires_grad_(False)
    optimizer.zero_grad(set_to_none=True)
    F.softplus(-judge(painter(z))).mean().backward()
    optimizer.step()
    judge.requires_grad_(True)


def train(judge, painter, loader, width=4, gamma=0.02, every=2):
    judge_optimizer = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.0, 0.99))
    painter_optimizer = torch.optim.Adam(painter.parameters(), lr=2e-3, betas=(0.0, 0.99))
    for i, (real, _) in enumerate(loader):
        z = torch.randn(len(real), width)
        judge_step(judge, painter, judge_optimizer, real, z, gamma, i % every == 0)
        painter_step(judge, painter, painter_optimizer, z)
